//! Files of the kernel that are read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use wattline_linux::sysfs::Tree;

/// A file of the kernel that is read again and again, without being opened or allocating anew.
pub(super) struct Text {
    path: PathBuf,
    /// Stays open on the running machine; the file of a recording may be another one each time.
    file: Option<File>,
    live: bool,
    buffer: Vec<u8>,
}

impl Text {
    pub fn new(tree: &Tree, path: &str) -> Self {
        let path = tree.path(path);
        Self { path, file: None, live: tree.is_live(), buffer: vec![0; 256] }
    }

    /// The number that it holds now.
    pub fn number(&mut self) -> Option<u64> {
        self.read().trim().parse().ok()
    }

    /// What it holds now; nothing where it cannot be read.
    pub fn read(&mut self) -> &str {
        /// Of more than a thousand CPUs.
        const MOST: usize = 4 << 20;
        if self.file.is_none() || !self.live {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &self.file else { return "" };
        let mut length = 0;
        loop {
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Such as that of an interface that has gone, and may come back.
                    self.file = None;
                    return "";
                }
            }
            if length == self.buffer.len() {
                if length >= MOST {
                    break;
                }
                self.buffer.resize(2 * length, 0);
            }
        }
        std::str::from_utf8(&self.buffer[..length]).unwrap_or_default()
    }
}
