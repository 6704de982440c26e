//! Record of the use of keys, kept over restarts.
//!
//! A key that is used again after a restart must never repeat a nonce (RFC 4106 section 2), and the
//! peer drops sequence numbers that it has seen as replays. IVs and sequence numbers are therefore
//! written to disk before they may be used, one stretch at a time ([`Numbers::write`] waits for the
//! disk). Received numbers are written as well, so that old packets are not accepted again.
//!
//! - `CIPHERKEY.state` holds the state of a key ([`KeyState`]), named by a keyed hash of the
//!   cipher's key alone: keys that differ only in the salt or the integrity key share it. It is
//!   locked while in use, so that two routers cannot use one key. Its length varies, so a new file
//!   replaces the old one: at every moment, also when the power fails, one of the two is whole.
//! - `KEY-SPI.in` holds the highest number received by an SA, in 20 digits that overwrite each
//!   other, and its own name. The state of the key lists its SPIs, so that a missing file is noticed.
//!
//! A missing file is not a new key. Files that cannot be read, or hold anything else, are errors:
//! they do not show which nonces are unused.

use super::iv_ranges::IvRange;
use super::key_state::{KeyState, LONGEST, Role};
use crate::esp::algorithm::Algorithm;
use crate::esp::key::KeyMaterial;
use aws_lc_rs::rand;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::retry_on_intr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of digits; fixed, so that each number overwrites the one before.
const DIGITS: usize = 20;

/// Remedy for a state that cannot be used.
const REMEDY: &str = "it records which nonces the key has used, or which packets were received, and \
                      without it none is safe: replace this key at both ends, then delete the file";

/// Directory of the files.
#[derive(Debug, Clone)]
pub(super) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Opens the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// Fails when it cannot be created.
    pub fn open(path: &Path) -> Result<Self, String> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| format!("[ipsec] state: cannot make {}: {error}", path.display()))?;
        Ok(Self { directory: path.to_owned() })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens the state of a key; `None` if there is none.
    ///
    /// # Errors
    /// Fails when the file cannot be used, when another process uses it, or when the key was used in
    /// the other direction.
    pub fn key(
        &self,
        key: &KeyMaterial,
        algorithm: Algorithm,
        role: Role,
    ) -> Result<Option<KeyFile>, String> {
        let _locked = self.lock()?;
        let path = self.path(key, algorithm);
        let Some((file, text)) = open_locked(&path)? else { return Ok(None) };
        let state = KeyState::parse(&text).ok_or_else(|| unusable(&path, "is damaged"))?;
        if state.key != key.cipher_fingerprint(algorithm) {
            return Err(unusable(&path, "is the state of another key"));
        }
        if state.role != role {
            return Err(swapped(&path, role));
        }
        Ok(Some(KeyFile { file: Some(file), path, state }))
    }

    /// Makes the state of a key that was never used.
    ///
    /// # Errors
    /// Fails when it cannot be written, or when there is a file already.
    pub fn new_key(
        &self,
        key: &KeyMaterial,
        algorithm: Algorithm,
        role: Role,
    ) -> Result<KeyFile, String> {
        let _locked = self.lock()?;
        let path = self.path(key, algorithm);
        let state = KeyState::new(key.cipher_fingerprint(algorithm), role);
        let mut key_file = KeyFile { file: None, path, state: state.clone() };
        key_file.save(&state)?;
        Ok(key_file)
    }

    /// Returns the number received last by an SA; 0 if it is new. `state` is that of its key.
    ///
    /// # Errors
    /// Fails when the file cannot be used, when another process uses it, or when it is missing and the
    /// key has received with this SPI.
    pub fn received(
        &self,
        key: &KeyMaterial,
        spi: u32,
        state: &mut KeyFile,
    ) -> Result<Received, String> {
        let name = format!("{:016x}-{spi:08x}.in", key.fingerprint());
        let path = self.directory.join(&name);
        let is_known = state.state.sequences.contains_key(&spi);
        let (file, value) = match open_locked(&path)? {
            Some((file, found)) => {
                let (number, rest) =
                    found.split_at_checked(DIGITS + 1).unwrap_or((found.as_str(), ""));
                let number = digits(number).ok_or_else(|| unusable(&path, "holds no number"))?;
                if rest.strip_suffix('\n') != Some(&name) {
                    return Err(unusable(&path, "is damaged, or that of another SA"));
                }
                (file, number)
            }
            None if is_known => return Err(unusable(&path, "is missing")),
            None => {
                let text = format!("{:0DIGITS$}\n{name}\n", 0);
                let file = write_new(&path, text.as_bytes());
                (file.map_err(|error| cannot(&path, &error))?, 0)
            }
        };
        if !is_known {
            let mut known = state.state.clone();
            known.sequences.insert(spi, 0);
            state.save(&known)?;
        }
        Ok(Received { file, path, value })
    }

    fn path(&self, key: &KeyMaterial, algorithm: Algorithm) -> PathBuf {
        self.directory.join(format!("{:016x}.state", key.cipher_fingerprint(algorithm)))
    }

    /// Keeps other processes from making files until it is dropped.
    fn lock(&self) -> Result<File, String> {
        let locked = File::open(&self.directory).and_then(|directory| {
            retry_on_intr(|| flock(&directory, FlockOperation::LockExclusive))?;
            Ok(directory)
        });
        locked.map_err(|error| cannot(&self.directory, &error))
    }
}

/// State of a key, locked.
#[derive(Debug)]
pub(super) struct KeyFile {
    /// `None` until it exists.
    file: Option<File>,
    path: PathBuf,
    state: KeyState,
}

impl KeyFile {
    /// Replaces the file; it is on disk when this returns.
    fn save(&mut self, state: &KeyState) -> Result<(), String> {
        let there = self.path.symlink_metadata().map(|it| (it.dev(), it.ino()));
        let opened = self.file.as_ref().map(|file| file.metadata().map(|it| (it.dev(), it.ino())));
        let is_same = match (there, opened) {
            (Ok(there), Some(Ok(opened))) => there == opened,
            (Err(error), None) => error.kind() == ErrorKind::NotFound,
            _ => false,
        };
        if !is_same {
            let path = self.path.display();
            return Err(format!("{path}: was replaced or removed while the key was in use"));
        }
        let written = write_new(&self.path, state.text().as_bytes());
        // The old file stays locked until now.
        self.file = Some(written.map_err(|error| cannot(&self.path, &error))?);
        self.state.clone_from(state);
        Ok(())
    }

    /// Begins to send with the key, above `used` at least. Numbers up to `most` may be given.
    ///
    /// # Errors
    /// Fails when the IVs are used up.
    pub fn send(self, spi: u32, used: u64, most: u64) -> Result<Numbers, String> {
        let random = || {
            let mut bytes = [0; 8];
            rand::fill(&mut bytes).ok()?;
            Some(u64::from_be_bytes(bytes))
        };
        let ivs = self.state.used.choose(random).ok_or_else(|| {
            format!("{}: nearly all nonces of the key are used: replace it", self.path.display())
        })?;
        let last = self.state.sequences.get(&spi).map_or(used, |last| used.max(*last));
        let most = most.min(last.saturating_add(ivs.last - ivs.first));
        let before = self.state.clone();
        Ok(Numbers { key: self, before, spi, last, first_iv: ivs.first, most, value: last })
    }
}

/// Sequence numbers and IVs of a sending SA.
#[derive(Debug)]
pub(super) struct Numbers {
    key: KeyFile,
    /// State without the IVs of this start.
    before: KeyState,
    spi: u32,
    /// Number before the first of this start, and its IV.
    last: u64,
    first_iv: u64,
    most: u64,
    value: u64,
}

impl Numbers {
    /// Returns the highest number that may have been used.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Returns the highest number that may ever be used.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the difference between the IV of a packet and its sequence number, modulo 2^64.
    pub fn iv_offset(&self) -> u64 {
        self.first_iv.wrapping_sub(self.last).wrapping_sub(1)
    }

    /// Writes another number; it is on disk when this returns.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old number then remains valid.
    pub fn write(&mut self, value: u64) -> Result<(), String> {
        let mut state = self.before.clone();
        state.sequences.insert(self.spi, value);
        if value > self.last {
            let last = value.wrapping_add(self.iv_offset());
            state.used.add(IvRange { first: self.first_iv, last });
        }
        self.key.save(&state)?;
        self.value = value;
        Ok(())
    }
}

/// Highest number that an SA has received.
#[derive(Debug)]
pub(super) struct Received {
    file: File,
    path: PathBuf,
    value: u64,
}

impl Received {
    /// Returns the number as last written.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Writes another number, without waiting for the disk.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old number then remains valid.
    pub fn write(&mut self, value: u64) -> Result<(), String> {
        let text = format!("{value:0DIGITS$}\n");
        let written = self.file.write_all_at(text.as_bytes(), 0);
        written.map_err(|error| cannot(&self.path, &error))?;
        self.value = value;
        Ok(())
    }
}

/// Reads a number in all its digits.
fn digits(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('\n')?;
    let whole = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| digits.parse().ok())?
}

fn lock_file(file: &File, path: &Path) -> Result<(), String> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let path = path.display();
        format!(
            "{path}: another router, tunnel or SA uses this key now: each direction of each tunnel \
             needs its own"
        )
    })
}

fn swapped(path: &Path, wanted: Role) -> String {
    let (used, wanted) = match wanted {
        Role::Send => ("receiving", "sending"),
        Role::Receive => ("sending", "receiving"),
    };
    format!(
        "{}: the key has been used for {used} before, so it cannot be used for {wanted}: the nonces \
         of the other end would repeat; replace this key at both ends",
        path.display()
    )
}

fn unusable(path: &Path, fault: &str) -> String {
    format!("{}: {fault}; {REMEDY}", path.display())
}

fn cannot(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot be written: {error}", path.display())
}

/// Opens, locks and reads a file; `None` if there is none.
fn open_locked(path: &Path) -> Result<Option<(File, String)>, String> {
    loop {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            // A link may lead to the state of another key. A pipe must not be waited for.
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if path.symlink_metadata().is_ok_and(|it| !it.is_file()) => {
                let fault = format!("is not a regular file ({error})");
                return Err(unusable(path, &fault));
            }
            Err(error) => return Err(unusable(path, &format!("cannot be opened: {error}"))),
        };
        let status = file.metadata().map_err(|error| unusable(path, &error.to_string()))?;
        if !status.is_file() {
            return Err(unusable(path, "is not a regular file"));
        }
        if status.mode() & 0o077 != 0 {
            let (mode, path) = (status.mode() & 0o7777, path.display());
            return Err(format!(
                "{path}: has mode {mode:04o}, so others can read or change which nonces the key has \
                 used: `chmod 600 {path}` (0600 or 0400)"
            ));
        }
        lock_file(&file, path)?;
        // Its owner may have replaced it before the lock was free.
        let there = path.symlink_metadata().map(|it| (it.dev(), it.ino()));
        if !there.is_ok_and(|it| it == (status.dev(), status.ino())) {
            continue;
        }
        let mut text = String::new();
        match (&mut file).take(LONGEST as u64 + 1).read_to_string(&mut text) {
            Ok(0) => return Err(unusable(path, "is empty")),
            Ok(length) if length > LONGEST => return Err(unusable(path, "is too long")),
            Ok(_) => return Ok(Some((file, text))),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(unusable(path, "is damaged"));
            }
            Err(error) => return Err(unusable(path, &format!("cannot be read: {error}"))),
        }
    }
}

/// Replaces a file by a new one, which is returned, locked. If the process or the machine fails at
/// any moment, the name refers to a whole file: the old or the new one.
fn write_new(path: &Path, contents: &[u8]) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = Path::new(&name);
    match std::fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let options = || OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
    let write = || {
        let mut file = options().open(temporary)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(contents)?;
        file.sync_all()?;
        std::fs::rename(temporary, path)?;
        // The name is on disk only after its directory has been written as well.
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(file)
    };
    let written = write();
    if written.is_err() {
        // Disk space; the next attempt removes what remains.
        let _ = std::fs::remove_file(temporary);
    }
    written
}
