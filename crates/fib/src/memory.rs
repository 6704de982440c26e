//! The cells of a table in huge pages.

#![allow(unsafe_code)] // the slice over the pages

use crate::cell::Stored;
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use wattline_memory::{Pages, Supply};

/// A fixed number of cells, all zero at first, aligned to a huge page. The memory extends to the
/// end of the last page.
///
/// The kernel supplies memory when it is first touched, so a generous limit costs nothing.
#[derive(Debug)]
pub struct Region<C> {
    cells: NonNull<C>,
    len: usize,
    last_word: u32,
    _pages: Pages,
}

impl<C: Stored> Region<C> {
    /// Makes a region of `len` cells. Like any allocation it aborts when the address space is
    /// exhausted.
    pub(crate) fn zeroed(len: usize, supply: Supply) -> Self {
        let layout = Layout::array::<C>(len).expect("a table is far below the address space");
        let Ok(pages) = Pages::map(layout.size().max(1), supply) else {
            handle_alloc_error(layout)
        };
        // At most what 31 bits can number. A region without cells has memory as well.
        let words = (layout.size() / size_of::<u32>()).clamp(1, 1 << 31);
        let last_word = (words - 1) as u32;
        Self { cells: pages.start().cast(), len, last_word, _pages: pages }
    }

    /// Address range of the cells.
    pub(crate) fn range(&self) -> Range<usize> {
        let first = self.cells.addr().get();
        first..first + self.len * size_of::<C>()
    }

    /// Returns the number of the last whole 32-bit word that a gather may load; 0 also if there are
    /// no cells.
    #[inline]
    pub(crate) fn last_word(&self) -> u32 {
        self.last_word
    }
}

impl<C: Stored> Deref for Region<C> {
    type Target = [C];

    #[inline]
    fn deref(&self) -> &[C] {
        // SAFETY: the mapping holds `len` cells, aligned, and lives as long as `self`; zero
        // bytes are a valid cell (a promise of `Stored`, whose implementors are atomic integers).
        unsafe { std::slice::from_raw_parts(self.cells.as_ptr(), self.len) }
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
    use wattline_memory::HUGE_PAGE;

    #[test]
    fn is_zero_aligned_and_writable_to_the_last_cell() {
        let region = Region::<AtomicU16>::zeroed(3_000_001, Supply::AsTouched);
        assert_eq!(region.len(), 3_000_001);
        assert_eq!(region.as_ptr().addr() % HUGE_PAGE, 0);
        assert!(region.iter().all(|cell| cell.read() == 0));
        region[3_000_000].write(7);
        assert_eq!(region[3_000_000].read(), 7);
    }
}
