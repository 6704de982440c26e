//! Opening a file that a command line names for writing, without losing what is in it.

use crate::exit::ExitError;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use wattline_files::is_of_this_process;

/// Said of a regular file that exists, where nobody asked for it to be replaced.
pub const THERE: &str = "is there already; allowed with --overwrite";

/// Whether files that a command line names are replaced.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Overwrite {
    /// Replace these files if they exist.
    #[arg(long)]
    overwrite: bool,
}

impl Overwrite {
    /// For files that a command may always replace.
    pub const REPLACE: Self = Self { overwrite: true };

    /// Before minutes of work: are all of these free to be written?
    ///
    /// # Errors
    /// Names each file that is there.
    pub fn check<'a>(self, files: impl IntoIterator<Item = &'a Path>) -> Result<(), ExitError> {
        let refused = files.into_iter().filter(|path| refuses(path, self.overwrite));
        let told: Vec<_> = refused.map(|path| format!("{}: {THERE}", path.display())).collect();
        if told.is_empty() { Ok(()) } else { Err(ExitError::new(ExitError::IO, told.join("\n"))) }
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// As [`open`], and when the disk is full.
    pub fn write(self, path: &Path, text: &str) -> Result<(), ExitError> {
        self.write_by(path, |mut file| file.write_all(text.as_bytes()))
    }

    /// The same, where `fill` writes what belongs into the file.
    ///
    /// # Errors
    /// As [`Self::write`]. A file that was not there before is removed then: the same command can be
    /// given again without `--overwrite`.
    pub fn write_by<E: fmt::Display>(
        self,
        path: &Path,
        fill: impl FnOnce(File) -> Result<(), E>,
    ) -> Result<(), ExitError> {
        let there = path.symlink_metadata().is_ok();
        let file = open(path, self.overwrite).map_err(|error| cannot_write(path, &error))?;
        fill(file).map_err(|error| {
            let error = ExitError::new(ExitError::IO, cannot(path, &error));
            if there { error } else { without(path, error, |path| fs::remove_file(path)) }
        })
    }
}

/// The error of a file that could not be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> ExitError {
    let code = match error.kind() {
        ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
        _ => ExitError::IO,
    };
    ExitError::new(code, cannot(path, error))
}

fn cannot(path: &Path, error: &dyn fmt::Display) -> String {
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
    fn all_files_that_are_there_are_named_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            Overwrite::default().write(path, "mine").unwrap();
        }
        let files = [one.as_path(), &two, &three];
        let told = Overwrite::default().check(files).unwrap_err().to_string();
        assert!(told.contains("one: is there") && told.contains("two: is there"), "{told}");
        assert!(!told.contains("three"), "{told}");
        Overwrite::default().write(&one, "other").unwrap_err();
        assert_eq!(std::fs::read(&one).unwrap(), b"mine");
        let replace = Overwrite { overwrite: true };
        replace.check(files).unwrap();
        replace.write(&one, "new").unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), b"new");
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
