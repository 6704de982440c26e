//! Classification of packets before they are left to the kernel, for applications at
//! [`crate::feature::Place::Punted`].
//!
//! The kernel forwards without knowing the policies of an application. [`Punted::classify`]
//! therefore separates packets to which a policy applies, and packets that must be dropped because
//! no policy can be applied to them. Packets are exempt only if the kernel certainly does not
//! forward them; all others count as forwarded. XDP programs of guarded ports decide the same
//! (`crates/xdp/bpf/classify.h`).

use crate::frame::ChunkMemory;
use crate::own_addresses::OwnAddresses;
use crate::packet::Packet;
use std::net::{Ipv4Addr, Ipv6Addr};
use wattline_packet::FromBytes;
use wattline_packet::ethernet;
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};
use wattline_packet::protocol::HOP_BY_HOP;

/// VLAN number in the control field of a tag.
const VLAN: u16 = 0x0fff;

/// A packet before the kernel gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Punted<'a> {
    /// The kernel does not forward it: it is for this machine or for a group, or belongs to a
    /// protocol of the link.
    Local,
    /// The kernel may forward it.
    Transit(Transit<'a>),
    /// The kernel may unpack or forward it, and it holds no packet that a policy could judge: a
    /// frame in a VLAN that is not routed here, a packet with a routing header that names further
    /// hops, or one with addresses that no router forwards, which the inputs do not see after a
    /// tag.
    Opaque,
}

/// An IP packet that the kernel may forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transit<'a> {
    /// The packet from its IP header on. The IP version is that of the first byte, as in the kernel.
    pub bytes: &'a [u8],
    /// True if the header follows a tag that is not routed here, so that no other node finds it.
    pub is_tagged: bool,
    /// True if it went from an input node to `punt` and bypassed the applications at
    /// [`crate::feature::Place::Received`].
    pub is_unseen: bool,
}

impl<'a> Punted<'a> {
    /// Classifies a packet on a machine with these addresses.
    pub fn classify(packet: &Packet, memory: &'a ChunkMemory, own: &OwnAddresses) -> Self {
        if usize::from(packet.frame.length) < ethernet::HEADER {
            return Self::Opaque;
        }
        let bytes = packet.network_bytes(memory);
        let kind = packet.network_offset().checked_sub(2).and_then(|at| memory.array::<2>(at));
        let Some(kind) = kind.map(|kind| u16::from_be_bytes(*kind)) else { return Self::Opaque };
        if !is_tag(kind) {
            return Self::classify_payload(kind, bytes, own, false);
        }
        let Some(([a, b, c, d], behind)) = bytes.split_first_chunk::<{ ethernet::TAG }>() else {
            return Self::Opaque;
        };
        let inner = u16::from_be_bytes([*c, *d]);
        match Self::classify_payload(inner, behind, own, true) {
            // Number 0 carries only a priority (IEEE 802.1Q). The others are subinterfaces of the
            // kernel, from which it forwards.
            Self::Transit(_) if u16::from_be_bytes([*a, *b]) & VLAN != 0 => Self::Opaque,
            other => other,
        }
    }

    fn classify_payload(kind: u16, bytes: &'a [u8], own: &OwnAddresses, is_tagged: bool) -> Self {
        if ethernet::is_of_link(kind) {
            return Self::Local;
        }
        if kind != ethernet::IPV4 && kind != ethernet::IPV6 {
            return Self::Opaque;
        }
        match bytes.first().map_or(0, |first| first >> 4) {
            4 => Self::classify_ipv4(bytes, own, is_tagged),
            6 => Self::classify_ipv6(bytes, own, is_tagged),
            _ => Self::Opaque,
        }
    }

    fn classify_ipv4(bytes: &'a [u8], own: &OwnAddresses, is_tagged: bool) -> Self {
        use ipv4::AddressKind::{Broadcast, Multicast, Unicast};
        let Ok((header, _)) = Ipv4Header::ref_from_prefix(bytes) else { return Self::Opaque };
        let destination = header.destination.get();
        if matches!(ipv4::kind_of(destination), Broadcast | Multicast) {
            return Self::Local;
        }
        let Some(options) = bytes.get(ipv4::HEADER..header.header_length()) else {
            return Self::Opaque;
        };
        if own.is_own(Ipv4Addr::from(destination).into()) {
            return if ipv4::is_source_routed(options) { Self::Opaque } else { Self::Local };
        }
        // As in `ip4-input`: a route may lead to these, since loopback addresses are this
        // machine's.
        let source = header.source.get();
        if ipv4::kind_of(source) != Unicast
            || ipv4::kind_of(destination) != Unicast
            || own.holds(source)
        {
            return Self::Opaque;
        }
        let is_unseen = is_tagged || !options.is_empty();
        Self::Transit(Transit { bytes, is_tagged, is_unseen })
    }

    fn classify_ipv6(bytes: &'a [u8], own: &OwnAddresses, is_tagged: bool) -> Self {
        use ipv6::AddressKind::{Global, LinkLocal, Multicast};
        let Ok((header, _)) = Ipv6Header::ref_from_prefix(bytes) else { return Self::Opaque };
        let destination = ipv6::kind_of(&header.destination);
        if destination == Multicast {
            return Self::Local;
        }
        if own.is_own(Ipv6Addr::from(header.destination).into()) {
            let end = header.total_length().min(bytes.len());
            let stays = ipv6::payload(&bytes[..end]).is_some_and(|payload| !payload.routed);
            return if stays { Self::Local } else { Self::Opaque };
        }
        let source = ipv6::kind_of(&header.source);
        // As in `ip6-input`.
        if ![source, destination].iter().all(|kind| matches!(kind, Global | LinkLocal)) {
            return Self::Opaque;
        }
        // The kernel forwards from and to link-local addresses on one link.
        let is_unseen = is_tagged
            || header.next_header == HOP_BY_HOP
            || destination == LinkLocal
            || source == LinkLocal;
        Self::Transit(Transit { bytes, is_tagged, is_unseen })
    }
}

fn is_tag(kind: u16) -> bool {
    matches!(kind, ethernet::VLAN | ethernet::SERVICE_VLAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, frame4, frame4_vlan, frame6, net};

    #[derive(Debug, PartialEq, Eq)]
    enum Kind {
        Local,
        /// Bytes before the packet, and whether it is unseen.
        Transit(usize, bool),
        Opaque,
    }
    use Kind::{Local, Opaque};

    fn kind(frame: &[u8]) -> Kind {
        let own = OwnAddresses::from_iter([net("192.0.2.1/24"), net("2001:db8:1::1/64")]);
        let mut bench = Bench::new();
        let packet = bench.packet(frame);
        match Punted::classify(&packet, bench.context.pool.memory(), &own) {
            Punted::Local => Local,
            Punted::Transit(it) => Kind::Transit(frame.len() - it.bytes.len(), it.is_unseen),
            Punted::Opaque => Opaque,
        }
    }

    fn options(options: &[u8], to: [u8; 4]) -> Vec<u8> {
        let mut frame = frame4(MAC_A, 64, b"payload");
        frame.splice(34..34, options.iter().copied());
        frame[14] = 0x45 + (options.len() / 4) as u8;
        frame[30..34].copy_from_slice(&to);
        frame
    }

    fn ipv6(next: u8, chain: &[u8], to: &str) -> Vec<u8> {
        let mut frame = frame6(MAC_A, 64, &[chain, b"payload."].concat());
        frame[20] = next;
        frame[38..54].copy_from_slice(&to.parse::<Ipv6Addr>().unwrap().octets());
        frame
    }

    fn typed(ether_type: u16) -> Vec<u8> {
        let mut frame = frame4(MAC_A, 64, b"payload");
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame
    }

    #[test]
    fn transit_is_found_behind_options_and_priority_tags() {
        assert_eq!(kind(&frame4(MAC_A, 64, b"payload")), Kind::Transit(14, false));
        assert_eq!(kind(&frame6(MAC_A, 64, b"payload")), Kind::Transit(14, false));
        assert_eq!(kind(&frame4_vlan(MAC_A, 0)), Kind::Transit(18, true));
        let mut service = frame4_vlan(MAC_A, 0);
        service[12..14].copy_from_slice(&[0x88, 0xa8]);
        assert_eq!(kind(&service), Kind::Transit(18, true));
        assert_eq!(kind(&options(&[1; 4], [10, 9, 9, 9])), Kind::Transit(14, true));
        assert_eq!(
            kind(&ipv6(0, &[17, 0, 1, 4, 0, 0, 0, 0], "2001:db8:9::1")),
            Kind::Transit(14, true)
        );
        assert_eq!(kind(&ipv6(17, &[], "fe80::99")), Kind::Transit(14, true));
        let mut from_link_local = ipv6(17, &[], "2001:db8:9::1");
        from_link_local[22..24].copy_from_slice(&[0xfe, 0x80]);
        assert_eq!(kind(&from_link_local), Kind::Transit(14, true));
        // The kernel may forward broadcasts.
        for to in [[192, 0, 2, 0], [192, 0, 2, 255]] {
            assert_eq!(kind(&options(&[], to)), Kind::Transit(14, false));
        }
    }

    #[test]
    fn packets_with_addresses_that_no_router_forwards_are_opaque() {
        for from in [[0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 5], [240, 0, 0, 1], [192, 0, 2, 1]] {
            let mut frame = frame4_vlan(MAC_A, 0);
            frame[30..34].copy_from_slice(&from);
            assert_eq!(kind(&frame), Opaque, "{from:?}");
        }
        for to in ["::", "::1"] {
            assert_eq!(kind(&ipv6(0, &[17, 0, 1, 4, 0, 0, 0, 0], to)), Opaque, "{to}");
        }
    }

    #[test]
    fn packets_to_this_machine_and_to_groups_are_local() {
        for to in [[192, 0, 2, 1], [224, 0, 0, 5], [255; 4]] {
            assert_eq!(kind(&options(&[148, 4, 0, 0], to)), Local, "{to:?}");
        }
        for to in ["2001:db8:1::1", "ff02::5"] {
            assert_eq!(kind(&ipv6(0, &[17, 0, 5, 2, 0, 0, 0, 0], to)), Local, "{to}");
        }
        for ether_type in [0x0806, 0x8809, 0x88cc, 0x8863, 0x0026, 0x05ff] {
            assert_eq!(kind(&typed(ether_type)), Local, "{ether_type:#06x}");
        }
    }

    #[test]
    fn frames_that_show_no_packet_are_opaque() {
        assert_eq!(kind(&frame4_vlan(MAC_A, 7)), Opaque, "a subinterface of the kernel");
        let mut nested = frame4_vlan(MAC_A, 0);
        nested.splice(12..12, [0x81, 0, 0, 0]);
        assert_eq!(kind(&nested), Opaque);
        for ether_type in [0x8847, 0x8848, 0x8864, 0x88e5, 0x9100, 0x0600, 0x88b5] {
            assert_eq!(kind(&typed(ether_type)), Opaque, "{ether_type:#06x}");
        }
        for cut in [0, 13, 14, 15, 17, 19, 33] {
            assert_ne!(kind(&frame4_vlan(MAC_A, 0)[..cut]), Local, "{cut}");
        }
    }

    #[test]
    fn packets_whose_header_sends_them_on_are_opaque() {
        let own = [192, 0, 2, 1];
        for route in
            [[131, 7, 4, 10, 9, 9, 9, 0], [137, 7, 4, 10, 9, 9, 9, 0], [1, 131, 3, 4, 0, 0, 0, 0]]
        {
            assert_eq!(kind(&options(&route, own)), Opaque, "{route:?}");
        }
        let route = [17, 0, 4, 1, 0, 0, 0, 0];
        let behind_options = [&[43, 0, 1, 4, 0, 0, 0, 0][..], &route].concat();
        assert_eq!(kind(&ipv6(43, &route, "2001:db8:1::1")), Opaque);
        assert_eq!(kind(&ipv6(60, &behind_options, "2001:db8:1::1")), Opaque);
        assert_eq!(kind(&ipv6(60, &[43, 99], "2001:db8:1::1")), Opaque, "its end is not there");
        assert_eq!(kind(&ipv6(43, &[17, 0, 4, 0, 0, 0, 0, 0], "2001:db8:1::1")), Local, "used up");
    }
}
