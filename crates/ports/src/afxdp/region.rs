//! The memory of a worker's frames, shared with the kernel (the UMEM).

#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::NonNull;
use std::sync::Arc;
use wattline_dataplane::frame::FrameMemory;

/// Huge pages of x86-64 and most arm64 kernels.
const HUGE_PAGE: usize = 2 << 20;

/// An anonymous mapping; unmapped when the last holder drops it.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    length: usize,
    huge_pages: bool,
}

// SAFETY: the region is plain memory, valid in every thread, and `Region` itself never
// accesses it: it only knows the address. Access is through the one `Frames`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `length` bytes: of the machine's reserved huge pages if it has enough,
    /// else of ordinary ones that the kernel may merge (transparent huge pages).
    pub(super) fn map(length: usize) -> Result<Self, Errno> {
        let length = length.next_multiple_of(HUGE_PAGE);
        let huge = MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        if let Ok(start) = Self::anonymous(length, huge) {
            return Ok(Self { start, length, huge_pages: true });
        }
        let start = Self::anonymous(length, MapFlags::empty())?;
        // Only advice: where it is refused, ordinary pages serve.
        for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
            // SAFETY: the range was mapped just now and neither advice changes its content.
            let _ = unsafe { madvise(start.as_ptr().cast(), length, advice) };
        }
        Ok(Self { start, length, huge_pages: false })
    }

    fn anonymous(length: usize, flags: MapFlags) -> Result<NonNull<u8>, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE | flags)
        }?;
        NonNull::new(start.cast()).ok_or(Errno::NOMEM)
    }

    /// Address of the first byte.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Size in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// True when it lies in reserved huge pages.
    pub(super) fn huge_pages(&self) -> bool {
        self.huge_pages
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no `Frames` is left that could reach it. The
        // kernel holds its own reference on the pages until the last socket is closed.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The right to access a region's bytes; there is one per region.
pub(super) struct Frames(Arc<Region>);

impl Frames {
    /// Maps a region and returns the right to its bytes beside it.
    pub(super) fn allocate(length: usize) -> Result<(Self, Arc<Region>), Errno> {
        let region = Arc::new(Region::map(length)?);
        Ok((Self(Arc::clone(&region)), region))
    }
}

impl FrameMemory for Frames {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the region is mapped while we hold it, is initialised (zeroed by the
        // kernel) and this is the only place that makes a reference to it, bound to
        // `&mut self`. The kernel writes into chunks that the fill ring lent it; by the
        // protocol of the rings nobody here reads or writes such a chunk until the kernel
        // has handed it back through a ring whose index is loaded with acquire.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zeroed_writable_and_whole_pages() {
        let (mut frames, region) = Frames::allocate(5000).unwrap();
        assert_eq!(region.length(), HUGE_PAGE);
        let bytes = frames.bytes();
        assert_eq!(bytes.len(), HUGE_PAGE);
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes[HUGE_PAGE - 1] = 7;
        assert_eq!(frames.bytes()[HUGE_PAGE - 1], 7);
    }
}
