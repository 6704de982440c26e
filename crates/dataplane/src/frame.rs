//! Frames: descriptors of packets in a worker's memory, and batches of them.

use crate::port_id::PortId;

/// Most frames that a batch can hold.
pub const BATCH_MAX: usize = 64;

/// A packet in the memory of a worker.
///
/// A descriptor, not the bytes: those are in the [`FramePool`]'s memory at `offset`.
/// Whoever holds the descriptor owns the chunk; it must end in a transmit ring or in
/// [`FramePool::free`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Frame {
    /// Where the Ethernet header begins, in bytes from the start of the pool's memory.
    pub offset: u32,
    /// Length of the frame in bytes, without FCS.
    pub length: u16,
    /// The port it came from.
    pub port_in: PortId,
}

/// The memory of one worker's frames: a contiguous region cut into chunks of one size,
/// and the list of those that are free.
///
/// The memory may be shared with the kernel (an AF_XDP UMEM): chunks that a fill or
/// transmit ring holds belong to the kernel and are named by no [`Frame`] here.
pub struct FramePool {
    memory: Box<dyn FrameMemory>,
    chunk: u32,
    headroom: u32,
    free: Vec<u32>,
    chunks: u32,
}

/// A contiguous region of memory for frames.
pub trait FrameMemory: Send {
    /// All of it.
    fn bytes(&mut self) -> &mut [u8];
}

impl FrameMemory for Vec<u8> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

impl FramePool {
    /// Cuts `memory` into chunks of `chunk` bytes, all free; a frame written by the data
    /// plane itself begins `headroom` bytes into its chunk.
    ///
    /// # Panics
    /// When the memory exceeds 4 GiB, `chunk` is zero or `headroom` is not below `chunk`.
    pub fn new(mut memory: Box<dyn FrameMemory>, chunk: u32, headroom: u32) -> Self {
        let length = u32::try_from(memory.bytes().len()).expect("at most 4 GiB");
        assert!(chunk > 0 && headroom < chunk);
        let chunks = length / chunk;
        // In reverse, so that the first chunk is handed out first.
        let free = (0..chunks).rev().map(|index| index * chunk).collect();
        Self { memory, chunk, headroom, free, chunks }
    }

    /// The whole region, to be indexed by frames' offsets.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.memory.bytes()
    }

    /// The bytes of one frame.
    ///
    /// # Panics
    /// When the frame lies outside the region.
    #[inline]
    pub fn frame_bytes(&mut self, frame: &Frame) -> &mut [u8] {
        &mut self.memory.bytes()[frame.offset as usize..][..usize::from(frame.length)]
    }

    /// Size of a chunk in bytes.
    pub fn chunk_size(&self) -> u32 {
        self.chunk
    }

    /// Where in its chunk a frame begins that the data plane makes itself.
    pub fn headroom(&self) -> u32 {
        self.headroom
    }

    /// Number of all chunks, free or not.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Number of free chunks.
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }

    /// Takes a free chunk: the offset of its first byte.
    #[inline]
    pub fn take_chunk(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives back the chunk that holds `offset`, wherever in it that is.
    #[inline]
    pub fn free(&mut self, offset: u32) {
        debug_assert!(self.free.len() < self.chunks as usize, "a chunk was freed twice");
        self.free.push(offset - offset % self.chunk);
    }
}
