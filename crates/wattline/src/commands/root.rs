//! Machine that a command examines, and exit codes for errors of knobs and meters.

use crate::exit::ExitError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use wattline_knobs::journal::JournalError;
use wattline_knobs::{STATE_DIRECTORY, SessionError};
use wattline_linux::sysfs::{ReadError, Tree};

/// The machine: this one, or a recording.
#[derive(Debug, clap::Args)]
pub struct Root {
    /// Use the machine recorded below this directory instead of this one.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    root: PathBuf,
}

impl Root {
    /// Opens its files.
    pub fn tree(&self) -> Result<Tree, ExitError> {
        // A mistyped directory must not pass for a machine that has nothing.
        if !self.root.join("sys").is_dir() && !self.root.join("proc").is_dir() {
            let root = self.root.display();
            let message = match self.root.metadata() {
                Ok(it) if it.is_dir() => format!("{root}: holds neither sys nor proc"),
                Ok(_) => format!("{root}: is no directory; unpack an archive first (tar -xzf)"),
                Err(error) => format!("{root}: {error}"),
            };
            return Err(ExitError::new(ExitError::NO_INPUT, message));
        }
        Ok(Tree::at(&self.root))
    }

    /// Returns true if it is a recording.
    pub fn is_recorded(&self) -> bool {
        self.root != Path::new("/")
    }

    /// Returns the arguments that name it.
    pub fn arguments(&self) -> [&OsStr; 2] {
        [OsStr::new("--root"), self.root.as_os_str()]
    }

    /// Returns the folder of its journal.
    pub fn state(&self) -> PathBuf {
        self.root.join(STATE_DIRECTORY.trim_start_matches('/'))
    }
}

impl From<SessionError> for ExitError {
    fn from(error: SessionError) -> Self {
        let read_only =
            |error: &std::io::Error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
        if let SessionError::State { error: cause, .. }
        | SessionError::Journal(JournalError::File { error: cause, .. }) = &error
            && cause.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Self::new(Self::NO_PERMISSION, format_args!("{error}; run this as root"));
        }
        let code = match &error {
            SessionError::Busy { .. } => Self::UNAVAILABLE,
            SessionError::State { error, .. }
            | SessionError::Journal(JournalError::File { error, .. })
                if read_only(error) =>
            {
                Self::NO_PERMISSION
            }
            SessionError::Boot(ReadError::NoPermission(_)) => Self::NO_PERMISSION,
            SessionError::Journal(JournalError::Untrusted { .. }) => Self::DATA,
            SessionError::State { .. }
            | SessionError::Journal(_)
            | SessionError::Boot(_)
            | SessionError::Left(_)
            | SessionError::Unrestored(..) => Self::IO,
        };
        Self::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn missing_rights_are_reported_with_advice() {
        let ended = |kind: ErrorKind| {
            let path = PathBuf::from("/var/lib/wattline/knobs.lock");
            ExitError::from(SessionError::State { path, error: Error::from(kind) })
        };
        let denied = ended(ErrorKind::PermissionDenied);
        assert_eq!(denied.code, ExitError::NO_PERMISSION);
        let message = denied.to_string();
        assert!(
            message.contains("knobs.lock") && message.ends_with("; run this as root"),
            "{message}"
        );
        // No user can write there.
        let read_only = ended(ErrorKind::ReadOnlyFilesystem);
        assert_eq!(read_only.code, ExitError::NO_PERMISSION);
        assert!(!read_only.to_string().contains("root"), "{read_only}");
    }
}
