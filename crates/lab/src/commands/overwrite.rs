//! `--overwrite` of commands that write results into files.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use wattline::exit::ExitError;
use wattline::new_file::{EXISTS, cannot, cannot_write, open, refuses, without};

/// Permission to replace files named on the command line.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Overwrite {
    /// Replace these files if they exist.
    #[arg(long)]
    overwrite: bool,
}

impl Overwrite {
    /// Value for files that a command may always replace.
    pub const REPLACE: Self = Self { overwrite: true };

    /// Checks before minutes of work that all of these files may be written.
    ///
    /// # Errors
    /// Returns all files that exist.
    pub fn check<'a>(self, files: impl IntoIterator<Item = &'a Path>) -> Result<(), ExitError> {
        let refused = files.into_iter().filter(|path| refuses(path, self.overwrite));
        let problems: Vec<_> =
            refused.map(|path| format!("{}: {EXISTS}", path.display())).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ExitError::new(ExitError::IO, problems.join("\n")))
        }
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// Fails as [`open`], and when the disk is full.
    pub fn write(self, path: &Path, text: &str) -> Result<(), ExitError> {
        self.write_by(path, |mut file| file.write_all(text.as_bytes()))
    }

    /// Writes a file with the contents that `fill` writes.
    ///
    /// # Errors
    /// Fails as [`Self::write`]. A file that did not exist before is then removed, so that the same
    /// command can be repeated without `--overwrite`.
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
    fn all_existing_files_are_named_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            Overwrite::default().write(path, "mine").unwrap();
        }
        let files = [one.as_path(), &two, &three];
        let message = Overwrite::default().check(files).unwrap_err().to_string();
        assert!(
            message.contains("one: is there") && message.contains("two: is there"),
            "{message}"
        );
        assert!(!message.contains("three"), "{message}");
        Overwrite::default().write(&one, "other").unwrap_err();
        assert_eq!(std::fs::read(&one).unwrap(), b"mine");
        let replace = Overwrite { overwrite: true };
        replace.check(files).unwrap();
        replace.write(&one, "new").unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), b"new");
    }
}
