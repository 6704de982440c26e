//! The functions of `shim.c`. What each does and may answer stands there.

use std::ffi::{c_char, c_int};

/// A buffer of DPDK.
#[repr(C)]
pub struct Mbuf {
    _opaque: [u8; 0],
}

/// A pool of buffers.
#[repr(C)]
pub struct Mempool {
    _opaque: [u8; 0],
}

/// Capabilities and present state of a device.
#[repr(C)]
#[derive(Default)]
pub struct Description {
    pub driver: [u8; 32],
    pub mac: [u8; 6],
    pub mtu: u16,
    pub most_receive_queues: u16,
    pub most_transmit_queues: u16,
}

#[repr(C)]
pub struct Settings {
    pub queues: u16,
    pub descriptors: u16,
    pub mtu: u16,
    pub promiscuous: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct QueueMemory {
    pub pool: *mut Mempool,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Losses {
    pub missed: u64,
    pub without_buffer: u64,
    pub damaged: u64,
}

#[repr(C)]
#[derive(Default)]
pub struct Link {
    pub megabits: u32,
    pub up: u8,
}

#[allow(unsafe_code)]
// SAFETY: the declarations agree with the definitions in `shim.c`, which this crate compiles.
unsafe extern "C" {
    pub fn wl_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub fn wl_directory() -> *const c_char;
    pub fn wl_find(name: *const c_char, port: *mut u16) -> c_int;
    pub fn wl_describe(port: u16, device: *mut Description) -> c_int;
    pub fn wl_configure(port: u16, settings: *const Settings, memory: *mut QueueMemory) -> c_int;
    pub fn wl_close(port: u16);
    pub fn wl_free_memory(pool: *mut Mempool);
    pub fn wl_link(port: u16, link: *mut Link) -> c_int;
    pub fn wl_losses(port: u16, losses: *mut Losses) -> c_int;
    pub fn wl_receive(port: u16, queue: u16, buffers: *mut *mut Mbuf, most: u16) -> u16;
    pub fn wl_length(buffer: *const Mbuf) -> u32;
    pub fn wl_copy_out(buffer: *const Mbuf, to: *mut u8, length: u32);
    pub fn wl_free(buffers: *mut *mut Mbuf, count: u32);
    pub fn wl_take(pool: *mut Mempool, buffers: *mut *mut Mbuf, count: u32) -> c_int;
    pub fn wl_copy_in(buffer: *mut Mbuf, from: *const u8, length: u16) -> c_int;
    pub fn wl_send(port: u16, queue: u16, buffers: *mut *mut Mbuf, count: u16) -> u16;
}
