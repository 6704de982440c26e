//! `icmp4-error`: [`super::icmp_error`] for IPv4.
//!
//! The node sends time exceeded and unreachable (network, host, fragmentation needed, prohibited).
//! RFC 1812 section 4.3.2.7 lists when none may be sent, 4.3.2.8 limits the rate, and 4.3.2.4
//! requires a source address of the egress interface: that of the route back, if it has one, or the
//! one in the network of its gateway.

use super::icmp_error::{Ends, Family, IcmpError, TTL};
use crate::drop_reason::DropReason;
use crate::forwarding::{Hop, HopKind, Table};
use crate::source_addresses::PortInterface;
use std::net::{IpAddr, Ipv4Addr};
use wattline_packet::ethernet;
use wattline_packet::icmp4::{self, Icmp4Error as Message};
use wattline_packet::ipv4::Ipv4Packet;

/// Node `icmp4-error`; see the module.
pub type Icmp4Error = IcmpError<Icmp4>;

/// ICMP (RFC 792).
pub struct Icmp4;

impl Family for Icmp4 {
    const NAME: &'static str = "icmp4-error";
    const NEXT: &'static [&'static str] = &["drop", "ip4-lookup", "punt"];
    const ETHER_TYPE: u16 = ethernet::IPV4;
    const OF_SHARED_DESTINATIONS: bool = false;
    const KERNEL_FORWARDS: bool = false;
    type Message = Message;

    fn message(reason: DropReason, mtu: u16) -> Option<Message> {
        match reason {
            DropReason::TtlExpired => Some(Message::TimeExceeded),
            DropReason::NoRoute => Some(Message::NetworkUnreachable),
            DropReason::Unreachable | DropReason::NeighbourTimeout => {
                Some(Message::HostUnreachable)
            }
            DropReason::Prohibited => Some(Message::Prohibited),
            DropReason::TooBig if mtu > 0 => Some(Message::FragmentationNeeded { mtu }),
            _ => None,
        }
    }

    fn mtu(hop: &Hop, _: usize) -> u16 {
        hop.mtu
    }

    fn ends(about: &[u8], _: Message) -> Option<Ends> {
        let about = Ipv4Packet::parse(about).ok().filter(icmp4::may_report)?;
        let [source, destination] = [about.header.source, about.header.destination]
            .map(|end| Ipv4Addr::from(end.get()).into());
        Some(Ends { source, destination })
    }

    fn source(table: &Table, ingress: PortInterface, to: IpAddr, back: &Hop) -> Option<IpAddr> {
        let prescribed = table.prescribed_source(back).filter(IpAddr::is_ipv4);
        let egress = match back.kind {
            HopKind::Forward | HopKind::Resolve => (back.port, back.vlan),
            _ => ingress,
        };
        let near = table.gateway(back).unwrap_or(to);
        prescribed.or_else(|| table.sources().ipv4(egress, near).map(IpAddr::V4))
    }

    fn write(buffer: &mut [u8], message: Message, source: IpAddr, about: &[u8]) -> Option<usize> {
        let IpAddr::V4(source) = source else { return None };
        icmp4::write(buffer, message, source.into(), TTL, about)
    }
}

#[cfg(test)]
mod tests {
    use super::super::icmp_error::{DROP, LOOKUP};
    use super::*;
    use crate::testing::{Bench, MAC_A, frame4};
    use crate::token_bucket::TokenBucket;

    fn run(bench: &mut Bench, reason: DropReason) -> Option<Vec<u8>> {
        let hop = Bench::forward_mtu(1, 1400);
        let mut packet = bench.packet_via(&frame4(MAC_A, 64, &[7; 100]), &hop);
        packet.reason = reason;
        let mut node = Icmp4Error::new(TokenBucket::new(1000, 50));
        assert_eq!(bench.process(&mut node, packet).0, DROP);
        let spawned = bench.spawned();
        let (edge, made) = spawned.first()?;
        assert_eq!(*edge, LOOKUP);
        Some(made.network_bytes(bench.context.pool.memory()).to_vec())
    }

    #[test]
    fn each_reason_has_its_message() {
        let mut bench = Bench::new();
        for (reason, expected) in [
            (DropReason::TtlExpired, (11, 0)),
            (DropReason::NoRoute, (3, 0)),
            (DropReason::Unreachable, (3, 1)),
            (DropReason::NeighbourTimeout, (3, 1)),
            (DropReason::TooBig, (3, 4)),
            (DropReason::Prohibited, (3, 13)),
        ] {
            let bytes = run(&mut bench, reason).unwrap();
            assert_eq!(icmp4::type_and_code(&bytes), Some(expected));
            let packet = Ipv4Packet::parse(&bytes).unwrap();
            assert_eq!(packet.header.source.get(), 0xc000_0201, "192.0.2.1 of port 0");
            assert_eq!(packet.header.destination.get(), 0xc000_0209);
        }
        assert_eq!(run(&mut bench, DropReason::Blackhole), None);
    }
}
