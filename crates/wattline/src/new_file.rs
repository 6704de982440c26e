//! Opening a file that a command line names for writing, without losing what is in it.

use crate::exit::ExitError;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use wattline_files::is_of_this_process;

/// Said of a regular file that exists, where nobody asked for it to be replaced.
pub const THERE: &str = "is there already; allowed with --overwrite";

/// The error of a file that could not be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> ExitError {
    let code = match error.kind() {
        ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
        _ => ExitError::IO,
    };
    ExitError::new(code, cannot(path, error))
}

/// The text of that error.
pub fn cannot(path: &Path, error: &dyn fmt::Display) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// An error after which `path` is removed: it was made anew and is not whole.
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

/// Opens `path` for writing. A regular file that exists is replaced only with `overwrite`; pipes
/// and devices are opened as they are, and so is what standard output goes to already. A link is not
/// followed ([`wattline_files::create`]).
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] for a regular file without `overwrite`, which is unchanged then;
/// else as opening and creating a file fails.
pub fn open(path: &Path, overwrite: bool) -> io::Result<File> {
    if overwrite || is_of_this_process(path) {
        return wattline_files::create(path);
    }
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        done => return done,
    }
    // What was opened is asked, not the name: another file may get the name in between.
    let there = || io::Error::new(ErrorKind::AlreadyExists, THERE);
    if path.is_file() {
        return Err(there());
    }
    let file = wattline_files::open_existing(path)?;
    match file.metadata()?.is_file() {
        true => Err(there()),
        false => Ok(file),
    }
}

/// Is a regular file there that [`open`] would refuse? To be asked early; only `open` makes sure.
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
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::AlreadyExists, THERE.to_owned()));
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
        // The link leads nowhere now: nothing is made where it points.
        assert!(open(&link, false).is_err() && !file.exists());
        std::fs::remove_file(&link).unwrap();
        let null = Path::new("/dev/null");
        assert!(!refuses(null, false) && open(null, false).is_ok());
        // Not opened here: that would cut the log of the test off.
        assert!(!refuses(Path::new("/dev/stdout"), false));
    }
}
