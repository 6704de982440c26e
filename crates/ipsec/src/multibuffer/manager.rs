//! The library's state for one thread.

use super::batch::{Batch, TAG};
use super::ffi::{self, RawManager};
use super::key::{Cipher, Integrity, Key, Mode};
use std::ffi::CStr;
use std::ptr::NonNull;

/// The library could not do what was asked, or the key was of another mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undone;

/// The library's state: lanes that fill up within a call, and are empty between calls.
#[derive(Debug)]
pub struct Manager {
    raw: NonNull<RawManager>,
}

#[allow(unsafe_code)]
// SAFETY: it belongs to no thread, and every use of it needs `&mut`.
unsafe impl Send for Manager {}

/// Version of the library.
pub fn version() -> &'static str {
    // SAFETY: the library returns a C string that it keeps.
    #[allow(unsafe_code)]
    let version = unsafe { CStr::from_ptr(ffi::wl_version()) };
    version.to_str().unwrap_or("unknown")
}

impl Manager {
    /// Sets up the widest instructions of this processor, which takes about a millisecond. `None` where
    /// it has no AES instructions, or memory is short.
    pub fn new() -> Option<Self> {
        // SAFETY: the function has no requirements.
        #[allow(unsafe_code)]
        let raw = unsafe { ffi::wl_manager() };
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// Expands a key with the key of its HMAC, which is empty for GCM. `None` where their lengths are
    /// not those of the mode, or memory is short.
    pub fn key(&mut self, mode: Mode, cipher: &[u8], integrity: &[u8]) -> Option<Key> {
        let (length, integrity_length) = match mode {
            Mode::Gcm(length) => (length, 0),
            Mode::Cbc(length, Integrity::Sha1) => (length, 20),
            Mode::Cbc(length, Integrity::Sha256) => (length, 32),
        };
        let cipher_length = if length == Cipher::Aes256 { 32 } else { 16 };
        if (cipher.len(), integrity.len()) != (cipher_length, integrity_length) {
            return None;
        }
        // SAFETY: the manager is valid and this thread's; both slices have the given lengths, which
        // the function allows.
        #[allow(unsafe_code)]
        let raw = unsafe {
            ffi::wl_key(
                self.raw.as_ptr(),
                cipher.as_ptr(),
                cipher_length as u32,
                integrity.as_ptr(),
                integrity_length as u32,
            )
        };
        NonNull::new(raw).map(|raw| Key::of(raw, mode))
    }

    /// Encrypts `body` with GCM and authenticates it, and `more` before it, by a `tag`.
    ///
    /// # Errors
    /// When the key is not one for GCM.
    #[inline]
    pub fn gcm_seal(
        &mut self,
        key: &Key,
        nonce: &[u8; 12],
        more: &[u8],
        body: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> Result<(), Undone> {
        let Mode::Gcm(_) = key.mode() else { return Err(Undone) };
        // SAFETY: manager and key are valid, and the manager is this thread's; all slices have the
        // given lengths, and nonce and tag those that the function names.
        #[allow(unsafe_code)]
        unsafe {
            ffi::wl_gcm_seal(
                self.raw.as_ptr(),
                key.raw(),
                body.as_mut_ptr(),
                body.len() as u64,
                nonce.as_ptr(),
                more.as_ptr(),
                more.len() as u64,
                tag.as_mut_ptr(),
            );
        }
        Ok(())
    }

    /// Decrypts `body` with GCM, whether or not it is authentic. Returns the tag that an authentic one
    /// has: the caller compares it, and forgets the body where it differs.
    ///
    /// # Errors
    /// When the key is not one for GCM.
    #[inline]
    pub fn gcm_open(
        &mut self,
        key: &Key,
        nonce: &[u8; 12],
        more: &[u8],
        body: &mut [u8],
    ) -> Result<[u8; TAG], Undone> {
        let Mode::Gcm(_) = key.mode() else { return Err(Undone) };
        let mut tag = [0; TAG];
        // SAFETY: as in `gcm_seal`.
        #[allow(unsafe_code)]
        unsafe {
            ffi::wl_gcm_open(
                self.raw.as_ptr(),
                key.raw(),
                body.as_mut_ptr(),
                body.len() as u64,
                nonce.as_ptr(),
                more.as_ptr(),
                more.len() as u64,
                tag.as_mut_ptr(),
            );
        }
        Ok(tag)
    }

    /// Encrypts all packets of a batch with CBC and an IV of zero, and then computes their tags.
    ///
    /// # Errors
    /// When a packet has nothing to encrypt, or the library did not do them all.
    pub fn cbc_seal(&mut self, batch: &mut Batch<'_>) -> Result<(), Undone> {
        if !batch.is_to_be_encrypted() {
            return Err(Undone);
        }
        let jobs = batch.raw();
        if jobs.is_empty() {
            return Ok(());
        }
        // SAFETY: the manager is valid and this thread's. There are 1 to `MOST` jobs; their ranges were
        // checked against packets and keys that the batch borrows, each packet once, and the keys
        // are of one mode.
        #[allow(unsafe_code)]
        let done =
            unsafe { ffi::wl_cbc_seal(self.raw.as_ptr(), jobs.as_mut_ptr(), jobs.len() as u32) };
        if done == 0 { Err(Undone) } else { Ok(()) }
    }

    /// Computes the tags of all packets of a batch.
    ///
    /// # Errors
    /// When the library did not do them all.
    pub fn hash(&mut self, batch: &mut Batch<'_>) -> Result<(), Undone> {
        let jobs = batch.raw();
        if jobs.is_empty() {
            return Ok(());
        }
        // SAFETY: as in `cbc_seal`.
        #[allow(unsafe_code)]
        let done = unsafe { ffi::wl_hash(self.raw.as_ptr(), jobs.as_mut_ptr(), jobs.len() as u32) };
        if done == 0 { Err(Undone) } else { Ok(()) }
    }

    /// Decrypts `body` with CBC.
    ///
    /// # Errors
    /// When its length is no whole number of blocks, the key is not one for CBC, or the library did not
    /// do it.
    #[inline]
    pub fn cbc_open(&mut self, key: &Key, iv: &[u8; 16], body: &mut [u8]) -> Result<(), Undone> {
        let Mode::Cbc(..) = key.mode() else { return Err(Undone) };
        if body.is_empty() || !body.len().is_multiple_of(16) {
            return Err(Undone);
        }
        // SAFETY: manager and key are valid, and the manager is this thread's; the body has the given
        // length and the IV a block's.
        #[allow(unsafe_code)]
        let done = unsafe {
            ffi::wl_cbc_open(
                self.raw.as_ptr(),
                key.raw(),
                iv.as_ptr(),
                body.as_mut_ptr(),
                body.len() as u64,
            )
        };
        if done == 0 { Err(Undone) } else { Ok(()) }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: it comes from `wl_manager`, and nothing else refers to it.
        #[allow(unsafe_code)]
        unsafe {
            ffi::wl_manager_free(self.raw.as_ptr());
        }
    }
}
