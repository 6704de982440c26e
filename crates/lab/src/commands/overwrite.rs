//! `--overwrite` of commands that write results into files.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use wattline::exit::ExitError;
use wattline::new_file::{EXISTS, cannot, cannot_write, open, refuses, without};

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
        let told: Vec<_> = refused.map(|path| format!("{}: {EXISTS}", path.display())).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
