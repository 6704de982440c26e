//! Expanded keys.

use super::library::{BLOCK, Functions, GCM_KEY, value};
use zeroize::Zeroize;

/// Block of SHA-1 and SHA-256 in bytes.
const HASH_BLOCK: usize = 64;

/// Length of an AES key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// 128 bits.
    Aes128,
    /// 256 bits.
    Aes256,
}

impl Cipher {
    /// Returns the length of the key in bytes.
    pub(super) fn bytes(self) -> usize {
        if self == Self::Aes256 { 32 } else { 16 }
    }
}

/// Hash of an HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// HMAC-SHA1 with a key of 20 bytes.
    Sha1,
    /// HMAC-SHA256 with a key of 32 bytes.
    Sha256,
}

impl Integrity {
    fn key_bytes(self) -> usize {
        if self == Self::Sha1 { 20 } else { 32 }
    }

    /// Returns the library's number and the length of the tag that it writes in bytes.
    pub(super) fn number_and_tag(self) -> (u32, u64) {
        match self {
            Self::Sha1 => (value::HMAC_SHA1, 12),
            Self::Sha256 => (value::HMAC_SHA256, 16),
        }
    }
}

/// Purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// GCM.
    Gcm(Cipher),
    /// CBC, with an HMAC over the ciphertext.
    Cbc(Cipher, Integrity),
}

impl Mode {
    pub(super) fn cipher(self) -> Cipher {
        let (Self::Gcm(cipher) | Self::Cbc(cipher, _)) = self;
        cipher
    }
}

/// A key, expanded; zeroed when dropped.
pub struct Key {
    // Boxed, so that it is not copied by moves.
    expanded: Box<Expanded>,
    mode: Mode,
}

/// Expanded key; each field has the alignment that the library requires.
#[repr(C, align(64))]
pub(super) struct Expanded {
    pub gcm: [u8; GCM_KEY],
    pub encrypt: [u32; 60],
    pub decrypt: [u32; 60],
    /// Hash states after the key's pads (RFC 2104).
    pub inner: [u8; 32],
    pub outer: [u8; 32],
}

/// Shows the mode, without the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Key").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Key {
    /// Expands a key with the key of its HMAC, which is empty for GCM. `None` if their lengths do
    /// not fit the mode.
    ///
    /// # Safety
    /// `functions` are those of a manager that lives.
    #[allow(unsafe_code)]
    pub(super) unsafe fn expand(
        functions: &Functions,
        mode: Mode,
        cipher: &[u8],
        integrity: &[u8],
    ) -> Option<Self> {
        let wanted = match mode {
            Mode::Gcm(_) => 0,
            Mode::Cbc(_, hash) => hash.key_bytes(),
        };
        if (cipher.len(), integrity.len()) != (mode.cipher().bytes(), wanted) {
            return None;
        }
        let mut expanded = Box::new(Expanded {
            gcm: [0; GCM_KEY],
            encrypt: [0; 60],
            decrypt: [0; 60],
            inner: [0; 32],
            outer: [0; 32],
        });
        let which = mode.cipher() as usize;
        match mode {
            // SAFETY: the key has the length of the cipher, and the room is as large as the largest.
            Mode::Gcm(_) => unsafe {
                functions.expand_gcm[which](cipher.as_ptr(), expanded.gcm.as_mut_ptr());
            },
            Mode::Cbc(_, hash) => {
                // SAFETY: as above; an expanded AES key has at most 15 round keys of 16 bytes.
                unsafe {
                    functions.expand_cbc[which](
                        cipher.as_ptr(),
                        expanded.encrypt.as_mut_ptr(),
                        expanded.decrypt.as_mut_ptr(),
                    );
                }
                let block = match hash {
                    Integrity::Sha1 => functions.sha1_block,
                    Integrity::Sha256 => functions.sha256_block,
                };
                for (pad, state) in [(0x36, &mut expanded.inner), (0x5c, &mut expanded.outer)] {
                    let mut padded = [pad; HASH_BLOCK];
                    padded.iter_mut().zip(integrity).for_each(|(byte, key)| *byte ^= key);
                    // SAFETY: a whole block, and room for the longer state.
                    unsafe { block(padded.as_ptr(), state.as_mut_ptr()) };
                    padded.zeroize();
                }
            }
        }
        Some(Self { expanded, mode })
    }

    /// Returns the key's purpose.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn expanded(&self) -> &Expanded {
        &self.expanded
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let Expanded { gcm, encrypt, decrypt, inner, outer } = &mut *self.expanded;
        gcm.zeroize();
        encrypt.zeroize();
        decrypt.zeroize();
        inner.zeroize();
        outer.zeroize();
    }
}

const _: () = assert!(std::mem::offset_of!(Expanded, decrypt) % BLOCK == 0);
const _: () = assert!(std::mem::offset_of!(Expanded, outer) % BLOCK == 0);
