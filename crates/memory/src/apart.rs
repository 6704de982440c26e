//! Several ranges of a memory at once.

use crate::chunks::ChunkMemory;
use std::ops::Range;

/// Largest number of ranges.
pub const MOST_APART: usize = 64;

/// Borrows non-overlapping ranges of a memory one after the other, for as long as the memory is
/// borrowed.
pub struct Apart<'m> {
    memory: &'m mut ChunkMemory,
    starts: [u32; MOST_APART],
    ends: [u32; MOST_APART],
    count: usize,
}

impl<'m> Apart<'m> {
    /// Starts without any range.
    #[inline]
    pub fn new(memory: &'m mut ChunkMemory) -> Self {
        Self { memory, starts: [0; MOST_APART], ends: [0; MOST_APART], count: 0 }
    }

    /// Returns the bytes of a range. `None` if it is empty, does not lie within one chunk, ends
    /// beyond 4 GiB, overlaps a range taken before, or if [`MOST_APART`] ranges have been taken.
    #[inline]
    pub fn take(&mut self, range: Range<usize>) -> Option<&'m mut [u8]> {
        let (start, end) = (u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?);
        let (starts, ends) = (&self.starts[..self.count], &self.ends[..self.count]);
        // No early exit: the compiler turns this into a few vector comparisons.
        let overlaps = starts
            .iter()
            .zip(ends)
            .fold(false, |any, (first, last)| any | ((start < *last) & (*first < end)));
        if overlaps || self.count == MOST_APART {
            return None;
        }
        let bytes = self.memory.get_mut(range)?;
        (self.starts[self.count], self.ends[self.count]) = (start, end);
        self.count += 1;
        let (first, length) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the slice was just made by `get_mut`, for which the memory was borrowed; it is
        // borrowed for as long as the new slice lives. No byte of it is in another slice: as
        // checked, it overlaps none taken before, and the memory is not used in another way
        // meanwhile.
        #[allow(unsafe_code)]
        let bytes = unsafe { std::slice::from_raw_parts_mut(first, length) };
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_borrowed_once() {
        let mut memory = ChunkMemory::zeroed(4, 512);
        let mut apart = Apart::new(&mut memory);
        let first = apart.take(512..600).unwrap();
        let second = apart.take(600..700).unwrap();
        let third = apart.take(0..512).unwrap();
        (first[0], second[0], third[0]) = (1, 2, 3);
        for range in [512..513, 599..601, 500..520, 511..1024, 699..700, 0..1] {
            assert!(apart.take(range.clone()).is_none(), "{range:?}");
        }
        let far = 1_usize << 32;
        for range in [800..800, 1000..1025, 2000..2049, far..far + 1] {
            assert!(apart.take(range.clone()).is_none(), "{range:?}");
        }
        assert_eq!((first[0], second[0], third[0]), (1, 2, 3));
        assert_eq!(memory.array(600), Some(&[2]));
    }

    #[test]
    fn number_of_ranges_is_limited() {
        let mut memory = ChunkMemory::zeroed(1, 512);
        let mut apart = Apart::new(&mut memory);
        let taken = (0..512).map_while(|at| apart.take(at..at + 1)).count();
        assert_eq!(taken, MOST_APART);
    }

    proptest! {
        /// Compared with a set of the lent bytes.
        #[test]
        fn no_byte_is_lent_twice(
            ranges in prop::collection::vec((0_usize..300, 0_usize..40), 1..60),
        ) {
            let mut memory = ChunkMemory::zeroed(8, 32);
            let mut apart = Apart::new(&mut memory);
            let mut lent = [false; 8 * 32];
            for (start, length) in ranges {
                let range = start..start + length;
                let fits = length > 0 && range.end <= 256 && start / 32 == (range.end - 1) / 32;
                let free = fits && lent[range.clone()].iter().all(|lent| !lent);
                prop_assert_eq!(apart.take(range.clone()).is_some(), free, "{:?}", range);
                if free {
                    lent[range].fill(true);
                }
            }
        }
    }
}
