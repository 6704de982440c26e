//! Expanded keys.

use super::ffi::{self, RawKey};
use std::ptr::NonNull;

/// Length of an AES key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// 128 bits.
    Aes128,
    /// 256 bits.
    Aes256,
}

/// Hash of an HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// HMAC-SHA1 with a key of 20 bytes.
    Sha1,
    /// HMAC-SHA256 with a key of 32 bytes.
    Sha256,
}

/// Purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// GCM.
    Gcm(Cipher),
    /// CBC, with an HMAC over what is encrypted.
    Cbc(Cipher, Integrity),
}

/// A key, expanded; zeroed when dropped.
pub struct Key {
    raw: NonNull<RawKey>,
    mode: Mode,
}

#[allow(unsafe_code)]
// SAFETY: nothing writes to a key between its expansion and its end, and it belongs to no thread.
unsafe impl Send for Key {}

#[allow(unsafe_code)]
// SAFETY: nothing writes to a key between its expansion and its end.
unsafe impl Sync for Key {}

/// Shows what it is for, without the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Key").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Key {
    /// A key that `wl_key` has expanded, which nobody else frees.
    pub(crate) fn of(raw: NonNull<RawKey>, mode: Mode) -> Self {
        Self { raw, mode }
    }

    /// Returns the key's purpose.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn raw(&self) -> *const RawKey {
        self.raw.as_ptr()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: it comes from `wl_key`, and nothing refers to it any more: jobs borrow their key.
        #[allow(unsafe_code)]
        unsafe {
            ffi::wl_key_free(self.raw.as_ptr());
        }
    }
}
