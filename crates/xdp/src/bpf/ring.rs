//! A ring of records that programs write and this process reads (`BPF_MAP_TYPE_RINGBUF`, Linux
//! 5.8).
//!
//! The first page holds the position of the reader, the second the position of the writers. The
//! records follow, mapped twice in a row, so that each is contiguous. Positions count bytes and
//! never wrap in practice. A record has a header of eight bytes, with its length and two flags: not
//! complete yet, and to be skipped. A program completes a header with *release*, and this process
//! publishes its position with *release* (Linux `Documentation/bpf/ringbuf.rst`,
//! `kernel/bpf/ringbuf.c`).

#![allow(unsafe_code)]

use super::error::BpfError;
use super::map::{Definition, Map, MapKind};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes before a record.
const HEADER: u64 = 8;
/// Flag of an incomplete record.
const BUSY: u32 = 1 << 31;
/// Flag of a record to be skipped.
const DISCARDED: u32 = 1 << 30;

/// Pages of a mapping. Dropping it unmaps them.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(map: &Map, offset: u64, length: usize, protection: ProtFlags) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, map.as_fd(), offset)
        }?;
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, length })
    }

    /// Returns the position at the beginning.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: the mapping is a page at least, lives as long as `self`, and both sides access
        // the position atomically.
        unsafe { self.start.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and `length` are what mmap returned, and no pointer into the mapping
        // outlives it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// See the module.
pub struct Ring {
    map: Map,
    reader: Mapping,
    /// The position of the writers, and the records twice from the second page on.
    writers: Mapping,
    page: usize,
    size: u64,
}

// SAFETY: the mappings are plain shared memory that is valid in every thread; reading takes `&mut
// self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Creates a ring of `bytes` bytes, a power of two of pages.
    ///
    /// # Errors
    /// Without CAP_BPF, or memory.
    pub fn new(name: &str, bytes: u32) -> Result<Self, BpfError> {
        let definition = Definition {
            kind: MapKind::Ring,
            key_size: 0,
            value_size: 0,
            entries: bytes,
            flags: 0,
        };
        let map = Map::create(name, definition)?;
        let failed = |source| BpfError::System { action: format!("mapping {name}"), source };
        // SAFETY: only returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| failed(Errno::INVAL))?;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let reader = Mapping::new(&map, 0, page, both).map_err(failed)?;
        let length = page + 2 * bytes as usize;
        let writers = Mapping::new(&map, page as u64, length, ProtFlags::READ).map_err(failed)?;
        Ok(Self { map, reader, writers, page, size: bytes.into() })
    }

    /// Returns the number of its descriptor, for a map of maps.
    pub(crate) fn descriptor_number(&self) -> u32 {
        self.map.as_fd().as_raw_fd() as u32
    }

    /// Returns its map, for programs that write to it.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Reads the complete records, at most `most`; returns their number.
    pub fn read(&mut self, most: usize, mut with: impl FnMut(&[u8])) -> usize {
        let mut position = self.reader.position().load(Ordering::Relaxed);
        let end = self.writers.position().load(Ordering::Acquire);
        let mut count = 0;
        while position < end && count < most {
            let offset = self.page + (position & (self.size - 1)) as usize;
            // SAFETY: the records are mapped twice, so that a header at any offset below the size
            // lies in the mapping, aligned to eight bytes as all records are.
            let header = unsafe { self.writers.start.add(offset).cast::<AtomicU32>().as_ref() };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = header & !DISCARDED;
            if header & DISCARDED == 0 {
                let start = offset + HEADER as usize;
                // SAFETY: the kernel has written a record of this length, smaller than the ring,
                // and writes there again only once the position below has passed it.
                let record = unsafe {
                    std::slice::from_raw_parts(
                        self.writers.start.add(start).as_ptr(),
                        length as usize,
                    )
                };
                with(record);
                count += 1;
            }
            position += (u64::from(length) + HEADER).next_multiple_of(8);
            self.reader.position().store(position, Ordering::Release);
        }
        count
    }
}

impl AsFd for Ring {
    /// The descriptor is readable while there is a record.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("map", &self.map).field("size", &self.size).finish()
    }
}
