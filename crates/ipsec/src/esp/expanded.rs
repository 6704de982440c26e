//! Keys for the multi-buffer library.

use super::algorithm::Algorithm;
use crate::multibuffer::{Cipher, Integrity, Key, Manager, Mode};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A key, expanded, with the salt of GCM.
pub(super) struct Expanded {
    pub key: Key,
    pub salt: [u8; 4],
}

impl Expanded {
    /// Expands a key, on the control thread. `None` if this machine does not have the library.
    pub fn new(algorithm: Algorithm, cipher: &[u8], second: &[u8]) -> Option<Self> {
        // Setting the library up takes longer than a key.
        static LIBRARY: OnceLock<Mutex<Option<Manager>>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| Mutex::new(Manager::new()));
        let mut library = library.lock().unwrap_or_else(PoisonError::into_inner);
        let (salt, integrity) = match second.first_chunk() {
            Some(salt) if algorithm.is_gcm() => (*salt, &[][..]),
            _ => ([0; 4], second),
        };
        let key = library.as_mut()?.key(mode(algorithm), cipher, integrity)?;
        Some(Self { key, salt })
    }
}

fn mode(algorithm: Algorithm) -> Mode {
    match algorithm {
        Algorithm::Aes128Gcm => Mode::Gcm(Cipher::Aes128),
        Algorithm::Aes256Gcm => Mode::Gcm(Cipher::Aes256),
        Algorithm::Aes128CbcSha1 => Mode::Cbc(Cipher::Aes128, Integrity::Sha1),
        Algorithm::Aes256CbcSha1 => Mode::Cbc(Cipher::Aes256, Integrity::Sha1),
        Algorithm::Aes128CbcSha256 => Mode::Cbc(Cipher::Aes128, Integrity::Sha256),
        Algorithm::Aes256CbcSha256 => Mode::Cbc(Cipher::Aes256, Integrity::Sha256),
    }
}
