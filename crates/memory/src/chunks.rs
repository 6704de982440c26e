//! Memory divided into chunks that have several owners.

#![allow(unsafe_code)] // slices of memory that the kernel writes to at other places

use crate::pages::{Pages, Supply};
use rustix::io::Errno;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Zeroed memory divided into chunks of one size. Some of them may currently belong to another
/// owner: the kernel (an AF_XDP UMEM), or a card.
///
/// Slices lie within one chunk, so a reference never covers memory that a device may write to. The
/// arrays of [`Self::array`], which are only read, may reach into the [`HEAD`] of the next chunk,
/// where no device writes. (Memory on the heap has one owner; its chunk size need not be a power of
/// two, and its borders are not checked.) This is why the references are sound:
///
/// - The memory is mapped and initialised while the value exists.
/// - No other code makes references into it: [`Self::map`] also returns the mapping, whose only use
///   is its address for the kernel. Within the process the borrow of `self` excludes aliasing.
/// - The kernel writes only to chunks that a fill ring lent it, and never to their [`HEAD`]. The
///   holder of a chunk's offset owns the chunk. Giving the offset away gives up the chunk; it comes
///   back from a ring whose index is loaded with acquire. So no slice of a chunk exists while the
///   kernel has it.
///
/// The last point is a rule for the owners of offsets, as for any memory shared with a device.
/// [`ChunkSet`](crate::ChunkSet) detects offsets that come back twice, or that were never given.
pub struct ChunkMemory {
    start: NonNull<u8>,
    /// Length in bytes, a multiple of `chunk`.
    length: usize,
    /// Chunk size in bytes.
    chunk: usize,
    /// Ranges must not cross a multiple of this number of bytes, a power of two; [`NO_BORDER`] for
    /// no limit.
    border: usize,
    backing: Backing,
}

/// Bytes at the start of each chunk that no device writes to: the kernel receives into a chunk from
/// `XDP_PACKET_HEADROOM` (256) bytes after its start on, for each fragment of a frame
/// (`include/uapi/linux/bpf.h`, `net/xdp/xsk_buff_pool.c`). The headers of a frame fit into it.
pub const HEAD: usize = 64;

/// More than all memory: offsets that differ by this much lie in no memory.
const NO_BORDER: usize = 1 << (usize::BITS - 1);

/// Owner of the memory.
enum Backing {
    /// A slice on the heap that was a box.
    Heap(NonNull<[u8]>),
    /// Unmapped when the last holder drops it.
    Pages(#[expect(dead_code, reason = "keeps the mapping")] Arc<Pages>),
}

// SAFETY: the memory is valid in every thread, and only `self` accesses it.
unsafe impl Send for ChunkMemory {}

impl Drop for ChunkMemory {
    fn drop(&mut self) {
        if let Backing::Heap(slice) = self.backing {
            // SAFETY: the pointer comes from `Box::into_raw`, and this is its only use as a box.
            drop(unsafe { Box::from_raw(slice.as_ptr()) });
        }
    }
}

impl ChunkMemory {
    /// Creates `chunks` chunks of `chunk` bytes on the heap.
    ///
    /// # Panics
    /// Panics when `chunk` is zero, or the memory exceeds the address space.
    pub fn zeroed(chunks: usize, chunk: usize) -> Self {
        assert!(chunk > 0);
        let border = if chunk.is_power_of_two() { chunk } else { NO_BORDER };
        let length = chunks.checked_mul(chunk).expect("within the address space");
        let slice = NonNull::from(Box::leak(vec![0; length].into_boxed_slice()));
        Self { start: slice.cast(), length, chunk, border, backing: Backing::Heap(slice) }
    }

    /// Creates chunks of `chunk` bytes in at least `length` bytes of huge pages. Also returns the
    /// mapping, whose address is passed to the kernel.
    ///
    /// # Errors
    /// Returns the kernel's error.
    ///
    /// # Panics
    /// Panics when `chunk` is not a power of two.
    pub fn map(length: usize, chunk: usize) -> Result<(Self, Arc<Pages>), Errno> {
        assert!(chunk.is_power_of_two(), "chunks of {chunk} bytes");
        let pages = Arc::new(Pages::map(length, Supply::AtOnce)?);
        let length = pages.length() - pages.length() % chunk;
        let backing = Backing::Pages(Arc::clone(&pages));
        Ok((Self { start: pages.start(), length, chunk, border: chunk, backing }, pages))
    }

    /// Returns the size in bytes, a multiple of the chunk's.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the size of a chunk in bytes.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Returns true if a range is not empty and lies in one chunk.
    #[inline]
    fn is_within_a_chunk(&self, range: &Range<usize>) -> bool {
        let last = range.end.wrapping_sub(1);
        // Two branches that are never taken are a packet cheaper than one on both conditions.
        if range.start > last || last >= self.length {
            return outside();
        }
        // Offsets in one chunk differ only in their lower bits.
        if (range.start ^ last) >= self.border {
            return outside();
        }
        true
    }

    /// Returns the bytes of a range; `None` if it is empty, or does not lie within one chunk.
    #[inline]
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.is_within_a_chunk(&range).then(|| {
            // SAFETY: the range is in the memory; for the rest see the type.
            unsafe {
                std::slice::from_raw_parts(
                    self.start.as_ptr().add(range.start),
                    range.end - range.start,
                )
            }
        })
    }

    /// Like [`Self::get`], for writing.
    #[inline]
    pub fn get_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        self.is_within_a_chunk(&range).then(|| {
            // SAFETY: the range is in the memory; for the rest see the type.
            unsafe {
                std::slice::from_raw_parts_mut(
                    self.start.as_ptr().add(range.start),
                    range.end - range.start,
                )
            }
        })
    }

    /// Returns a range for reading and one for writing; `None` if they overlap, or one is not
    /// within a chunk.
    pub fn pair(&mut self, read: Range<usize>, write: Range<usize>) -> Option<(&[u8], &mut [u8])> {
        let within = self.is_within_a_chunk(&read) && self.is_within_a_chunk(&write);
        let apart = read.end <= write.start || write.end <= read.start;
        (within && apart).then(|| {
            let start = self.start.as_ptr();
            // SAFETY: both ranges are in the memory, and do not overlap; for the rest see the type.
            unsafe {
                (
                    std::slice::from_raw_parts(start.add(read.start), read.len()),
                    std::slice::from_raw_parts_mut(start.add(write.start), write.len()),
                )
            }
        })
    }

    /// Returns the `N` bytes at `start` as an array, for reading; `None` outside the memory. It may
    /// reach into the [`HEAD`] of the next chunk: each header of each packet is read in this way,
    /// and a check for the chunk's end would cost a packet three cycles.
    #[inline]
    pub fn array<const N: usize>(&self, start: usize) -> Option<&[u8; N]> {
        const { assert!(N > 0 && N <= HEAD, "more than no device writes to") };
        // The same value for all packets of a batch, which leaves one comparison.
        let end = (self.length + 1).saturating_sub(N);
        if start >= end {
            return none();
        }
        // SAFETY: the range is in the memory; for the rest see the type.
        Some(unsafe { &*self.start.as_ptr().add(start).cast() })
    }

    /// Returns the `N` bytes at `start` as an array, for writing; `None` if they do not lie within
    /// one chunk.
    #[inline]
    pub fn array_mut<const N: usize>(&mut self, start: usize) -> Option<&mut [u8; N]> {
        const { assert!(N > 0) };
        let last = start.wrapping_add(N - 1);
        if last >= self.length {
            return none();
        }
        // A range that wraps around begins in the upper half of the address space and ends in the
        // lower one, so that its ends differ by more than any border.
        if (start ^ last) >= self.border {
            return none();
        }
        // SAFETY: the range is in the memory; for the rest see the type.
        Some(unsafe { &mut *self.start.as_ptr().add(start).cast() })
    }

    /// Starts loading the cache line at `start`, whoever owns it; does nothing outside the memory.
    #[inline(always)]
    pub fn prefetch(&self, start: usize) {
        if start < self.length {
            // SAFETY: the place is in the memory.
            crate::prefetch::prefetch_at(unsafe { self.start.as_ptr().add(start) });
        }
    }
}

/// Tells the compiler that a range outside of a chunk is rare.
#[cold]
fn outside() -> bool {
    false
}

/// Does the same for an array.
#[cold]
fn none<T>() -> Option<T> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HUGE_PAGE;
    use proptest::prelude::*;

    #[test]
    fn a_mapping_is_zeroed_writable_and_whole_pages() {
        let (mut memory, pages) = ChunkMemory::map(5000, 2048).unwrap();
        assert_eq!((memory.length(), pages.length()), (HUGE_PAGE, HUGE_PAGE));
        assert_eq!(memory.get(0..2048), Some(&[0; 2048][..]));
        let last = HUGE_PAGE - 1;
        memory.get_mut(last..HUGE_PAGE).unwrap()[0] = 7;
        drop(pages);
        assert_eq!(memory.array::<2>(last - 1), Some(&[0, 7]));
    }

    #[test]
    fn no_slice_reaches_into_the_next_chunk() {
        let mut memory = ChunkMemory::zeroed(4, 512);
        assert!(memory.get(0..512).is_some());
        assert!(memory.get(0..513).is_none());
        assert!(memory.get_mut(511..513).is_none());
        assert!(memory.get(2047..2048).is_some());
        assert!(memory.get(2047..2049).is_none());
        assert!(memory.get(2048..2049).is_none());
        assert!(memory.array_mut::<14>(498).is_some());
        assert!(memory.array_mut::<14>(499).is_none());
        for start in [2035, 2048, usize::MAX - 3, usize::MAX] {
            assert!(memory.array_mut::<14>(start).is_none(), "{start}");
            assert!(memory.array::<14>(start).is_none(), "{start}");
        }
        assert!(memory.array::<1>(2047).is_some() && memory.array_mut::<1>(2047).is_some());
        assert!(memory.get(7..7).is_none(), "no byte, no owner");
        assert!(memory.get(0..0).is_none());
        // As produced by a start near the end of the address space.
        for range in [Range { start: usize::MAX, end: 3 }, Range { start: 9, end: 8 }] {
            assert!(memory.get(range.clone()).is_none(), "{range:?}");
        }
        memory.prefetch(usize::MAX);
        let heap = ChunkMemory::zeroed(2, 600);
        assert!(heap.get(0..1200).is_some() && heap.get(0..1201).is_none(), "one owner");
        assert!(heap.array::<14>(1186).is_some() && heap.array::<14>(1187).is_none());
        assert!(heap.array::<14>(usize::MAX - 3).is_none());
    }

    #[test]
    fn read_only_slice_ends_before_the_head_of_the_next_chunk() {
        let mut memory = ChunkMemory::zeroed(2, 512);
        for (at, value) in [(510, 7), (511, 8), (512, 9), (573, 10), (1023, 11)] {
            memory.get_mut(at..at + 1).unwrap()[0] = value;
        }
        assert_eq!(memory.array::<4>(510), Some(&[7, 8, 9, 0]));
        assert_eq!(memory.array::<HEAD>(510).unwrap()[63], 10);
        assert_eq!(memory.array::<HEAD>(960).unwrap()[63], 11);
        assert!(memory.array::<HEAD>(961).is_none());
        assert!(ChunkMemory::zeroed(1, 8).array::<HEAD>(0).is_none());
        assert!(ChunkMemory::zeroed(0, 8).array::<1>(0).is_none());
    }

    #[test]
    fn a_pair_does_not_overlap() {
        let mut memory = ChunkMemory::zeroed(2, 512);
        memory.get_mut(3..5).unwrap().fill(9);
        let (read, write) = memory.pair(3..5, 512..514).unwrap();
        write.copy_from_slice(read);
        assert_eq!(memory.get(512..515), Some(&[9, 9, 0][..]));
        assert!(memory.pair(3..5, 5..7).is_some() && memory.pair(5..7, 3..5).is_some());
        assert!(memory.pair(3..5, 4..7).is_none() && memory.pair(4..7, 3..5).is_none());
        assert!(memory.pair(511..513, 600..601).is_none());
        assert!(memory.pair(0..1, 1023..1025).is_none());
    }

    proptest! {
        /// Compared with a plain vector, with the rule written out.
        #[test]
        fn ranges_are_those_of_one_chunk(
            chunk in (0_u32..6).prop_map(|power| 1_usize << power),
            accesses in prop::collection::vec((0_usize..300, 0_usize..300, any::<u8>()), 1..40),
        ) {
            let mut memory = ChunkMemory::zeroed(7, chunk);
            let mut model = vec![0; 7 * chunk];
            for (start, end, value) in accesses {
                let allowed = start < end && end <= 7 * chunk && start / chunk == (end - 1) / chunk;
                prop_assert_eq!(memory.get(start..end).is_some(), allowed);
                if let Some(bytes) = memory.get_mut(start..end) {
                    bytes.fill(value);
                    model[start..end].fill(value);
                }
            }
            let all = (0..7).flat_map(|at| memory.get(at * chunk..(at + 1) * chunk).unwrap());
            prop_assert!(all.eq(&model));
        }
    }
}
