//! Which machine a command looks at, and how errors of knobs and meters end it.

use crate::exit::ExitError;
use std::path::PathBuf;
use wattline_knobs::journal::JournalError;
use wattline_knobs::{STATE_DIRECTORY, SessionError};
use wattline_linux::sysfs::{ReadError, Tree};

/// The machine: this one, or a recording.
#[derive(Debug, clap::Args)]
pub struct Root {
    /// Look at the machine recorded below this directory instead of this one.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    root: PathBuf,
}

impl Root {
    /// Its files.
    pub fn tree(&self) -> Result<Tree, ExitError> {
        // A mistyped directory must not pass for a machine that has nothing.
        if !self.root.join("sys").is_dir() && !self.root.join("proc").is_dir() {
            let message = format!("{}: holds neither sys nor proc", self.root.display());
            return Err(ExitError::new(ExitError::NO_INPUT, message));
        }
        Ok(Tree::at(&self.root))
    }

    /// Where its journal is.
    pub fn state(&self) -> PathBuf {
        self.root.join(STATE_DIRECTORY.trim_start_matches('/'))
    }
}

impl From<SessionError> for ExitError {
    fn from(error: SessionError) -> Self {
        let denied = |error: &std::io::Error| {
            matches!(
                error.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            )
        };
        let code = match &error {
            SessionError::Busy { .. } => Self::UNAVAILABLE,
            SessionError::State { error, .. }
            | SessionError::Journal(JournalError::File { error, .. })
                if denied(error) =>
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
