//! Pools of SKBs and buffers, and the lines read when returning them.

use super::cache::Line;
use super::data::Phase;
use super::layout::{PageStruct, buffer_slab, skb_slab};
use super::machine::Machine;
use super::slab::Slab;

/// An SKB and its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub skb: u32,
    pub buffer: u32,
}

/// The SKBs and buffers of a host.
pub(super) enum Pool {
    Slab { skbs: Box<Slab>, buffers: Box<Slab> },
    Contiguous { free: Vec<Vec<u32>>, made: u32 },
}

impl Pool {
    /// Creates allocators with this many SKBs and buffers per page.
    pub fn slab([skbs, buffers]: [u32; 2], shared_array: bool, cores: usize) -> Self {
        let batches = if shared_array { 8 } else { 0 };
        Self::Slab {
            skbs: Box::new(Slab::new(skbs, 120, batches, cores)),
            buffers: Box::new(Slab::new(buffers, 24, batches, cores)),
        }
    }

    /// Creates a range for SKBs and a range for buffers.
    pub fn contiguous(cores: usize) -> Self {
        Self::Contiguous { free: vec![Vec::new(); cores], made: 0 }
    }

    /// Takes an SKB and a buffer.
    pub fn take(&mut self, core: usize, machine: &mut Machine) -> Packet {
        match self {
            Self::Slab { skbs, buffers } => Packet {
                skb: skbs.take(core, |page| {
                    for line in skb_slab(page) {
                        machine.touch(core, Phase::Refill, line, true);
                    }
                }),
                buffer: buffers.take(core, |page| {
                    machine.touch(core, Phase::Refill, buffer_slab(page), true);
                }),
            },
            Self::Contiguous { free, made } => {
                let object = free[core].pop().unwrap_or_else(|| {
                    *made += 1;
                    *made - 1
                });
                Packet { skb: object, buffer: object }
            }
        }
    }

    /// Finds the allocators of a buffer and its SKB by their pages, and returns both.
    pub fn give(&mut self, core: usize, packet: Packet, of: PageStruct, machine: &mut Machine) {
        let phase = Phase::Release;
        match self {
            Self::Contiguous { free, .. } => free[core].push(packet.skb),
            Self::Slab { skbs, buffers } => {
                for line in of.buffer_lines(buffers.page(packet.buffer)) {
                    machine.touch(core, phase, line, false);
                }
                buffers.give(core, packet.buffer, |page| {
                    for line in of.buffer_lines(page) {
                        machine.touch(core, phase, line, false);
                    }
                    machine.touch(core, phase, buffer_slab(page), true);
                });
                for line in of.skb_lines(skbs.page(packet.skb)) {
                    machine.touch(core, phase, line, false);
                }
                skbs.give(core, packet.skb, |page| {
                    for line in of.skb_lines(page) {
                        machine.touch(core, phase, line, false);
                    }
                    for line in skb_slab(page) {
                        machine.touch(core, phase, line, true);
                    }
                });
            }
        }
    }

    /// Returns the lines of page structures that a release reads.
    pub fn pages_of(&self, packet: Packet, of: PageStruct) -> impl Iterator<Item = Line> + use<> {
        let pages = match self {
            Self::Contiguous { .. } => None,
            Self::Slab { skbs, buffers } => {
                Some((buffers.page(packet.buffer), skbs.page(packet.skb)))
            }
        };
        pages
            .into_iter()
            .flat_map(move |(buffer, skb)| of.buffer_lines(buffer).chain(of.skb_lines(skb)))
    }
}
