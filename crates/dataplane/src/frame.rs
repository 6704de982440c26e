//! Frames: descriptors of packets in a worker's memory, and batches of them.

use crate::port_id::PortId;
use wattline_memory::ChunkSet;

pub use wattline_memory::ChunkMemory;

/// Largest number of frames in a batch.
pub const BATCH_MAX: usize = 64;

/// A packet in the memory of a worker.
///
/// This is a descriptor; the bytes are in the [`FramePool`]'s memory at `offset`. The holder of the
/// descriptor owns the chunk, which must end in a transmit ring or in [`FramePool::free`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Frame {
    /// Offset of the Ethernet header in bytes from the start of the pool's memory.
    pub offset: u32,
    /// Length of the frame in bytes, without FCS.
    pub length: u16,
    /// Port on which the frame arrived.
    pub port_in: PortId,
}

/// Memory for the frames of one worker: a contiguous region divided into chunks of one size, and
/// the list of free chunks.
///
/// The memory may be shared with the kernel (an AF_XDP UMEM). Chunks in a fill or transmit ring
/// belong to the kernel, and no [`Frame`] refers to them; see [`ChunkMemory`] for what makes access
/// sound.
pub struct FramePool {
    memory: ChunkMemory,
    chunk: u32,
    headroom: u32,
    free: Vec<u32>,
    /// The chunks in `free`.
    is_free: ChunkSet,
    chunks: u32,
    refused: u64,
}

impl FramePool {
    /// Divides `memory` into free chunks. A frame that the data plane writes itself begins
    /// `headroom` bytes into its chunk.
    ///
    /// # Panics
    /// Panics when the memory exceeds 4 GiB, or `headroom` is not below the chunk size.
    pub fn new(memory: ChunkMemory, headroom: u32) -> Self {
        let length = u32::try_from(memory.length()).expect("at most 4 GiB");
        let chunk = u32::try_from(memory.chunk()).expect("at most 4 GiB");
        assert!(headroom < chunk);
        let chunks = length / chunk;
        // Reversed, so that the first chunk is taken first.
        let free = (0..chunks).rev().map(|index| index * chunk).collect();
        let is_free = ChunkSet::all(length.into(), chunk);
        Self { memory, chunk, headroom, free, is_free, chunks, refused: 0 }
    }

    /// Makes a pool on the heap: `chunks` chunks of `chunk` bytes.
    ///
    /// # Panics
    /// As [`Self::new`], and when `chunk` is zero.
    pub fn zeroed(chunks: u32, chunk: u32, headroom: u32) -> Self {
        Self::new(ChunkMemory::zeroed(chunks as usize, chunk as usize), headroom)
    }

    /// Returns the memory; the offsets of frames index it.
    #[inline]
    pub fn memory(&mut self) -> &mut ChunkMemory {
        &mut self.memory
    }

    /// Returns the bytes of one frame.
    ///
    /// # Panics
    /// Panics when the frame does not lie within a chunk.
    #[inline]
    pub fn frame_bytes(&mut self, frame: &Frame) -> &mut [u8] {
        let start = frame.offset as usize;
        match self.memory.get_mut(start..start + usize::from(frame.length)) {
            Some(bytes) => bytes,
            None if frame.length == 0 => &mut [],
            None => panic!("{frame:?} does not lie within a chunk"),
        }
    }

    /// Returns the size of a chunk in bytes.
    pub fn chunk_size(&self) -> u32 {
        self.chunk
    }

    /// Returns the offset within a chunk at which the data plane begins its own frames, in bytes.
    pub fn headroom(&self) -> u32 {
        self.headroom
    }

    /// Returns the number of chunks, both free and used.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Returns the number of free chunks.
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }

    /// Takes a free chunk and returns the offset of its first byte; `None` if no chunk is free.
    #[inline]
    pub fn take_chunk(&mut self) -> Option<u32> {
        let offset = self.free.pop()?;
        self.is_free.remove(offset.into());
        Some(offset)
    }

    /// Frees the chunk that contains `offset`. A chunk that is free already, or not of this memory,
    /// is ignored and counted, since it would get two owners.
    #[inline]
    pub fn free(&mut self, offset: u32) {
        match self.is_free.insert(offset.into()) {
            // Below 4 GiB, as the whole memory.
            Some(number) => self.free.push(number as u32 * self.chunk),
            None => self.refuse(),
        }
    }

    #[cold]
    fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Returns the number of times that [`Self::free`] got a chunk that was free, or not of this
    /// memory: a defect of a node or a port.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_chunk_that_is_freed_twice_has_one_owner() {
        let mut pool = FramePool::zeroed(4, 512, 64);
        let (first, second) = (pool.take_chunk().unwrap(), pool.take_chunk().unwrap());
        pool.free(first + 64);
        pool.free(first);
        assert_eq!((pool.free_chunks(), pool.refused()), (3, 1));
        let taken: BTreeSet<_> = std::iter::from_fn(|| pool.take_chunk()).collect();
        assert!(taken.len() == 3 && !taken.contains(&second), "{taken:?}");
    }

    #[test]
    fn a_chunk_of_another_memory_is_not_taken_in() {
        let mut pool = FramePool::zeroed(4, 512, 64);
        assert!(pool.take_chunk().is_some());
        for offset in [4 * 512, 63 * 512, u32::MAX] {
            pool.free(offset);
        }
        assert_eq!((pool.free_chunks(), pool.refused()), (3, 3));
    }

    #[test]
    fn a_frame_is_within_its_chunk() {
        let mut pool = FramePool::zeroed(2, 512, 64);
        let frame = |offset, length| Frame { offset, length, port_in: PortId(0) };
        assert_eq!(pool.frame_bytes(&frame(64, 448)).len(), 448);
        assert_eq!(pool.frame_bytes(&frame(64, 0)).len(), 0);
        let beyond = std::panic::AssertUnwindSafe(|| pool.frame_bytes(&frame(64, 449)).len());
        assert!(std::panic::catch_unwind(beyond).is_err());
    }

    proptest! {
        /// Compares with a set of the chunks in use: whatever is freed, no chunk has two owners,
        /// and none is lost.
        #[test]
        fn no_chunk_has_two_owners(
            steps in prop::collection::vec(prop::option::of(0_u32..80 * 512), 1..400),
        ) {
            let mut pool = FramePool::zeroed(70, 512, 64);
            let mut away = BTreeSet::new();
            let mut refused = 0;
            for step in steps {
                match step {
                    Some(offset) => {
                        let freed = away.remove(&(offset / 512));
                        refused += u64::from(!freed);
                        pool.free(offset);
                    }
                    None => match pool.take_chunk() {
                        Some(offset) => prop_assert!(away.insert(offset / 512)),
                        None => prop_assert_eq!(away.len(), 70),
                    },
                }
                prop_assert_eq!(pool.free_chunks() + away.len(), 70);
                prop_assert_eq!(pool.refused(), refused);
            }
        }
    }
}
