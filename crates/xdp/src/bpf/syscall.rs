//! The bpf(2) system call itself.

#![allow(unsafe_code)]

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// `enum bpf_cmd`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    ProgramTestRun = 10,
    ObjectInfo = 15,
    RawTracepointOpen = 17,
    /// `BPF_BTF_GET_FD_BY_ID`
    TypesOpen = 19,
    MapFreeze = 22,
    /// `BPF_BTF_GET_NEXT_ID`
    TypesNext = 23,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    LinkCreate = 28,
    LinkUpdate = 29,
}

/// `union bpf_attr`: the arguments of a command, as bytes at the offsets of
/// `include/uapi/linux/bpf.h`; unset bytes are zero.
///
/// Borrows every buffer that its pointers refer to, so that they outlive the call.
pub(super) struct Attributes<'a> {
    bytes: [u8; 128],
    buffers: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new() -> Self {
        Self { bytes: [0; 128], buffers: std::marker::PhantomData }
    }

    /// Sets a 32-bit field.
    pub(super) fn word(mut self, offset: usize, value: u32) -> Self {
        self.bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    /// Sets a pointer to a buffer that the kernel reads.
    pub(super) fn input<T>(self, offset: usize, buffer: &'a [T]) -> Self {
        self.pointer(offset, buffer.as_ptr() as u64)
    }

    /// Sets a pointer to a buffer that the kernel writes. Its length is an argument or implied by
    /// the command (value size of a map), so this module's users check it.
    pub(super) fn output(self, offset: usize, buffer: &'a mut [u8]) -> Self {
        self.pointer(offset, buffer.as_mut_ptr() as u64)
    }

    /// Sets a C string, of which the kernel copies 15 bytes.
    pub(super) fn name(mut self, offset: usize, name: &str) -> Self {
        let length = name.len().min(15);
        self.bytes[offset..offset + length].copy_from_slice(&name.as_bytes()[..length]);
        self
    }

    fn pointer(mut self, offset: usize, address: u64) -> Self {
        self.bytes[offset..offset + 8].copy_from_slice(&address.to_ne_bytes());
        self
    }

    /// Reads a 32-bit field, after the kernel has written it.
    pub(super) fn read_word(&self, offset: usize) -> u32 {
        let field = &self.bytes[offset..offset + 4];
        u32::from_ne_bytes([field[0], field[1], field[2], field[3]])
    }

    /// Performs the command. The meaning of the result depends on the command.
    pub(super) fn call(&mut self, command: Command) -> Result<i32, Errno> {
        // SAFETY: `bytes` has the given length and is zero where unset; the buffers that it points
        // to are borrowed by `self`. The kernel checks everything else.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command as libc::c_int,
                self.bytes.as_mut_ptr(),
                self.bytes.len() as libc::c_uint,
            )
        };
        if result < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        Ok(result as i32)
    }

    /// Performs a command that returns a descriptor.
    pub(super) fn call_for_descriptor(&mut self, command: Command) -> Result<OwnedFd, Errno> {
        debug_assert!(matches!(
            command,
            Command::MapCreate
                | Command::ProgramLoad
                | Command::LinkCreate
                | Command::RawTracepointOpen
                | Command::TypesOpen
        ));
        let descriptor = self.call(command)?;
        // SAFETY: these commands return a new descriptor, owned by nothing else.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}
