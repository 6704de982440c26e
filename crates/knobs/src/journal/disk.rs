//! Storage of a journal's bytes.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wattline_files::Directory;

/// Mode of the file: other users may not write it.
const MODE: u32 = 0o600;

/// A file that grows at its end. Each call can fail; tests substitute one that does.
pub(crate) trait Disk: Debug + Send {
    /// Writes behind the last byte; a failure may leave some of the bytes there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file to this many bytes.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Returns when all bytes are on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Replaces the old file by a new one with these bytes, on the disk; after a failure the old
    /// one remains.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when the name of the file is on the disk.
    fn sync_name(&mut self) -> io::Result<()>;
}

/// A file with its name.
#[derive(Debug)]
pub(super) struct Named {
    directory: Directory,
    name: PathBuf,
    file: File,
}

impl Named {
    /// Creates an empty file.
    pub fn create(directory: &Directory, name: &str) -> io::Result<Self> {
        let file = directory.create_new(Path::new(name), MODE)?;
        Ok(Self { directory: directory.clone(), name: name.into(), file })
    }
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
        self.file = self.directory.replaced(&self.name, bytes, MODE)?;
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        self.directory.sync()
    }
}
