//! Where the bytes of a journal go.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that grows at its end. Each call can fail; tests put one in its place that does.
pub(crate) trait Disk: Debug + Send {
    /// Writes behind the last byte; a failure may leave some of the bytes there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to so many bytes.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Returns when all bytes are on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Puts a new file with these bytes, on the disk, in the place of the old one; after a
    /// failure the old one is there.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when the name of the file is on the disk.
    fn sync_name(&mut self) -> io::Result<()>;
}

/// A file.
#[derive(Debug)]
pub(super) struct Named {
    path: PathBuf,
    file: File,
}

impl Named {
    /// Makes an empty file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), file: make(path)? })
    }
}

fn make(path: &Path) -> io::Result<File> {
    File::options().append(true).create_new(true).mode(0o600).open(path)
}

impl Disk for Named {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let new = self.path.with_extension("journal.new");
        let _ = std::fs::remove_file(&new);
        let written = make(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)?;
            Ok(file)
        });
        match written {
            Ok(file) => self.file = file,
            Err(error) => {
                // On a full disk half a file takes the room that the old one may need.
                let _ = std::fs::remove_file(&new);
                return Err(error);
            }
        }
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        sync_directory(&self.path)
    }
}

/// A name is on disk only when its directory is.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
