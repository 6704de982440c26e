//! Output of a source: packets in order of time, in blocks.

use std::ops::Deref;
use wattline_units::Time;

/// One packet as it arrives at the network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Arrival time of the last bit, in picoseconds since the start of the run. 64 bits keep a
    /// packet at 16 bytes and last 213 days, more than any simulated run.
    pub picos: u64,
    /// 32-bit RSS hash of its flow, which also identifies the flow. Two synthetic flows of a source
    /// never have the same hash; two flows of a capture only by a collision.
    pub flow: u32,
    /// Length of the frame in bytes, as it counts for rates.
    pub length: u16,
    /// Port on which it arrives, from 0.
    pub port: u8,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    /// Arrival time of the last bit.
    pub const fn time(&self) -> Time {
        Time::from_picos(self.picos)
    }
}

/// A sequence of packets in order of time.
///
/// Sources fill whole blocks, so that their state stays in registers. A block of
/// [`Block::CAPACITY`] packets fits into the first-level cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    packets: Vec<Packet>,
}

impl Block {
    /// Capacity of a block in packets.
    pub const CAPACITY: usize = 512;

    /// An empty block.
    pub fn new() -> Self {
        Self { packets: Vec::with_capacity(Self::CAPACITY) }
    }
    /// Removes all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
    }
    /// Returns true if the block is full.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= Self::CAPACITY
    }
    /// Appends a packet, which must not be earlier than the one before.
    pub fn push(&mut self, packet: Packet) {
        debug_assert!(self.packets.last().is_none_or(|last| last.picos <= packet.picos));
        self.packets.push(packet);
    }
    /// Number of packets that still fit.
    pub fn room(&self) -> usize {
        Self::CAPACITY.saturating_sub(self.packets.len())
    }
    /// Appends packets in order of time. An iterator of known length avoids a capacity check per
    /// packet.
    pub fn extend(&mut self, packets: impl Iterator<Item = Packet>) {
        self.packets.extend(packets);
    }
    /// Replaces the contents by a whole block from `next`.
    pub fn fill(&mut self, mut next: impl FnMut() -> Packet) {
        self.packets.clear();
        self.extend((0..Self::CAPACITY).map(|_| next()));
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Block {
    type Target = [Packet];
    fn deref(&self) -> &[Packet] {
        &self.packets
    }
}
