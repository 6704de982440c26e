//! Flow keys: packets with the same key must stay in order, and therefore on one path.
//!
//! A key consists of addresses, protocol and, if every packet of the flow shows them, ports. Only
//! the first fragment of a datagram carries ports, so no fragment uses them in its key (RFC 6438
//! also keeps the fragments of a datagram together).

use crate::ipv4::{Ipv4Header, Ipv4Packet};
use crate::ipv6::{self, Fragment, Ipv6Header};
use crate::protocol;
use std::net::IpAddr;
use zerocopy::FromBytes;

/// The fields that identify a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number; for IPv6, that of the payload after extension headers.
    pub protocol: u8,
    /// Source and destination port; `None` if the protocol has no ports, or for fragments.
    pub ports: Option<(u16, u16)>,
}

impl FlowKey {
    /// Returns the key of a checked IPv4 packet.
    pub fn of_ipv4(packet: &Ipv4Packet) -> Self {
        let header = packet.header;
        let whole = !header.is_fragment();
        Self {
            source: IpAddr::V4(header.source.get().into()),
            destination: IpAddr::V4(header.destination.get().into()),
            protocol: header.protocol,
            ports: whole.then(|| ports(header.protocol, packet.payload)).flatten(),
        }
    }

    /// Returns the key of an IPv6 packet that begins at `packet`; `None` if its headers are
    /// malformed.
    pub fn of_ipv6(packet: &[u8]) -> Option<Self> {
        let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
        let payload = ipv6::payload(packet)?;
        let whole = payload.fragment == Fragment::Whole;
        let rest = packet.get(payload.offset..).unwrap_or_default();
        Some(Self {
            source: IpAddr::V6(header.source.into()),
            destination: IpAddr::V6(header.destination.into()),
            protocol: payload.protocol,
            ports: whole.then(|| ports(payload.protocol, rest)).flatten(),
        })
    }

    /// Returns the key by which an IPv4 packet chooses between next hops. An ICMP error has the key
    /// of the quoted packet in the opposite direction, as other packets to its receiver have.
    pub fn for_next_hop_of_ipv4(packet: &Ipv4Packet) -> Self {
        let Some((inner, payload)) = quoted_by_ipv4(packet) else { return Self::of_ipv4(packet) };
        let quoted = Self {
            source: IpAddr::V4(inner.source.get().into()),
            destination: IpAddr::V4(inner.destination.get().into()),
            protocol: inner.protocol,
            ports: inner.is_first().then(|| ports(inner.protocol, payload)).flatten(),
        };
        quoted.reversed()
    }

    /// Returns the same key of an IPv6 packet that begins at `packet`.
    pub fn for_next_hop_of_ipv6(packet: &[u8]) -> Option<Self> {
        let quoted = quoted_by_ipv6(packet).and_then(Self::of_ipv6);
        quoted.map(Self::reversed).or_else(|| Self::of_ipv6(packet))
    }

    /// Returns the key of the opposite direction.
    fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.map(|(from, to)| (to, from)),
            ..self
        }
    }

    /// Returns a hash with well distributed bits, the same on every machine and in every run.
    /// Routers that decide by it must each use their own variant: [`seeded`].
    pub fn hash(&self) -> u32 {
        let (high, low) = halves(self.source);
        let (far_high, far_low) = halves(self.destination);
        let (from, to) = self.ports.unwrap_or_default();
        let ports = u64::from(from) << 24 | u64::from(to) << 8 | u64::from(self.protocol);
        let mut state = mix(high ^ mix(low));
        state = mix(state ^ far_high);
        state = mix(state ^ far_low);
        mix(state ^ ports) as u32
    }
}

/// Returns the header and payload of the packet that an ICMP error quotes.
pub(crate) fn quoted_by_ipv4<'a>(packet: &Ipv4Packet<'a>) -> Option<(&'a Ipv4Header, &'a [u8])> {
    let header = packet.header;
    let is_error = header.protocol == protocol::ICMP && !header.is_fragment();
    let quoted = match packet.payload {
        [3 | 4 | 5 | 11 | 12, _, _, _, _, _, _, _, quoted @ ..] if is_error => quoted,
        _ => return None,
    };
    let (inner, _) = Ipv4Header::ref_from_prefix(quoted).ok()?;
    Some((inner, quoted.get(inner.header_length()..)?))
}

/// Returns the packet that the ICMP error in an IPv6 packet quotes.
pub(crate) fn quoted_by_ipv6(packet: &[u8]) -> Option<&[u8]> {
    let payload = ipv6::payload(packet)?;
    if payload.protocol != protocol::ICMP6 || payload.fragment != Fragment::Whole {
        return None;
    }
    match packet.get(payload.offset..)? {
        [1..=4, _, _, _, _, _, _, _, quoted @ ..] => Some(quoted),
        _ => None,
    }
}

/// Returns the hash of a flow for one router. Routers that choose between next hops by the same
/// hash make the same choices: if one router sends half of the flows to the next router, that
/// router would send all of them one way (polarisation). With their own seeds they choose
/// independently.
pub fn seeded(hash: u32, seed: u64) -> u32 {
    (mix(u64::from(hash) ^ seed) >> 32) as u32
}

/// Returns the keyed hash of a sender: of an IPv4 address, or of the first 64 bits of an IPv6
/// address, since a host may choose the others (RFC 4291 section 2.5.1).
pub fn sender(address: IpAddr, seed: u64) -> u32 {
    let network = match address {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    };
    (mix(mix(network ^ seed) ^ seed.rotate_left(32)) >> 32) as u32
}

fn halves(address: IpAddr) -> (u64, u64) {
    match address {
        IpAddr::V4(address) => (0, u64::from(u32::from(address))),
        IpAddr::V6(address) => {
            let value = u128::from(address);
            ((value >> 64) as u64, value as u64)
        }
    }
}

/// The finaliser of MurmurHash3 (public domain, A. Appleby): every input bit flips every output bit
/// with probability near one half.
fn mix(mut value: u64) -> u64 {
    value ^= value >> 33;
    value = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
    value ^= value >> 33;
    value = value.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

/// Returns the source and destination port at the start of a TCP, UDP or SCTP header.
pub fn ports(protocol: u8, payload: &[u8]) -> Option<(u16, u16)> {
    if !matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP) {
        return None;
    }
    let [a, b, c, d] = *payload.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp4(from: u16, fragment: Option<u16>) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 64)
            .udp(from, 53)
            .write(&mut bytes, b"x")
            .unwrap();
        if let Some(field) = fragment {
            let (header, _) = crate::ipv4::Ipv4Header::mut_from_prefix(&mut bytes).unwrap();
            header.fragment.set(field);
            header.fill_checksum();
        }
        bytes
    }

    #[test]
    fn fragments_hash_without_ports() {
        let key = |bytes: &[u8]| FlowKey::of_ipv4(&Ipv4Packet::parse(bytes).unwrap());
        assert_eq!(key(&udp4(7, None)).ports, Some((7, 53)));
        assert_ne!(key(&udp4(7, None)).hash(), key(&udp4(8, None)).hash());
        // First and later fragment of one datagram must agree.
        assert_eq!(key(&udp4(7, Some(0x2000))), key(&udp4(9, Some(0x0005))));
    }

    /// Returns a packet of a flow in one direction, and an error about a packet in the other.
    fn flow_and_error(ipv6: bool, kind: u8) -> [Vec<u8>; 2] {
        let (here, there, router) = ([192, 0, 2, 1], [198, 51, 100, 2], [203, 0, 113, 9]);
        let (here6, there6, router6) = ([1; 16], [2; 16], [3; 16]);
        let (mut packet, mut answer, mut error) = (Vec::new(), Vec::new(), Vec::new());
        let udp = |out: &mut Vec<u8>, towards: bool| {
            let (from, to) = if towards { (7, 53) } else { (53, 7) };
            let builder = match (ipv6, towards) {
                (false, true) => PacketBuilder::ipv4(here, there, 64),
                (false, false) => PacketBuilder::ipv4(there, here, 9),
                (true, true) => PacketBuilder::ipv6(here6, there6, 64),
                (true, false) => PacketBuilder::ipv6(there6, here6, 9),
            };
            builder.udp(from, to).write(out, &[0; 600]).unwrap();
        };
        udp(&mut packet, true);
        udp(&mut answer, false);
        let quoted = &answer[..500];
        match ipv6 {
            false => PacketBuilder::ipv4(router, there, 64)
                .icmpv4_raw(kind, 4, [0, 0, 5, 0])
                .write(&mut error, quoted),
            true => PacketBuilder::ipv6(router6, there6, 64)
                .icmpv6_raw(kind, 0, [0, 0, 5, 0])
                .write(&mut error, quoted),
        }
        .unwrap();
        [packet, error]
    }

    #[test]
    fn icmp_errors_follow_the_flow_that_they_quote() {
        let key4 = |bytes: &[u8]| FlowKey::for_next_hop_of_ipv4(&Ipv4Packet::parse(bytes).unwrap());
        for kind in [3, 4, 5, 11, 12] {
            let [packet, error] = flow_and_error(false, kind);
            assert_eq!(key4(&error), key4(&packet), "type {kind}");
        }
        for kind in [1, 2, 3, 4] {
            let [packet, error] = flow_and_error(true, kind)
                .map(|bytes| FlowKey::for_next_hop_of_ipv6(&bytes).unwrap());
            assert_eq!(error, packet, "type {kind}");
        }
        // Pings and their answers are separate flows, as is an error that quotes nothing.
        let [packet, echo] = flow_and_error(false, 8);
        assert_ne!(key4(&echo), key4(&packet));
        let [_, echo] = flow_and_error(true, 128);
        let echo = FlowKey::for_next_hop_of_ipv6(&echo).unwrap();
        assert_eq!(echo.source, IpAddr::from([3; 16]));
        let mut bare = Vec::new();
        let builder = PacketBuilder::ipv4([203, 0, 113, 9], [198, 51, 100, 2], 64);
        builder.icmpv4_raw(3, 4, [0; 4]).write(&mut bare, &[0x45; 12]).unwrap();
        assert_eq!(key4(&bare), FlowKey::of_ipv4(&Ipv4Packet::parse(&bare).unwrap()));
    }

    #[test]
    fn ipv6_ports_are_found_behind_extension_headers() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(7, 80, 0, 1).write(&mut bytes, b"x").unwrap();
        let plain = FlowKey::of_ipv6(&bytes).unwrap();
        assert_eq!(plain.ports, Some((7, 80)));
        let mut longer = bytes[..40].to_vec();
        longer[6] = protocol::DESTINATION_OPTIONS;
        longer.extend_from_slice(&[protocol::TCP, 0, 1, 4, 0, 0, 0, 0]);
        longer.extend_from_slice(&bytes[40..]);
        assert_eq!(FlowKey::of_ipv6(&longer), Some(plain));
    }

    #[test]
    fn hashes_spread_over_a_group() {
        let mut counts = [0u32; 3];
        for port in 0..3000 {
            let bytes = udp4(port, None);
            let hash = FlowKey::of_ipv4(&Ipv4Packet::parse(&bytes).unwrap()).hash();
            counts[((u64::from(hash) * 3) >> 32) as usize] += 1;
        }
        // Binomial with mean 1000 and deviation 26; the bound is six deviations.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 156), "{counts:?}");
    }

    /// A second router distributes the flows that the first sends to one next hop equally over its
    /// own.
    #[test]
    fn routers_with_different_seeds_choose_independently() {
        let member = |hash: u32, seed, count: u64| (u64::from(seeded(hash, seed)) * count) >> 32;
        let key = |port| FlowKey::of_ipv4(&Ipv4Packet::parse(&udp4(port, None)).unwrap()).hash();
        let flows: Vec<u32> = (0..40_000).map(key).collect();
        for (one, other) in [(0, 1), (1, 2), (7, 0x9e37_79b9_7f4a_7c15), (u64::MAX, 1 << 63)] {
            for count in [2, 3, 4] {
                let mut first = flows.clone();
                first.retain(|hash| member(*hash, one, count) == 0);
                let (all, share) = (first.len() as f64, 1.0 / count as f64);
                // Binomial; the bound is six standard deviations.
                let allowed = 6.0 * (all * share * (1.0 - share)).sqrt();
                for way in 0..count {
                    let taken = first.iter().filter(|hash| member(**hash, other, count) == way);
                    let taken = taken.count() as f64;
                    assert!((taken - all * share).abs() < allowed, "{one} {other}: {taken}");
                }
            }
        }
    }
}
