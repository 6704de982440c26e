//! Sequence numbers that outlive the process.
//!
//! A key that is used again after a restart must never see a sequence number twice: the nonce of
//! GCM would repeat (RFC 4106 section 2), and the peer would drop packets as replays. Numbers are
//! therefore written to disk before they may be used ([`Number::write`] waits for the disk), one
//! stretch at a time. Received numbers are written as well, so that old packets are not accepted
//! again.
//!
//! There is one file for each key and direction, named by a keyed hash of the key; a new key starts
//! again. The file is locked while in use, so that two routers cannot use one key.

use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of digits; fixed, so that each number overwrites the one before.
const DIGITS: usize = 20;

/// Directory of the files.
#[derive(Debug, Clone)]
pub(super) struct Store(PathBuf);

/// A sequence number on disk.
#[derive(Debug)]
pub(super) struct Number {
    file: File,
    path: PathBuf,
    value: u64,
}

impl Store {
    /// Opens the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// Fails when it cannot be created.
    pub fn open(path: &Path) -> Result<Self, String> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| format!("[ipsec] state: cannot make {}: {error}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Number of a key and direction; 0 if there is none yet.
    ///
    /// # Errors
    /// Fails when the file cannot be used, or when another process uses it.
    pub fn number(&self, fingerprint: u64, spi: u32, direction: &str) -> Result<Number, String> {
        let path = self.0.join(format!("{fingerprint:016x}-{spi:08x}.{direction}"));
        let number = Number::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // A new file is on disk only after its directory has been written as well.
        let synced = File::open(&self.0).and_then(|directory| directory.sync_all());
        synced.map_err(|error| format!("{}: cannot be synced: {error}", self.0.display()))?;
        Ok(number)
    }
}

impl Number {
    fn open(path: &Path) -> Result<Self, String> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| format!("cannot open it: {error}"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| "another router uses this key now: each tunnel needs its own")?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| format!("cannot read it: {error}"))?;
        let value = match text.trim() {
            "" => 0,
            digits => digits.parse().map_err(|_| {
                "holds no number, so nobody knows which sequence numbers were used: \
                 replace the keys of this tunnel, then delete the file"
            })?,
        };
        Ok(Self { file, path: path.to_owned(), value })
    }

    /// The number as last written.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Writes another number. With `sync` it is on disk when this returns.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old number then remains valid.
    pub fn write(&mut self, value: u64, sync: bool) -> Result<(), String> {
        let failed = |error| format!("{}: cannot write it: {error}", self.path.display());
        let text = format!("{value:0DIGITS$}\n");
        self.file.write_all_at(text.as_bytes(), 0).map_err(failed)?;
        if sync {
            self.file.sync_data().map_err(failed)?;
        }
        self.value = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_and_are_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("a/b")).unwrap();
        let mut number = store.number(7, 0x1001, "out").unwrap();
        assert_eq!(number.value(), 0);
        number.write(u64::MAX, true).unwrap();
        number.write(12, false).unwrap();
        assert!(store.number(7, 0x1001, "out").unwrap_err().contains("another router"));
        assert_eq!(store.number(7, 0x1001, "in").unwrap().value(), 0);
        drop(number);
        assert_eq!(store.number(7, 0x1001, "out").unwrap().value(), 12);
        assert_eq!(store.number(8, 0x1001, "out").unwrap().value(), 0);
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let path = folder.path().join("0000000000000007-00001001.out");
        std::fs::write(&path, "12x").unwrap();
        let error = store.number(7, 0x1001, "out").unwrap_err();
        assert!(error.contains("replace the keys") && error.contains("00001001.out"), "{error}");
    }
}
