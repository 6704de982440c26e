//! What a source gives: packets in order of time, by the block.

use std::ops::Deref;
use wattline_units::Time;

/// One packet as the network interface sees it arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When its last bit has arrived, in picoseconds since the start of the run: 64 bits keep a
    /// packet at 16 bytes, and a simulated run is shorter than their 213 days.
    pub picos: u64,
    /// The 32-bit RSS hash of its flow, which also names the flow: two flows of one
    /// source never share it by construction (synthetic) or only by a collision of the
    /// hash (captures).
    pub flow: u32,
    /// Length of the frame in bytes, as rates count it.
    pub length: u16,
    /// The port that it arrives on, from 0.
    pub port: u8,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    /// When its last bit has arrived.
    pub const fn time(&self) -> Time {
        Time::from_picos(self.picos)
    }
}

/// A run of packets in order of time.
///
/// Sources work by the block so that their state stays in registers; a block of
/// [`Block::CAPACITY`] packets fits the first-level cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    packets: Vec<Packet>,
}

impl Block {
    /// Packets that fit one block.
    pub const CAPACITY: usize = 512;

    /// An empty block.
    pub fn new() -> Self {
        Self { packets: Vec::with_capacity(Self::CAPACITY) }
    }
    /// Removes all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
    }
    /// Whether there is room for no more.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= Self::CAPACITY
    }
    /// Appends a packet, which must not be earlier than the one before.
    pub fn push(&mut self, packet: Packet) {
        debug_assert!(self.packets.last().is_none_or(|last| last.picos <= packet.picos));
        self.packets.push(packet);
    }
    /// How many packets there is room for.
    pub fn room(&self) -> usize {
        Self::CAPACITY.saturating_sub(self.packets.len())
    }
    /// Appends packets in order of time. An iterator of known length spares a check of the
    /// capacity per packet.
    pub fn extend(&mut self, packets: impl Iterator<Item = Packet>) {
        self.packets.extend(packets);
    }
    /// Replaces the content by a whole block from `next`.
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
