//! The functions of `shim.c`. What each does and may answer stands there.

use std::ffi::{c_char, c_int};

/// The library's state for one thread.
#[repr(C)]
pub struct RawManager {
    _opaque: [u8; 0],
}

/// An expanded key.
#[repr(C)]
pub struct RawKey {
    _opaque: [u8; 0],
}

/// One packet of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawJob {
    pub start: *mut u8,
    pub key: *const RawKey,
    pub bytes: u32,
    pub cipher_start: u32,
    pub cipher_bytes: u32,
    pub hash_bytes: u32,
    pub tag: [u8; 16],
}

#[allow(unsafe_code)]
// SAFETY: the declarations agree with the definitions in `shim.c`, which this crate compiles.
unsafe extern "C" {
    pub fn wl_version() -> *const c_char;
    pub fn wl_manager() -> *mut RawManager;
    pub fn wl_manager_free(manager: *mut RawManager);
    pub fn wl_key(
        manager: *mut RawManager,
        cipher: *const u8,
        cipher_bytes: u32,
        integrity: *const u8,
        integrity_bytes: u32,
    ) -> *mut RawKey;
    pub fn wl_key_free(key: *mut RawKey);
    pub fn wl_gcm_seal(
        manager: *mut RawManager,
        key: *const RawKey,
        body: *mut u8,
        bytes: u64,
        nonce: *const u8,
        more: *const u8,
        more_bytes: u64,
        tag: *mut u8,
    );
    pub fn wl_gcm_open(
        manager: *mut RawManager,
        key: *const RawKey,
        body: *mut u8,
        bytes: u64,
        nonce: *const u8,
        more: *const u8,
        more_bytes: u64,
        tag: *mut u8,
    );
    pub fn wl_cbc_seal(manager: *mut RawManager, jobs: *mut RawJob, count: u32) -> c_int;
    pub fn wl_hash(manager: *mut RawManager, jobs: *mut RawJob, count: u32) -> c_int;
    pub fn wl_cbc_open(
        manager: *mut RawManager,
        key: *const RawKey,
        iv: *const u8,
        body: *mut u8,
        bytes: u64,
    ) -> c_int;
}
