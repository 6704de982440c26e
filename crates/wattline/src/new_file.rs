//! Opening a file named on the command line for writing, without losing its contents.

use crate::exit::ExitError;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use wattline_files::is_of_this_process;

/// Message for an existing regular file if replacing it was not requested.
pub const EXISTS: &str = "is there already; allowed with --overwrite";

/// Returns the error of a file that could not be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> ExitError {
    let code = match error.kind() {
        ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
        _ => ExitError::IO,
    };
    ExitError::new(code, cannot(path, error))
}

/// Returns the text of that error.
pub fn cannot(path: &Path, error: &dyn fmt::Display) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// Returns an error, after removing `path`: the file is new and incomplete.
pub fn without(
    path: &Path,
    error: ExitError,
    remove: impl FnOnce(&Path) -> io::Result<()>,
) -> ExitError {
    match remove(path) {
        Ok(()) => error,
        Err(why) => {
            let rest = format!("{}: cannot be removed, and is not whole: {why}", path.display());
            ExitError { message: format!("{}\n{rest}", error.message), ..error }
        }
    }
}

/// Opens `path` for writing. An existing regular file is replaced only with `overwrite`; pipes,
/// devices and the current target of standard output are opened as they are. Links are not followed
/// ([`wattline_files::create`]).
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] for a regular file without `overwrite`, which is then unchanged;
/// otherwise the error of opening or creating the file.
pub fn open(path: &Path, overwrite: bool) -> io::Result<File> {
    if overwrite || is_of_this_process(path) {
        return wattline_files::create(path);
    }
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        done => return done,
    }
    // Checks the opened file, not the name: the name may get another file in between.
    let there = || io::Error::new(ErrorKind::AlreadyExists, EXISTS);
    if path.is_file() {
        return Err(there());
    }
    let file = wattline_files::open_existing(path)?;
    match file.metadata()?.is_file() {
        true => Err(there()),
        false => Ok(file),
    }
}

/// Returns true if [`open`] would refuse `path` because a regular file exists. For an early
/// message; only `open` is reliable.
pub fn refuses(path: &Path, overwrite: bool) -> bool {
    !overwrite && path.is_file() && !is_of_this_process(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    #[test]
    fn a_file_that_exists_is_replaced_only_with_overwrite() {
        let path = std::env::temp_dir().join(format!("wattline-new-file-{}", std::process::id()));
        assert!(!refuses(&path, false));
        open(&path, false).unwrap().write_all(b"mine").unwrap();
        assert!(refuses(&path, false) && !refuses(&path, true));
        let error = open(&path, false).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::AlreadyExists, EXISTS.to_owned())
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        open(&path, true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_link_to_a_file_is_refused_like_the_file_and_devices_are_not() {
        let name = format!("wattline-new-file-link-{}", std::process::id());
        let file = std::env::temp_dir().join(&name);
        let link: PathBuf = std::env::temp_dir().join(name + ".link");
        std::fs::write(&file, "mine").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(open(&link, false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
        std::fs::remove_file(&file).unwrap();
        // The link is dangling now: nothing is created at its target.
        assert!(open(&link, false).is_err() && !file.exists());
        std::fs::remove_file(&link).unwrap();
        let null = Path::new("/dev/null");
        assert!(!refuses(null, false) && open(null, false).is_ok());
        // Not opened here: that would truncate the test's log.
        assert!(!refuses(Path::new("/dev/stdout"), false));
    }
}
