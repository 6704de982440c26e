//! Zero-filled memory in huge pages.
//!
//! A lookup in a table of tens of MiB at a random address misses the cache; in pages of
//! 4 KiB it misses the TLB as well, and waits twice.

#![allow(unsafe_code)] // mmap, and the slice over it: nothing in std asks for huge pages

use crate::cell::Cell;
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, Range};
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

/// A fixed number of cells, all zero at first, aligned to a huge page; behind the last there is
/// memory to the end of its page.
///
/// The kernel supplies memory as it is first touched, so that a generous bound costs nothing.
#[derive(Debug)]
pub struct Region<C> {
    cells: NonNull<C>,
    len: usize,
    last_word: u32,
    mapping: NonNull<libc::c_void>,
    mapped_bytes: usize,
}

impl<C: Cell> Region<C> {
    /// `len` cells. Like any allocation it aborts when the address space is used up.
    pub(crate) fn zeroed(len: usize) -> Self {
        let layout = Layout::array::<C>(len).expect("a table is far below the address space");
        let bytes = layout.size().next_multiple_of(HUGE_PAGE);
        // One page more than needed, so that an aligned start is inside.
        let mapped_bytes = bytes + HUGE_PAGE;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no
        // memory that exists.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let (false, Some(mapping)) = (mapping == libc::MAP_FAILED, NonNull::new(mapping)) else {
            handle_alloc_error(layout)
        };
        let address = mapping.addr().get();
        let offset = address.next_multiple_of(HUGE_PAGE) - address;
        // SAFETY: `offset` is below HUGE_PAGE and the mapping is that much longer than `bytes`.
        let cells = unsafe { mapping.byte_add(offset) };
        // SAFETY: the range lies inside the mapping made above. Advice only: where the kernel
        // refuses, small pages do.
        unsafe { libc::madvise(cells.as_ptr(), bytes, libc::MADV_HUGEPAGE) };
        // No more than 31 bits can number; a region without cells has memory nevertheless.
        let words = (layout.size() / size_of::<u32>()).clamp(1, 1 << 31);
        let last_word = (words - 1) as u32;
        Self { cells: cells.cast(), len, last_word, mapping, mapped_bytes }
    }

    /// The addresses of its cells.
    pub(crate) fn range(&self) -> Range<usize> {
        let first = self.cells.addr().get();
        first..first + self.len * size_of::<C>()
    }

    /// The number of the last whole word of 32 bits that a gather may load: 0 also where there
    /// is no cell.
    #[inline]
    pub(crate) fn last_word(&self) -> u32 {
        self.last_word
    }
}

impl<C: Cell> Deref for Region<C> {
    type Target = [C];

    #[inline]
    fn deref(&self) -> &[C] {
        // SAFETY: the mapping holds `len` cells, aligned, and lives as long as `self`; zero
        // bytes are a valid cell (a promise of `Cell`, whose implementors are atomic integers).
        unsafe { std::slice::from_raw_parts(self.cells.as_ptr(), self.len) }
    }
}

impl<C> Drop for Region<C> {
    fn drop(&mut self) {
        // SAFETY: exactly what `zeroed` mapped, and nothing borrows it any more.
        unsafe { libc::munmap(self.mapping.as_ptr(), self.mapped_bytes) };
    }
}

// SAFETY: a region owns its mapping, like a `Box<[C]>`.
unsafe impl<C: Send> Send for Region<C> {}
// SAFETY: it hands out shared references only, like a `Box<[C]>`.
unsafe impl<C: Sync> Sync for Region<C> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU16;

    #[test]
    fn is_zero_aligned_and_writable_to_the_last_cell() {
        let region = Region::<AtomicU16>::zeroed(3_000_001);
        assert_eq!(region.len(), 3_000_001);
        assert_eq!(region.as_ptr().addr() % HUGE_PAGE, 0);
        assert!(region.iter().all(|cell| cell.read() == 0));
        region[3_000_000].write(7);
        assert_eq!(region[3_000_000].read(), 7);
    }
}
