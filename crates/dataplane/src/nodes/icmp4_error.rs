//! `icmp4-error`: tells the source why its packet is dropped, then drops it.
//!
//! Time exceeded, unreachable (network, host, fragmentation needed, prohibited), by the
//! packet's drop reason; sent only where RFC 1812 section 4.3.2.7 allows one (to a directed
//! broadcast address Linux sends one nevertheless), at a limited rate (4.3.2.8), from an
//! address of the interface that the packet came in on, quoting as much as 576 bytes hold
//! (4.3.2.3). The message is looked up like any packet.
//!
//! - next: `drop` (the reason that the packet came with), `ip4-lookup` (the message)

use super::{made, near};
use crate::drop_reason::DropReason;
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use crate::token_bucket::TokenBucket;
use ipnet::IpNet;
use std::net::Ipv4Addr;
use wattline_packet::ethernet;
use wattline_packet::icmp4::{self, Icmp4Error as Message};
use wattline_packet::ipv4::Ipv4Packet;

const DROP: Edge = 0;
const LOOKUP: Edge = 1;
/// What leaves has 64: `ip4-rewrite` takes one off.
const TTL: u8 = 65;

/// The node.
pub struct Icmp4Error {
    bucket: TokenBucket,
}

impl Icmp4Error {
    /// Sends what `bucket` lets pass.
    pub fn new(bucket: TokenBucket) -> Self {
        Self { bucket }
    }

    /// The message about a packet, counted as generated, where one may be sent; `mtu` is that
    /// of its way out.
    pub(crate) fn report(
        &mut self,
        context: &mut Context,
        packet: &Packet,
        mtu: u16,
    ) -> Option<Packet> {
        let totals = &context.counters.totals;
        let message = message(packet.reason, mtu)?;
        let own = context.routes.table().own();
        let about = Ipv4Packet::parse(packet.network_bytes(context.pool.bytes())).ok();
        let hosts = |about: &Ipv4Packet| {
            let ends = [about.header.source, about.header.destination];
            !ends.iter().any(|end| own.is_shared(Ipv4Addr::from(end.get()).into()))
        };
        let Some(about) = about.filter(|about| icmp4::may_report(about) && hosts(about)) else {
            totals.icmp_not_allowed.add(1);
            return None;
        };
        let near = near(packet, about.header.source.get(), about.header.destination.get());
        if !self.bucket.take(context.now) {
            totals.icmp_rate_limited.add(1);
            return None;
        }
        let made = source(context, packet, near.into()).and_then(|source| {
            made::make(&mut context.pool, packet, ethernet::IPV4, |about, buffer| {
                icmp4::write(buffer, message, source.into(), TTL, about)
            })
        });
        let totals = &context.counters.totals;
        let counter = if made.is_some() { &totals.generated } else { &totals.icmp_impossible };
        counter.add(1);
        let mut made = made?;
        made.protection = made.protection.of_quotation();
        Some(made)
    }
}

impl Node for Icmp4Error {
    fn name(&self) -> &'static str {
        "icmp4-error"
    }

    fn next(&self) -> &'static [&'static str] {
        &["drop", "ip4-lookup"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        for packet in packets {
            let mtu = context.routes.table().hop(packet.next_hop).mtu;
            if let Some(made) = self.report(context, packet, mtu) {
                context.spawn(LOOKUP, made);
            }
        }
        edges.fill(DROP);
    }
}

/// What to say about a packet dropped for this reason, if anything; `mtu` is that of the way out.
fn message(reason: DropReason, mtu: u16) -> Option<Message> {
    match reason {
        DropReason::TtlExpired => Some(Message::TimeExceeded),
        DropReason::NoRoute => Some(Message::NetworkUnreachable),
        DropReason::Unreachable | DropReason::NeighbourTimeout => Some(Message::HostUnreachable),
        DropReason::Prohibited => Some(Message::Prohibited),
        DropReason::TooBig => Some(Message::FragmentationNeeded { mtu }),
        _ => None,
    }
}

/// An address of the interface that the packet came in on, best of the network of `near`.
fn source(context: &mut Context, packet: &Packet, near: Ipv4Addr) -> Option<Ipv4Addr> {
    let addresses = context.routes.table().addresses(packet.frame.port_in, packet.vlan_in);
    let mut first = None;
    for address in addresses {
        if let IpNet::V4(address) = address {
            if address.contains(&near) {
                return Some(address.addr());
            }
            first = first.or(Some(address.addr()));
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, fix_checksum, frame4, net};

    fn run(bench: &mut Bench, node: &mut Icmp4Error, reason: DropReason) -> Option<Vec<u8>> {
        let hop = Bench::forward_mtu(1, 1400);
        let mut packet = bench.packet_via(&frame4(MAC_A, 64, &[7; 100]), &hop);
        packet.reason = reason;
        assert_eq!(bench.process(node, packet).0, DROP);
        let spawned = bench.spawned();
        let (edge, made) = spawned.first()?;
        assert_eq!(*edge, LOOKUP);
        Some(made.network_bytes(bench.context.pool.bytes()).to_vec())
    }

    #[test]
    fn each_reason_has_its_message() {
        let mut bench = Bench::new();
        let mut node = Icmp4Error::new(TokenBucket::new(1000, 50));
        for (reason, expected) in [
            (DropReason::TtlExpired, (11, 0)),
            (DropReason::NoRoute, (3, 0)),
            (DropReason::Unreachable, (3, 1)),
            (DropReason::NeighbourTimeout, (3, 1)),
            (DropReason::TooBig, (3, 4)),
            (DropReason::Prohibited, (3, 13)),
        ] {
            let bytes = run(&mut bench, &mut node, reason).unwrap();
            assert_eq!(icmp4::type_and_code(&bytes), Some(expected));
            let packet = Ipv4Packet::parse(&bytes).unwrap();
            assert_eq!(packet.header.source.get(), 0xc000_0201, "192.0.2.1 of port 0");
            assert_eq!(packet.header.destination.get(), 0xc000_0209);
        }
        assert_eq!(run(&mut bench, &mut node, DropReason::Blackhole), None);
    }

    #[test]
    fn nothing_is_said_to_a_whole_network() {
        let mut bench = Bench::new();
        bench.routes.set_own_addresses([net("192.0.2.1/24"), net("198.51.100.1/24")]);
        bench.routes.publish().unwrap();
        let mut node = Icmp4Error::new(TokenBucket::new(1000, 50));
        for (source, answered) in [
            ([192, 0, 2, 255], false),
            ([192, 0, 2, 0], false),
            ([198, 51, 100, 255], false),
            ([192, 0, 2, 254], true),
            ([203, 0, 113, 255], true),
        ] {
            let mut bytes = frame4(MAC_A, 1, &[7; 100]);
            bytes[26..30].copy_from_slice(&source);
            fix_checksum(&mut bytes);
            let packet = Packet { reason: DropReason::TtlExpired, ..bench.packet(&bytes) };
            assert_eq!(bench.process(&mut node, packet).0, DROP);
            assert_eq!(!bench.spawned().is_empty(), answered, "{source:?}");
        }
        // Nor about what was sent to one.
        let mut bytes = frame4(MAC_A, 1, &[7; 100]);
        bytes[30..34].copy_from_slice(&[198, 51, 100, 255]);
        fix_checksum(&mut bytes);
        let packet = Packet { reason: DropReason::TtlExpired, ..bench.packet(&bytes) };
        bench.process(&mut node, packet);
        let counted = bench.context.counters.snapshot();
        assert_eq!((counted.icmp_not_allowed, counted.generated), (4, 2));
    }

    #[test]
    fn rate_and_chunks_are_limits_that_are_counted() {
        let mut bench = Bench::new();
        let mut node = Icmp4Error::new(TokenBucket::new(1, 2));
        let sent = (0..5).filter_map(|_| run(&mut bench, &mut node, DropReason::TtlExpired));
        assert_eq!(sent.count(), 2);
        let mut node = Icmp4Error::new(TokenBucket::new(1, 2));
        let packet = bench.packet(&frame4(MAC_A, 64, &[7; 100]));
        while bench.context.pool.take_chunk().is_some() {}
        let packet = Packet { reason: DropReason::TtlExpired, ..packet };
        bench.process(&mut node, packet);
        let counted = bench.context.counters.snapshot();
        assert_eq!((counted.icmp_rate_limited, counted.icmp_impossible), (3, 1));
        assert_eq!(counted.generated, 2);
    }
}
