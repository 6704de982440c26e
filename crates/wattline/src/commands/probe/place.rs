//! Where the record of a machine goes: a folder, which can be looked through before it is given
//! away, or an archive, which can be given away as it is.

use crate::exit::ExitError;
use crate::new_file::{cannot_write, open, without};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tar::{Builder, Header};

/// What names of archives end in.
const ARCHIVES: [&str; 2] = [".tar.gz", ".tgz"];

/// A new folder or archive.
pub enum Place {
    /// Holds the files by their paths.
    Folder(PathBuf),
    /// The same within one folder of the archive's name.
    Archive { path: PathBuf, folder: String, archive: Box<Builder<GzEncoder<File>>> },
}

/// The name of the folder within an archive; `None` for a path that is none of an archive.
fn folder_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let folder = ARCHIVES.iter().find_map(|end| name.strip_suffix(end))?;
    (!folder.is_empty()).then_some(folder)
}

impl Place {
    /// Begins a record, makes it whole by `fill`, and takes it away where that fails: half a record
    /// would look like a whole one, and would be in the way of the next try.
    ///
    /// # Errors
    /// Where something is there already or cannot be written.
    pub fn filled<T>(
        path: &Path,
        fill: impl FnOnce(&mut Self) -> Result<T, ExitError>,
    ) -> Result<T, ExitError> {
        let mut place = Self::begin(path)?;
        match fill(&mut place).and_then(|filled| place.finish().map(|()| filled)) {
            Err(error) if path.is_dir() => {
                Err(without(path, error, |path| fs::remove_dir_all(path)))
            }
            Err(error) => Err(without(path, error, |path| fs::remove_file(path))),
            filled => filled,
        }
    }

    fn begin(path: &Path) -> Result<Self, ExitError> {
        let Some(folder) = folder_of(path) else {
            fs::create_dir(path).map_err(|error| new(path, &error))?;
            return Ok(Self::Folder(path.to_owned()));
        };
        let file = open(path, false).map_err(|error| new(path, &error))?;
        let archive = Box::new(Builder::new(GzEncoder::new(file, Compression::default())));
        Ok(Self::Archive { path: path.to_owned(), folder: folder.to_owned(), archive })
    }

    /// Writes a file; its path is relative.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, file: &Path, text: &str) -> Result<(), ExitError> {
        match self {
            Self::Folder(folder) => {
                let target = folder.join(file);
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
                }
                fs::write(&target, text).map_err(|error| cannot_write(&target, &error))
            }
            Self::Archive { path, folder, archive } => {
                // Of the owner and the time of the record, an archive says nothing.
                let mut header = Header::new_gnu();
                header.set_size(text.len() as u64);
                header.set_mode(0o644);
                header.set_uid(0);
                header.set_gid(0);
                header.set_mtime(0);
                let name = Path::new(folder).join(file);
                let put = archive.append_data(&mut header, name, text.as_bytes());
                put.map_err(|error| cannot_write(path, &error))
            }
        }
    }

    fn finish(self) -> Result<(), ExitError> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::Archive { path, archive, .. } => {
                let ended = archive.into_inner().and_then(GzEncoder::finish);
                ended.map(drop).map_err(|error| cannot_write(&path, &error))
            }
        }
    }
}

/// The error of a record that cannot be begun.
fn new(path: &Path, error: &io::Error) -> ExitError {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
        _ => ExitError::IO,
    };
    ExitError::new(code, format_args!("{}: {error}; it must be new", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_archives_have_names_of_archives() {
        for (path, folder) in [
            ("a/b.tar.gz", Some("b")),
            ("b.c.tgz", Some("b.c")),
            ("b.tar", None),
            (".tar.gz", None),
            ("b.tar.gz/..", None),
            ("b", None),
        ] {
            assert_eq!(folder_of(Path::new(path)), folder, "{path}");
        }
    }

    /// Read by the tar of the system, with names longer than a header of tar holds.
    #[test]
    fn an_archive_holds_what_the_folder_holds() {
        let directory = tempfile::tempdir().unwrap();
        let long = format!("sys/{}/{}/x", "a".repeat(120), "b".repeat(120));
        let files = [("proc/irq/5/eth9-TxRx-0/recorded", "\n"), (&long, "5\n")];
        for name in ["folder", "copy.tar.gz"] {
            let filled = Place::filled(&directory.path().join(name), |place| {
                files.iter().try_for_each(|(file, text)| place.put(Path::new(file), text))
            });
            filled.unwrap();
        }
        let mut tar = Command::new("tar");
        assert!(
            tar.current_dir(&directory).args(["xzf", "copy.tar.gz"]).status().unwrap().success()
        );
        let mut diff = Command::new("diff");
        let compared =
            diff.args(["-r", "folder", "copy"]).current_dir(&directory).output().unwrap();
        assert!(compared.status.success() && compared.stdout.is_empty(), "{compared:?}");
    }

    #[test]
    fn what_is_there_stays_and_half_an_archive_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tgz");
        fs::write(&path, "mine").unwrap();
        let refused = Place::filled(&path, |_| Ok(())).unwrap_err();
        assert!(refused.message.contains("must be new"), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
        let failed: Result<(), _> = Place::filled(&path, |place| {
            place.put(Path::new("a"), "text")?;
            Err(ExitError::new(ExitError::IO, "no more"))
        });
        assert_eq!(failed.unwrap_err().message, "no more");
        assert!(!path.exists());
    }
}
