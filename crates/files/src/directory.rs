//! An open directory: its names refer to the same files until it is closed.

use crate::reopen;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open directory. Its functions take single names, without `/`, and never follow a link of that
/// name.
#[derive(Debug, Clone)]
pub struct Directory {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory. Links in `path` are followed: the caller chose it.
    ///
    /// # Errors
    /// As opening a directory fails.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::of(rustix::fs::open(path, flags, Mode::empty())?, path.to_owned()))
    }

    pub(crate) fn of(descriptor: OwnedFd, path: PathBuf) -> Self {
        Self { descriptor: Arc::new(descriptor), path }
    }

    /// Returns the directory's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens an existing regular file.
    ///
    /// # Errors
    /// As opening a file fails, and for everything that is not a regular file.
    pub fn open_file(&self, name: &Path, flags: OFlags) -> io::Result<File> {
        let find = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&*self.descriptor, single(name)?, find, Mode::empty())?;
        reopen(found, &[FileType::RegularFile], flags)
    }

    /// Opens a regular file to change it in place. A file with several names is refused: another
    /// name could be anywhere.
    ///
    /// # Errors
    /// As [`Self::open_file`].
    pub fn open_to_change(&self, name: &Path) -> io::Result<File> {
        let file = self.open_file(name, OFlags::RDWR)?;
        if fstat(&file)?.st_nlink > 1 {
            let message = "has another name (hard link), whose content would change";
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(file)
    }

    /// Creates a file for reading and writing at its end; the name must not exist.
    ///
    /// # Errors
    /// As creating a file fails.
    pub fn create_new(&self, name: &Path, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        Ok(openat(&*self.descriptor, single(name)?, flags, mode)?.into())
    }

    /// Gives a name a new content, on the disk, completely or not at all, and returns the new file.
    /// Until then `NAME.new` contains it. An existing file of that name is a leftover, and is
    /// removed first.
    ///
    /// # Errors
    /// As creating, writing and renaming a file fails.
    pub fn replace(&self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replaced(name, bytes, 0o666).map(drop)
    }

    /// Like [`Self::replace`], with a mode for the new file, which it returns.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replaced(&self, name: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
        let mut new = single(name)?.as_os_str().to_owned();
        new.push(".new");
        let new = Path::new(&new);
        self.remove(new)?;
        let mut file = self.create_new(new, mode)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| self.rename(new, name));
        // On a full disk half a file takes space that another file may need.
        renamed.inspect_err(|_| drop(self.remove(new)))?;
        Ok(file)
    }

    /// Renames a file, replacing an existing one.
    ///
    /// # Errors
    /// As renaming a file fails.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(renameat(&*self.descriptor, single(from)?, &*self.descriptor, single(to)?)?)
    }

    /// Removes a file; an absent one is no error.
    ///
    /// # Errors
    /// As removing a file fails.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        match unlinkat(&*self.descriptor, single(name)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a directory; an existing one is no error.
    ///
    /// # Errors
    /// As making a directory fails.
    pub fn make_directory(&self, name: &Path) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o777);
        match mkdirat(&*self.descriptor, single(name)?, mode) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory itself, to lock it or to flush its names.
    ///
    /// # Errors
    /// As opening a directory fails.
    pub fn as_file(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&*self.descriptor, ".", flags, Mode::empty())?.into())
    }

    /// Flushes the directory; returns once its names are on the disk.
    ///
    /// # Errors
    /// As flushing a directory fails.
    pub fn sync(&self) -> io::Result<()> {
        self.as_file()?.sync_all()
    }
}

/// Returns the name if it has a single component.
fn single(name: &Path) -> io::Result<&Path> {
    match name.file_name() {
        Some(last) if Path::new(last).as_os_str() == name.as_os_str() => Ok(name),
        _ => Err(Errno::INVAL.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_devices_pipes_and_paths_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "1").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("none", at("dangling")).unwrap();
        fs::hard_link(at("file"), at("other")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR).unwrap();
        for name in ["link", "dangling", "pipe", "../file", "a/b", "", ".", ".."] {
            let name = Path::new(name);
            assert!(directory.open_file(name, OFlags::RDONLY).is_err(), "{name:?}");
            assert!(directory.create_new(name, 0o600).is_err(), "{name:?}");
        }
        assert!(directory.open_file(Path::new("other"), OFlags::RDONLY).is_ok());
        assert!(directory.open_to_change(Path::new("other")).is_err());
        directory.remove(Path::new("other")).unwrap();
        assert!(directory.open_to_change(Path::new("file")).is_ok());
        assert!(!at("none").exists());
    }

    #[test]
    fn replaced_file_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        for text in ["one", "two"] {
            fs::write(folder.path().join("file.new"), "left over").unwrap();
            directory.replace(Path::new("file"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), text);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}
