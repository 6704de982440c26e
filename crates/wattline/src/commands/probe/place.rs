//! Destination of a machine's record: a folder, which can be inspected before it is given away, or
//! an archive, ready to be given away.

use crate::exit::ExitError;
use crate::new_file::{cannot_write, without};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tar::{Builder, Header};
use wattline_files::Root;

/// Suffixes of archives.
const ARCHIVES: [&[u8]; 2] = [b".tar.gz", b".tgz"];

/// Files of a new folder or archive. They stay in memory, some megabytes, until the record is
/// complete, so that an interruption leaves no partial record.
#[derive(Default)]
pub struct Place {
    files: BTreeMap<PathBuf, String>,
}

/// Returns the folder within an archive; `None` if the path does not name an archive.
fn folder_of(path: &Path) -> Option<&Path> {
    let name = path.file_name()?.as_bytes();
    let folder = ARCHIVES.iter().find_map(|end| name.strip_suffix(*end))?;
    // These names would be unpacked among existing files, or nowhere.
    let no_name = [b"".as_slice(), b".", b".."].contains(&folder);
    Some(Path::new(if no_name { OsStr::new("record") } else { OsStr::from_bytes(folder) }))
}

impl Place {
    /// Starts a record, fills it, and writes it.
    ///
    /// # Errors
    /// Fails if the path exists, which is then left as it is, or if something cannot be written.
    pub fn filled<T>(
        path: &Path,
        fill: impl FnOnce(&mut Self) -> Result<T, ExitError>,
    ) -> Result<T, ExitError> {
        let folder = folder_of(path);
        // Filling it may take an hour.
        let made = match folder {
            Some(_) => File::create_new(path).and_then(|_| fs::remove_file(path)),
            None => fs::create_dir(path).and_then(|()| fs::remove_dir(path)),
        };
        made.map_err(|error| new(path, &error))?;
        let mut place = Self::default();
        let filled = fill(&mut place)?;
        match folder {
            Some(folder) => place.write_archive(path, folder)?,
            None => place.write_folder(path)?,
        }
        Ok(filled)
    }

    /// Adds a file; its path is relative. The same file can belong to two knobs.
    pub fn put(&mut self, file: &Path, text: &str) {
        self.files.insert(file.to_owned(), text.to_owned());
    }

    fn write_folder(&self, path: &Path) -> Result<(), ExitError> {
        fs::create_dir(path).map_err(|error| new(path, &error))?;
        let root = Root::new(path);
        let write = |file: &Path, text: &str| {
            let directory = root.make_directory(file.parent().unwrap_or(Path::new("")))?;
            let name = Path::new(file.file_name().unwrap_or_default());
            directory.create_new(name, 0o666)?.write_all(text.as_bytes())
        };
        let mut files = self.files.iter();
        let written = files.try_for_each(|(file, text)| {
            write(file, text).map_err(|error| cannot_write(&path.join(file), &error))
        });
        written.map_err(|error| without(path, error, |folder| fs::remove_dir_all(folder)))
    }

    /// Writes the files within a folder of an archive.
    fn write_archive(&self, path: &Path, folder: &Path) -> Result<(), ExitError> {
        let whole = self.archived(folder).map_err(|error| cannot_write(path, &error))?;
        // Existing files are never opened, whether pipe, device or a link to one.
        let mut file = File::create_new(path).map_err(|error| new(path, &error))?;
        let written = file.write_all(&whole).map_err(|error| cannot_write(path, &error));
        written.map_err(|error| without(path, error, |path| fs::remove_file(path)))
    }

    fn archived(&self, folder: &Path) -> io::Result<Vec<u8>> {
        let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (file, text) in &self.files {
            // The archive contains neither the owner nor the time of the record.
            let mut header = Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            archive.append_data(&mut header, folder.join(file), text.as_bytes())?;
        }
        archive.into_inner().and_then(GzEncoder::finish)
    }
}

/// Returns the error of a record that cannot be started.
fn new(path: &Path, error: &io::Error) -> ExitError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let message = format_args!("{}: is there already; name a new one", path.display());
        return ExitError::new(ExitError::IO, message);
    }
    cannot_write(path, error)
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
            (".tar.gz", Some("record")),
            ("...tar.gz", Some("record")),
            ("b.tar", None),
            ("b.tar.gz/..", None),
            ("b", None),
        ] {
            assert_eq!(folder_of(Path::new(path)), folder.map(Path::new), "{path}");
        }
        let odd = Path::new(OsStr::from_bytes(b"b\xff.tar.gz"));
        assert_eq!(folder_of(odd).unwrap().as_os_str().as_bytes(), b"b\xff");
    }

    /// The archive is read by the system's tar, with names longer than a tar header holds.
    #[test]
    fn archive_has_the_contents_of_the_folder() {
        let directory = tempfile::tempdir().unwrap();
        let long = format!("sys/{}/{}/x", "a".repeat(120), "b".repeat(120));
        let files = [("proc/irq/5/eth9-TxRx-0/recorded", "\n"), (&long, "5\n")];
        for name in ["folder", "copy.tar.gz"] {
            let filled = Place::filled(&directory.path().join(name), |place| {
                files.iter().for_each(|(file, text)| place.put(Path::new(file), text));
                Ok(())
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
    fn existing_file_stays_and_half_a_record_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let fails = |place: &mut Place| -> Result<(), ExitError> {
            place.put(Path::new("a"), "text");
            Err(ExitError::new(ExitError::IO, "no more"))
        };
        fs::write(at("file.tgz"), "mine").unwrap();
        std::os::unix::fs::symlink("/dev/full", at("link.tgz")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["file.tgz", "link.tgz", "folder"] {
            let refused = Place::filled(&at(name), fails).unwrap_err();
            assert!(refused.message.ends_with("is there already; name a new one"), "{refused:?}");
            assert!(at(name).symlink_metadata().is_ok(), "{name} is gone");
        }
        assert_eq!(fs::read_to_string(at("file.tgz")).unwrap(), "mine");
        for name in ["new.tgz", "new"] {
            assert_eq!(Place::filled(&at(name), fails).unwrap_err().message, "no more");
            assert!(!at(name).exists(), "{name} is left");
        }
        let lost = Place::filled(&at("none/new.tgz"), |_| Ok(())).unwrap_err();
        assert!(lost.message.contains("No such file"), "{lost:?}");
    }

    /// A file that appears at the path while the record is being made also stays.
    #[test]
    fn archive_keeps_a_file_created_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tgz");
        let taken = Place::filled(&path, |_| {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("mine"), "").map_err(|error| cannot_write(&path, &error))
        });
        assert!(taken.unwrap_err().message.contains("is there already"));
        assert!(path.join("mine").exists());
    }
}
