//! Frames: descriptors of packets in a worker's memory, and batches of them.

use crate::port_id::PortId;

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
/// belong to the kernel, and no [`Frame`] refers to them.
pub struct FramePool {
    memory: Box<dyn FrameMemory>,
    chunk: u32,
    headroom: u32,
    free: Vec<u32>,
    chunks: u32,
}

/// A contiguous region of memory for frames.
pub trait FrameMemory: Send {
    /// All bytes of the region.
    fn bytes(&mut self) -> &mut [u8];
}

impl FrameMemory for Vec<u8> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

impl FramePool {
    /// Divides `memory` into free chunks of `chunk` bytes. A frame that the data plane writes
    /// itself begins `headroom` bytes into its chunk.
    ///
    /// # Panics
    /// Panics when the memory exceeds 4 GiB, `chunk` is zero, or `headroom` is not below `chunk`.
    pub fn new(mut memory: Box<dyn FrameMemory>, chunk: u32, headroom: u32) -> Self {
        let length = u32::try_from(memory.bytes().len()).expect("at most 4 GiB");
        assert!(chunk > 0 && headroom < chunk);
        let chunks = length / chunk;
        // Reversed, so that the first chunk is taken first.
        let free = (0..chunks).rev().map(|index| index * chunk).collect();
        Self { memory, chunk, headroom, free, chunks }
    }

    /// The whole region; the offsets of frames index it.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.memory.bytes()
    }

    /// The bytes of one frame.
    ///
    /// # Panics
    /// Panics when the frame lies outside the region.
    #[inline]
    pub fn frame_bytes(&mut self, frame: &Frame) -> &mut [u8] {
        &mut self.memory.bytes()[frame.offset as usize..][..usize::from(frame.length)]
    }

    /// Size of a chunk in bytes.
    pub fn chunk_size(&self) -> u32 {
        self.chunk
    }

    /// Offset within a chunk at which the data plane begins its own frames, in bytes.
    pub fn headroom(&self) -> u32 {
        self.headroom
    }

    /// Number of chunks, both free and used.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Number of free chunks.
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }

    /// Takes a free chunk and returns the offset of its first byte; `None` if no chunk is free.
    #[inline]
    pub fn take_chunk(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Frees the chunk that contains `offset`.
    #[inline]
    pub fn free(&mut self, offset: u32) {
        debug_assert!(self.free.len() < self.chunks as usize, "a chunk was freed twice");
        self.free.push(offset - offset % self.chunk);
    }
}
