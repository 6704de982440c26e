//! The memory of a worker's frames, shared with the kernel (the UMEM).

#![allow(unsafe_code)]

use rustix::io::Errno;
use std::sync::Arc;
use wattline_dataplane::frame::FrameMemory;
use wattline_memory::{Pages, Supply};

/// Unmapped when the last holder drops it.
#[derive(Debug)]
pub(super) struct Region(Pages);

impl Region {
    /// Address of the first byte.
    pub(super) fn address(&self) -> u64 {
        self.0.start().as_ptr() as u64
    }

    /// Size in bytes.
    pub(super) fn length(&self) -> usize {
        self.0.length()
    }

    /// True when it lies in reserved huge pages.
    pub(super) fn huge_pages(&self) -> bool {
        self.0.reserved()
    }
}

/// The right to access a region's bytes; there is one per region.
pub(super) struct Frames(Arc<Region>);

impl Frames {
    /// Maps at least `length` bytes and returns the right to its bytes beside it.
    pub(super) fn allocate(length: usize) -> Result<(Self, Arc<Region>), Errno> {
        let region = Arc::new(Region(Pages::map(length, Supply::AtOnce)?));
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
        unsafe { std::slice::from_raw_parts_mut(self.0.0.start().as_ptr(), self.0.length()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_memory::HUGE_PAGE;

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
