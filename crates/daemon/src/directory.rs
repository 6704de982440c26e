//! Directories of control sockets: they are used only if no other user can change them.
//!
//! A user who can rename a socket can replace it with his own, and receives the requests of others.

use super::socket_error::SocketError;
use rustix::process::{geteuid, getuid};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Directory for sockets of root's daemons.
pub(crate) const OF_ROOT: &str = "/run/wattline";
/// Write permission of group and others.
const WRITABLE: u32 = 0o022;
/// In such a directory, only owners may rename files.
const STICKY: u32 = 0o1000;

/// Returns the directory in which daemons put their sockets, unless the configuration names
/// another.
pub fn directory() -> PathBuf {
    if let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        return PathBuf::from(directory).join("wattline");
    }
    let user = getuid();
    if user.is_root() {
        return PathBuf::from(OF_ROOT);
    }
    std::env::temp_dir().join(format!("wattline-{}", user.as_raw()))
}

/// Creates the directory of a socket if it is missing, and checks it.
///
/// # Errors
/// Fails if the directory cannot be created, or if others may change its contents.
pub(crate) fn prepare(socket: &Path) -> Result<(), SocketError> {
    let Some(parent) = socket.parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    let bind = |source| SocketError::Bind { path: socket.to_owned(), source };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(parent).map_err(bind)?;
    match parent == directory() {
        true => check(parent),
        // The administrator's choice: directories further up are his responsibility.
        false => refusal(parent, &parent.metadata().map_err(bind)?, false),
    }
}

/// Checks that only root and this user can replace files in one of the usual directories. A
/// directory that does not exist holds nothing.
///
/// # Errors
/// [`SocketError::Untrusted`].
pub(crate) fn check(directory: &Path) -> Result<(), SocketError> {
    let unreadable = |error: io::Error| untrusted(directory, error.to_string());
    let found = match directory.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    };
    refusal(directory, &found, true)?;
    let whole = directory.canonicalize().map_err(unreadable)?;
    for above in whole.ancestors().skip(1) {
        refusal(above, &above.symlink_metadata().map_err(unreadable)?, false)?;
    }
    Ok(())
}

/// Returns the reason why a directory cannot be trusted. A socket's own directory, if it is one of
/// the usual ones, has to belong to this user or root alone; in others, only renaming has to be
/// forbidden.
fn refusal(path: &Path, found: &Metadata, own: bool) -> Result<(), SocketError> {
    let mode = found.mode() & 0o7777;
    let why = if found.is_symlink() {
        "it is a symbolic link".to_owned()
    } else if !found.is_dir() {
        "it is no directory".to_owned()
    } else if found.uid() != 0 && found.uid() != geteuid().as_raw() {
        format!("it belongs to user {}", found.uid())
    } else if mode & WRITABLE != 0 && (own || mode & STICKY == 0) {
        format!("others may write to it (mode {mode:o})")
    } else {
        return Ok(());
    };
    Err(untrusted(path, why))
}

fn untrusted(path: &Path, why: String) -> SocketError {
    SocketError::Untrusted { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn rejection(directory: &Path) -> String {
        check(directory).unwrap_err().to_string()
    }

    #[test]
    fn own_and_missing_directories_are_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("wattline");
        check(&own).unwrap();
        fs::create_dir(&own).unwrap();
        for mode in [0o700, 0o750, 0o755] {
            fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
            check(&own).unwrap();
        }
    }

    #[test]
    fn directory_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("wattline");
        fs::create_dir(&own).unwrap();
        for mode in [0o777, 0o770, 0o1777] {
            fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
            assert!(rejection(&own).contains(&format!("others may write to it (mode {mode:o})")));
        }
        fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
        // Others may rename it, unless the directory above is sticky.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(rejection(&own).contains("others may write to it"), "{}", rejection(&own));
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        check(&own).unwrap();
        let link = folder.path().join("link");
        symlink(&own, &link).unwrap();
        assert!(rejection(&link).contains("it is a symbolic link"));
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(rejection(&folder.path().join("file")).contains("it is no directory"));
    }

    #[test]
    fn directory_of_another_user_is_refused_at_any_height() {
        if !geteuid().is_root() {
            return wattline_needs::rights("root, for a directory of another user");
        }
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/wattline");
        fs::create_dir_all(&own).unwrap();
        check(&own).unwrap();
        chown(&own, Some(65534), None).unwrap();
        assert!(rejection(&own).contains("it belongs to user 65534"), "{}", rejection(&own));
        chown(&own, Some(0), None).unwrap();
        chown(own.parent().unwrap(), Some(65534), None).unwrap();
        assert!(rejection(&own).contains("/a: it belongs to user 65534"), "{}", rejection(&own));
        // A socket at a configured path, too.
        let socket = own.parent().unwrap().join("s.sock");
        assert!(matches!(prepare(&socket), Err(SocketError::Untrusted { .. })));
    }
}
