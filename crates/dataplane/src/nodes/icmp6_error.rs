//! `icmp6-error`: tells the source why its packet is dropped, then drops it.
//!
//! As `icmp4-error`, for IPv6: RFC 4443, whose section 2.4 (e) says when none is sent and
//! (f) that the rate is limited; the message quotes as much as the minimum MTU holds.
//!
//! - next: `drop` (the reason that the packet came with), `ip6-lookup` (the message)

use super::{made, near};
use crate::drop_reason::DropReason;
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use crate::token_bucket::TokenBucket;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv6Addr};
use wattline_packet::icmp6::{self, Icmp6Error as Message};
use wattline_packet::ipv6::{AddressKind, Ipv6Header, kind_of};
use wattline_packet::{FromBytes, ethernet};

const DROP: Edge = 0;
const LOOKUP: Edge = 1;
/// What leaves has 64: `ip6-rewrite` takes one off.
const HOP_LIMIT: u8 = 65;

/// The node.
pub struct Icmp6Error {
    bucket: TokenBucket,
}

impl Icmp6Error {
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
        let about = packet.network_bytes(context.pool.bytes());
        let header = Ipv6Header::ref_from_prefix(about).ok()?.0;
        if !icmp6::may_report(about, message) || own.is_shared(IpAddr::from(header.source)) {
            totals.icmp_not_allowed.add(1);
            return None;
        }
        let near = near(packet, header.source, header.destination);
        if !self.bucket.take(context.now) {
            totals.icmp_rate_limited.add(1);
            return None;
        }
        let made = source(context, packet, near.into()).and_then(|source| {
            made::make(&mut context.pool, packet, ethernet::IPV6, |about, buffer| {
                icmp6::write(buffer, message, source.octets(), HOP_LIMIT, about)
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

impl Node for Icmp6Error {
    fn name(&self) -> &'static str {
        "icmp6-error"
    }

    fn next(&self) -> &'static [&'static str] {
        &["drop", "ip6-lookup"]
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
        DropReason::NoRoute => Some(Message::NoRoute),
        DropReason::Unreachable => Some(Message::NoRoute),
        DropReason::NeighbourTimeout => Some(Message::AddressUnreachable),
        DropReason::Prohibited => Some(Message::Prohibited),
        DropReason::BeyondScope => Some(Message::BeyondScope),
        DropReason::TooBig => Some(Message::PacketTooBig { mtu }),
        _ => None,
    }
}

/// An address of the interface that the packet came in on, best of the network of `near`;
/// never a link-local one, which the sender could not make sense of from afar.
fn source(context: &mut Context, packet: &Packet, near: Ipv6Addr) -> Option<Ipv6Addr> {
    let addresses = context.routes.table().addresses(packet.frame.port_in, packet.vlan_in);
    let mut first = None;
    for address in addresses {
        if let IpNet::V6(address) = address {
            if kind_of(&address.addr().octets()) != AddressKind::Global {
                continue;
            }
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
    use crate::testing::{Bench, MAC_A, frame6, net};

    #[test]
    fn each_reason_has_its_message() {
        let mut bench = Bench::new();
        let mut node = Icmp6Error::new(TokenBucket::new(1000, 50));
        for (reason, expected) in [
            (DropReason::TtlExpired, [3, 0]),
            (DropReason::NoRoute, [1, 0]),
            (DropReason::Prohibited, [1, 1]),
            (DropReason::BeyondScope, [1, 2]),
            (DropReason::NeighbourTimeout, [1, 3]),
            (DropReason::TooBig, [2, 0]),
        ] {
            let hop = Bench::forward_mtu(1, 1400);
            let mut packet = bench.packet_via(&frame6(MAC_A, 64, &[7; 100]), &hop);
            packet.reason = reason;
            assert_eq!(bench.process(&mut node, packet).0, DROP);
            let (edge, made) = bench.spawned()[0];
            assert_eq!(edge, LOOKUP);
            let bytes = made.network_bytes(bench.context.pool.bytes());
            assert_eq!(bytes[40..42], expected, "{reason:?}");
            if reason == DropReason::TooBig {
                assert_eq!(bytes[44..48], 1400_u32.to_be_bytes());
            }
            let source: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
            assert_eq!(bytes[8..24], source.octets());
        }
    }

    #[test]
    fn nothing_is_said_to_a_subnet_router_anycast_address() {
        let mut bench = Bench::new();
        bench.routes.set_own_addresses([net("2001:db8:1::1/64"), net("2001:db8:2::1/64")]);
        bench.routes.publish().unwrap();
        let mut node = Icmp6Error::new(TokenBucket::new(1000, 50));
        for (source, answered) in [
            ("2001:db8:1::", false),
            ("2001:db8:2::", false),
            ("2001:db8:1::9", true),
            ("2001:db8:9::", true),
        ] {
            let mut bytes = frame6(MAC_A, 1, &[7; 100]);
            bytes[22..38].copy_from_slice(&source.parse::<Ipv6Addr>().unwrap().octets());
            let packet = Packet { reason: DropReason::TtlExpired, ..bench.packet(&bytes) };
            assert_eq!(bench.process(&mut node, packet).0, DROP);
            assert_eq!(!bench.spawned().is_empty(), answered, "{source}");
        }
        assert_eq!(bench.context.counters.snapshot().icmp_not_allowed, 2);
    }

    #[test]
    fn errors_beget_no_errors() {
        let mut bench = Bench::new();
        let mut node = Icmp6Error::new(TokenBucket::new(1000, 50));
        let mut bytes = frame6(MAC_A, 64, &[1, 0, 0, 0, 0, 0, 0, 0]);
        bytes[20] = wattline_packet::protocol::ICMP6;
        let mut packet = bench.packet(&bytes);
        packet.reason = DropReason::NoRoute;
        bench.process(&mut node, packet);
        assert!(bench.spawned().is_empty());
        assert_eq!(bench.context.counters.snapshot().icmp_not_allowed, 1);
    }
}
