//! `icmp6-error`: [`super::icmp_error`] for IPv6.
//!
//! RFC 4443 section 2.4 (e) lists when none may be sent, and (f) limits the rate. A packet *to* an
//! anycast address may be answered, a packet *from* one may not. Section 2.2 leaves the source
//! address open. Wattline, like Linux (`icmp6_send`), takes the source address of the route back,
//! if it has one. Otherwise it takes an address of the ingress interface, by RFC 6724.

use super::icmp_error::{Ends, Family, IcmpError, TTL};
use crate::drop_reason::DropReason;
use crate::forwarding::{Hop, Table};
use crate::source_addresses::PortInterface;
use std::net::IpAddr;
use wattline_packet::icmp6::{self, Icmp6Error as Message};
use wattline_packet::ipv6::Ipv6Header;
use wattline_packet::{FromBytes, ethernet};

/// Node `icmp6-error`; see the module.
pub type Icmp6Error = IcmpError<Icmp6>;

/// ICMPv6 (RFC 4443).
pub struct Icmp6;

impl Family for Icmp6 {
    const NAME: &'static str = "icmp6-error";
    const NEXT: &'static [&'static str] = &["drop", "ip6-lookup", "punt"];
    const ETHER_TYPE: u16 = ethernet::IPV6;
    const OF_SHARED_DESTINATIONS: bool = true;
    const KERNEL_FORWARDS: bool = true;
    type Message = Message;

    fn message(reason: DropReason, mtu: u16) -> Option<Message> {
        match reason {
            DropReason::TtlExpired => Some(Message::TimeExceeded),
            DropReason::NoRoute | DropReason::Unreachable => Some(Message::NoRoute),
            DropReason::NeighbourTimeout => Some(Message::AddressUnreachable),
            DropReason::Prohibited => Some(Message::Prohibited),
            DropReason::TooBig if mtu > 0 => Some(Message::PacketTooBig { mtu }),
            _ => None,
        }
    }

    /// First `ip6_forward` compares with the interface's MTU, then `ip6_fragment` with the route's.
    fn mtu(hop: &Hop, length: usize) -> u16 {
        if length > usize::from(hop.link_mtu) { hop.link_mtu } else { hop.mtu }
    }

    fn ends(about: &[u8], message: Message) -> Option<Ends> {
        let (header, _) = Ipv6Header::ref_from_prefix(about).ok()?;
        let ends = Ends { source: header.source.into(), destination: header.destination.into() };
        icmp6::may_report(about, message).then_some(ends)
    }

    fn source(table: &Table, ingress: PortInterface, to: IpAddr, back: &Hop) -> Option<IpAddr> {
        let IpAddr::V6(to) = to else { return None };
        let prescribed = table.prescribed_source(back).filter(IpAddr::is_ipv6);
        prescribed.or_else(|| table.sources().ipv6(ingress, to).map(IpAddr::V6))
    }

    fn write(buffer: &mut [u8], message: Message, source: IpAddr, about: &[u8]) -> Option<usize> {
        let IpAddr::V6(source) = source else { return None };
        icmp6::write(buffer, message, source.octets(), TTL, about)
    }
}

#[cfg(test)]
mod tests {
    use super::super::icmp_error::{DROP, LOOKUP};
    use super::*;
    use crate::testing::{Bench, MAC_A, frame6};
    use crate::token_bucket::TokenBucket;
    use std::net::Ipv6Addr;

    #[test]
    fn each_reason_has_its_message() {
        let mut bench = Bench::new();
        let mut node = Icmp6Error::new(TokenBucket::new(1000, 50));
        for (reason, expected) in [
            (DropReason::TtlExpired, [3, 0]),
            (DropReason::NoRoute, [1, 0]),
            (DropReason::Prohibited, [1, 1]),
            (DropReason::NeighbourTimeout, [1, 3]),
            (DropReason::TooBig, [2, 0]),
        ] {
            let hop = Bench::forward_mtu(1, 1400);
            let mut packet = bench.packet_via(&frame6(MAC_A, 64, &[7; 100]), &hop);
            packet.reason = reason;
            assert_eq!(bench.process(&mut node, packet).0, DROP);
            let (edge, made) = bench.spawned()[0];
            assert_eq!(edge, LOOKUP);
            let bytes = made.network_bytes(bench.context.pool.memory());
            assert_eq!(bytes[40..42], expected, "{reason:?}");
            if reason == DropReason::TooBig {
                assert_eq!(bytes[44..48], 1400_u32.to_be_bytes());
            }
            let source: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
            assert_eq!(bytes[8..24], source.octets());
        }
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
