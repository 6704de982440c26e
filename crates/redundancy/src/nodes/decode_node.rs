//! `redundancy4-decode` and `redundancy6-decode`: restore encoded packets.
//!
//! The nodes follow the inputs directly, so access lists, source checks and policies judge the
//! restored packet. Packets that arrive unencoded are added to the cache. An encoded packet that
//! refers to a missing packet is dropped and reported to the encoder. If the encoder does not wait
//! for confirmations, the packet first waits a few milliseconds, since the missing one may arrive
//! through another queue.
//!
//! - next: the next node at its place, `drop` (`redundancy-missing`, `redundancy-forged`,
//!   `redundancy-damaged`)

use super::counters::DecodeCounters;
use super::decode::{Decoded, Decoder};
use super::rules::Rules;
use super::view::{View, replace};
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::graph::{CONSUMED, Context, Edge, Node};
use wattline_dataplane::packet::Packet;
use wattline_packet::{Family, ethernet};
use wattline_units::{Span, Time};

const ON: Edge = 0;
const DROP: Edge = 1;
/// Largest number of packets that wait at once.
const WAITING: usize = 32;
/// At most one chunk in this many may wait.
const SHARE: usize = 8;
const PATIENCE: Span = Span::from_millis(3);

/// One section of the configuration, in one node.
pub struct DecodeSection {
    /// Rules that select the packets.
    pub rules: Rules,
    /// Decoder of the section.
    pub decoder: Decoder,
    /// Counters of the section.
    pub counters: Arc<DecodeCounters>,
}

struct Waiting {
    packet: Packet,
    section: usize,
    since: Time,
}

/// Node for one IP version; see the module.
pub struct DecodeNode {
    family: Family,
    sections: Vec<DecodeSection>,
    waiting: Vec<Waiting>,
}

/// Result for an encoded packet.
enum Fate {
    On,
    Wait,
    Drop(DropReason),
}

impl DecodeNode {
    /// Makes the node; the first section whose rules cover a packet decodes it.
    #[must_use]
    pub fn new(family: Family, sections: Vec<DecodeSection>) -> Self {
        Self { family, sections, waiting: Vec::with_capacity(WAITING) }
    }

    /// Returns the name of the node, for the feature.
    #[must_use]
    pub fn name_of(family: Family) -> &'static str {
        match family {
            Family::V4 => "redundancy4-decode",
            Family::V6 => "redundancy6-decode",
        }
    }

    fn may_wait(&self, pool: &FramePool) -> bool {
        self.waiting.len() < WAITING.min(pool.chunks() as usize / SHARE)
    }

    /// Returns the edge of a packet that has just arrived.
    fn receive(&mut self, context: &mut Context, packet: &mut Packet) -> Edge {
        let memory = &*context.pool.memory();
        let Some(view) = View::parse(self.family, packet, memory) else { return ON };
        let covers =
            |section: &DecodeSection| section.rules.cover(packet.frame.port_in, view.destination);
        let Some(number) = self.sections.iter().position(covers) else { return ON };
        let section = &mut self.sections[number];
        let counters = &*section.counters;
        if view.protocol != section.rules.protocol {
            if view.unfit || section.rules.bypass(view.protocol, view.payload).is_some() {
                counters.bypassed_packets.add(1);
            } else {
                section.decoder.remember(view.protocol, view.payload);
                counters.remembered_packets.add(1);
            }
            return ON;
        }
        counters.packets.add(1);
        counters.in_bytes.add(view.length as u64);
        if view.unfit {
            counters.malformed_packets.add(1);
            packet.reason = DropReason::RedundancyDamaged;
            return DROP;
        }
        match section.restore(self.family, &mut context.pool, packet) {
            Fate::On => ON,
            Fate::Drop(reason) => {
                packet.reason = reason;
                DROP
            }
            Fate::Wait => {
                let may_wait = section.decoder.may_come() && {
                    section.counters.waited_packets.add(1);
                    self.may_wait(&context.pool)
                };
                if may_wait {
                    self.waiting.push(Waiting {
                        packet: *packet,
                        section: number,
                        since: context.now,
                    });
                    context.counters.totals.held.add(1);
                    return CONSUMED;
                }
                self.sections[number].give_up(self.family, &mut context.pool, packet);
                packet.reason = DropReason::RedundancyMissing;
                DROP
            }
        }
    }

    /// Tries waiting packets again, and gives up those that have waited long enough.
    fn try_again(&mut self, context: &mut Context) {
        let mut number = 0;
        while let Some(waiting) = self.waiting.get_mut(number) {
            let Some(section) = self.sections.get_mut(waiting.section) else { return };
            let packet = &mut waiting.packet;
            let edge = match section.restore(self.family, &mut context.pool, packet) {
                Fate::On => {
                    section.counters.late_packets.add(1);
                    ON
                }
                Fate::Drop(reason) => {
                    packet.reason = reason;
                    DROP
                }
                Fate::Wait if context.now.since(waiting.since) < PATIENCE => {
                    number += 1;
                    continue;
                }
                Fate::Wait => {
                    section.give_up(self.family, &mut context.pool, packet);
                    packet.reason = DropReason::RedundancyMissing;
                    DROP
                }
            };
            context.spawn(edge, *packet);
            let held = &context.counters.totals.held;
            held.set(held.get().saturating_sub(1));
            self.waiting.swap_remove(number);
        }
    }
}

impl Node for DecodeNode {
    fn name(&self) -> &'static str {
        Self::name_of(self.family)
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT, "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        for (packet, edge) in packets.iter_mut().zip(edges) {
            *edge = self.receive(context, packet);
        }
    }

    fn tick(&mut self, context: &mut Context) {
        if !self.waiting.is_empty() {
            self.try_again(context);
        }
    }

    fn shut_down(&mut self, context: &mut Context) {
        for waiting in self.waiting.drain(..) {
            context.pool.free(waiting.packet.frame.offset);
            context.counters.dropped(DropReason::Shutdown, 1);
            let held = &context.counters.totals.held;
            held.set(held.get().saturating_sub(1));
        }
    }
}

impl DecodeSection {
    /// Restores an encoded packet in its frame.
    fn restore(&mut self, family: Family, pool: &mut FramePool, packet: &mut Packet) -> Fate {
        let chunk = pool.chunk_size() as usize;
        let memory = pool.memory();
        let Some(view) = View::parse(family, packet, memory) else {
            return Fate::Drop(DropReason::RedundancyDamaged);
        };
        let counters = &*self.counters;
        let (counter, reason) = match self.decoder.decode(view.payload) {
            Decoded::Whole { protocol, .. } if !self.rules.may_be_encoded(family, protocol) => {
                (&counters.malformed_packets, DropReason::RedundancyDamaged)
            }
            Decoded::Whole { protocol, payload } => {
                let length = family.header() + payload.len();
                let begin = packet.frame.offset as usize % chunk + ethernet::HEADER;
                let fits = begin + length <= chunk;
                if fits && replace(family, packet, memory, protocol, payload).is_some() {
                    counters.decoded_packets.add(1);
                    counters.out_bytes.add(length as u64);
                    return Fate::On;
                }
                (&counters.too_long_packets, DropReason::RedundancyDamaged)
            }
            Decoded::Foreign => {
                counters.foreign_packets.add(1);
                return Fate::On;
            }
            Decoded::Missing => return Fate::Wait,
            Decoded::Forged => (&counters.forged_packets, DropReason::RedundancyForged),
            Decoded::OtherVersion => {
                (&counters.other_version_packets, DropReason::RedundancyDamaged)
            }
            Decoded::Malformed => (&counters.malformed_packets, DropReason::RedundancyDamaged),
            Decoded::Damaged => (&counters.integrity_failures, DropReason::RedundancyDamaged),
        };
        counter.add(1);
        Fate::Drop(reason)
    }

    /// Reports the packets that an encoded packet lacked to the encoder.
    fn give_up(&self, family: Family, pool: &mut FramePool, packet: &Packet) {
        self.counters.missed_packets.add(1);
        if let Some(view) = View::parse(family, packet, pool.memory()) {
            self.decoder.report(view.payload);
        }
    }
}
