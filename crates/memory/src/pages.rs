//! Zero-filled memory in huge pages.
//!
//! A random access to tens of MiB misses the cache. In pages of 4 KiB it also misses the TLB and
//! waits twice.

#![allow(unsafe_code)] // mmap and madvise: nothing in std asks for huge pages

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::NonNull;

/// Bytes of a huge page on x86-64 and on most arm64 kernels.
pub const HUGE_PAGE: usize = 2 << 20;

/// Time at which the kernel supplies the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// On first touch, so that a generous limit costs nothing; in transparent huge pages if the
    /// kernel has them.
    AsTouched,
    /// On first touch, in small pages: for memory that is touched sparsely.
    Sparsely,
    /// When mapped, so that no later access waits: from the machine's reserved huge pages if enough
    /// are free, otherwise in transparent huge pages.
    AtOnce,
}

/// An anonymous private mapping of whole huge pages, initially zero, that begins at a multiple of
/// [`HUGE_PAGE`]. Dropping it unmaps it.
///
/// `Pages` owns the memory and never accesses it. The code that makes references into it is
/// responsible for them.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
    reserved: bool,
    mapping: NonNull<u8>,
    mapped: usize,
}

// SAFETY: plain memory, valid in every thread, which `Pages` itself never accesses.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `length` bytes.
    ///
    /// # Errors
    /// Returns the kernel's error, such as exhausted address space or memory.
    pub fn map(length: usize, supply: Supply) -> Result<Self, Errno> {
        let length = length.checked_next_multiple_of(HUGE_PAGE).ok_or(Errno::NOMEM)?;
        if supply == Supply::AtOnce {
            let flags = MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
            if let Ok(start) = anonymous(length, flags) {
                let (mapping, mapped) = (start, length);
                return Ok(Self { start, length, reserved: true, mapping, mapped });
            }
        }
        // One page more than needed, so that an aligned start is inside.
        let mapped = length.checked_add(HUGE_PAGE).ok_or(Errno::NOMEM)?;
        let lazily = match supply {
            Supply::AsTouched | Supply::Sparsely => MapFlags::NORESERVE,
            Supply::AtOnce => MapFlags::empty(),
        };
        let mapping = anonymous(mapped, lazily)?;
        let address = mapping.addr().get();
        let offset = address.next_multiple_of(HUGE_PAGE) - address;
        // SAFETY: `offset` is below HUGE_PAGE, and the mapping is that much longer than `length`.
        let start = unsafe { mapping.byte_add(offset) };
        let populate = (supply == Supply::AtOnce).then_some(Advice::LinuxPopulateWrite);
        let size = match supply {
            Supply::Sparsely => Advice::LinuxNoHugepage,
            Supply::AsTouched | Supply::AtOnce => Advice::LinuxHugepage,
        };
        for advice in [Some(size), populate].into_iter().flatten() {
            // This is only advice: if it is refused, small pages do as well.
            // SAFETY: the range lies in the mapping made above, and neither changes its content.
            let _ = unsafe { madvise(start.as_ptr().cast(), length, advice) };
        }
        Ok(Self { start, length, reserved: false, mapping, mapped })
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the size in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns true if it lies in huge pages that the machine had reserved.
    pub fn reserved(&self) -> bool {
        self.reserved
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped; the code that made references must have dropped
        // them.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

fn anonymous(length: usize, flags: MapFlags) -> Result<NonNull<u8>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE | flags)
    }?;
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeroed_aligned_and_writable_to_the_last_byte() {
        for supply in [Supply::AsTouched, Supply::Sparsely, Supply::AtOnce] {
            let pages = Pages::map(5000, supply).unwrap();
            assert_eq!((pages.length(), pages.start().addr().get() % HUGE_PAGE), (HUGE_PAGE, 0));
            // SAFETY: the whole mapping, initialised by the kernel, and this is the only reference.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), pages.length()) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{supply:?}");
            bytes[HUGE_PAGE - 1] = 7;
            assert_eq!(bytes[HUGE_PAGE - 1], 7);
        }
    }

    #[test]
    fn a_length_beyond_the_address_space_is_refused() {
        for length in [usize::MAX, usize::MAX - HUGE_PAGE, 1 << 60] {
            assert!(Pages::map(length, Supply::AsTouched).is_err(), "{length}");
        }
    }
}
