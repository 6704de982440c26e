//! `redundancy4-encode` and `redundancy6-encode`: shorten packets on their way to the decoder.
//!
//! The nodes are between lookup and rewrite. Packets that are not encoded pass unchanged. A packet
//! never gets longer, and none is dropped here.
//!
//! - next: the next node at its place

use super::counters::EncodeCounters;
use super::encode::{Encoded, Encoder};
use super::rules::{Bypass, Rules};
use super::view::{View, replace};
use std::sync::Arc;
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::forwarding::Hop;
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::packet::Packet;
use wattline_packet::Family;
use wattline_packet::redundancy::LONGEST_PAYLOAD;

/// One section of the configuration, in one node.
pub struct EncodeSection {
    /// Rules that select the packets.
    pub rules: Rules,
    /// Encoder of the section.
    pub encoder: Encoder,
    /// Counters of the section.
    pub counters: Arc<EncodeCounters>,
}

/// Node for one IP version; see the module.
pub struct EncodeNode {
    family: Family,
    sections: Vec<EncodeSection>,
    out: Box<[u8]>,
}

impl EncodeNode {
    /// Makes the node; the first section whose rules cover a packet encodes it.
    #[must_use]
    pub fn new(family: Family, sections: Vec<EncodeSection>) -> Self {
        Self { family, sections, out: vec![0; LONGEST_PAYLOAD].into() }
    }

    /// Returns the name of the node, for the feature.
    #[must_use]
    pub fn name_of(family: Family) -> &'static str {
        match family {
            Family::V4 => "redundancy4-encode",
            Family::V6 => "redundancy6-encode",
        }
    }
}

impl Node for EncodeNode {
    fn name(&self) -> &'static str {
        Self::name_of(self.family)
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        edges.fill(0);
        let table = context.routes.table();
        let memory = context.pool.memory();
        for packet in packets {
            let hop = table.hop(packet.next_hop);
            let Some(view) = View::parse(self.family, packet, memory) else { continue };
            let covers =
                |section: &&mut EncodeSection| section.rules.cover(hop.port, view.destination);
            let Some(section) = self.sections.iter_mut().find(covers) else { continue };
            // Stations on the link itself are not behind the decoder.
            let on_link = || {
                let port = table.port(hop.port);
                port.is_some_and(|it| it.addresses.iter().any(|a| a.contains(&view.destination)))
            };
            let length = view.length;
            section.counters.packets.add(1);
            section.counters.in_bytes.add(length as u64);
            let encoded = match section.bypasses(&view, hop, on_link) {
                true => None,
                false => section.encode(&view, &mut self.out),
            };
            let protocol = section.rules.protocol;
            let shorter = encoded.and_then(|length| self.out.get(..length));
            let replaced = shorter.and_then(|bytes| {
                replace(self.family, packet, memory, protocol, bytes).map(|()| bytes.len())
            });
            let left = replaced.map_or(length, |payload| self.family.header() + payload);
            section.counters.out_bytes.add(left as u64);
        }
    }
}

impl EncodeSection {
    /// Returns true if a packet is skipped without a look at its content; counts the reason.
    fn bypasses(&self, view: &View, hop: &Hop, on_link: impl FnOnce() -> bool) -> bool {
        let counters = &*self.counters;
        // An ICMP error must quote a packet that expires or does not fit as it was sent.
        let unfit = view.unfit || view.hops <= 1 || view.length > usize::from(hop.mtu);
        let counter = if unfit {
            &counters.bypassed_unfit_packets
        } else if on_link() {
            &counters.bypassed_local_packets
        } else {
            match self.rules.bypass(view.protocol, view.payload) {
                Some(Bypass::Length) => &counters.bypassed_length_packets,
                Some(Bypass::Encrypted) => &counters.bypassed_encrypted_packets,
                None => return false,
            }
        };
        counter.add(1);
        true
    }

    /// Encodes the payload into `out`; returns the new length if it is shorter.
    fn encode(&mut self, view: &View, out: &mut [u8]) -> Option<usize> {
        let encoded = self.encoder.encode(view.protocol, view.flow(), view.payload, out);
        let counters = &*self.counters;
        counters.retransmissions.add(self.encoder.take_retransmissions());
        match encoded {
            Encoded::Shorter { length, regions } => {
                counters.encoded_packets.add(1);
                counters.regions.add(regions as u64);
                return Some(length);
            }
            Encoded::WithoutGain => counters.without_gain_packets.add(1),
            Encoded::Skipped => counters.bypassed_entropy_packets.add(1),
        }
        None
    }
}
