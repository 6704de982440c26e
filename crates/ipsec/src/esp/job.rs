//! One packet's part of the cryptography of a batch.

use super::transform::Transform;
use std::ops::Range;
use wattline_dataplane::frame::ChunkMemory;

/// A packet to seal or to open, and the result.
#[derive(Clone, Copy)]
pub(super) struct Job<'d> {
    pub transform: &'d Transform,
    /// Whole sequence number.
    pub sequence: u64,
    /// Number from which the IV of a packet to seal is made.
    pub unique: u64,
    /// Place of the ESP packet in the memory, from its header to its ICV.
    pub start: u32,
    pub end: u32,
    /// True if the high half of the sequence number is authenticated.
    pub extended: bool,
    /// True if it was sealed, or opened as authentic.
    pub done: bool,
}

impl Job<'_> {
    /// Returns the place of the ESP packet.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Seals the packet without the multi-buffer library.
    #[inline]
    pub fn seal(&mut self, memory: &mut ChunkMemory) {
        let Self { transform, sequence, unique, extended, .. } = *self;
        self.done = memory
            .get_mut(self.range())
            .is_some_and(|packet| transform.seal(packet, sequence, extended, unique).is_ok());
    }

    /// Opens the packet without the multi-buffer library.
    #[inline]
    pub fn open(&mut self, memory: &mut ChunkMemory) {
        let Self { transform, sequence, extended, .. } = *self;
        self.done = memory
            .get_mut(self.range())
            .is_some_and(|packet| transform.open(packet, sequence, extended).is_ok());
    }
}
