//! Fields of a packet that rules compare.

use std::net::{Ipv4Addr, Ipv6Addr};
use wattline_packet::FromBytes;
use wattline_packet::flow;
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Fragment, Ipv6Header};
use wattline_packet::protocol;

/// Source and destination address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Addresses of an IPv4 packet.
    V4(Ipv4Addr, Ipv4Addr),
    /// Addresses of an IPv6 packet.
    V6(Ipv6Addr, Ipv6Addr),
}

/// Protocol of a packet, if visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Number of the payload after extension headers.
    Known(u8),
    /// A number after which hosts may or may not expect another extension header (RFC 7045 section
    /// 2.1). Only rules for this number can be decided.
    Open(u8),
    /// The headers lead out of the packet.
    Hidden,
}

/// Ports of a packet, if visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Source and destination port.
    Known(u16, u16),
    /// Its protocol has none.
    None,
    /// A later fragment, which carries none.
    Later,
    /// The ports are not visible: the packet is too short, is a fragment that cuts the header with
    /// the ports, or hides its protocol.
    Hidden,
}

/// The fields of a packet that rules compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Its addresses.
    pub ends: Ends,
    /// Its protocol.
    pub protocol: Protocol,
    /// True if it has an authentication header, which rules for protocol 51 match.
    pub authenticated: bool,
    /// Its ports.
    pub ports: Ports,
}

impl Subject {
    /// Reads the IP packet that begins at `bytes`, with or without options; `None` if there is
    /// none.
    #[inline]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::of_ipv4(bytes),
            6 => Self::of_ipv6(bytes),
            _ => None,
        }
    }

    #[inline]
    fn of_ipv4(bytes: &[u8]) -> Option<Self> {
        let (header, _) = Ipv4Header::ref_from_prefix(bytes).ok()?;
        let ends = Ends::V4(header.source.get().into(), header.destination.get().into());
        // Padding after the packet is not part of it.
        let end = usize::from(header.total_length.get()).min(bytes.len());
        let mut payload = bytes.get(header.header_length()..end).unwrap_or_default();
        let mut protocol = header.protocol;
        let fragment = match header.fragment.get() & ipv4::OFFSET {
            0 if header.is_fragment() => Fragment::First,
            0 => Fragment::Whole,
            offset => Fragment::Later(offset),
        };
        let authenticated = protocol == protocol::AUTHENTICATION;
        // The readable payload after the header counts (RFC 4302), as for IPv6.
        while protocol == protocol::AUTHENTICATION {
            if matches!(fragment, Fragment::Later(_)) {
                return Some(Self::hidden(ends, authenticated));
            }
            // The length is in units of 4 bytes, less 2.
            let behind = |length: u8| payload.get(usize::from(length) * 4 + 8..);
            let Some((following, rest)) = payload
                .first_chunk::<2>()
                .and_then(|[following, length]| Some((*following, behind(*length)?)))
            else {
                return Some(Self::hidden(ends, authenticated));
            };
            (protocol, payload) = (following, rest);
        }
        let ports = ports(protocol, fragment, payload);
        Some(Self { ends, protocol: Protocol::Known(protocol), authenticated, ports })
    }

    #[inline]
    fn of_ipv6(bytes: &[u8]) -> Option<Self> {
        let (header, _) = Ipv6Header::ref_from_prefix(bytes).ok()?;
        let bytes = &bytes[..header.total_length().min(bytes.len())];
        let ends = Ends::V6(header.source.into(), header.destination.into());
        let Some(payload) = ipv6::payload(bytes) else { return Some(Self::hidden(ends, false)) };
        let (number, authenticated) = (payload.protocol, payload.authenticated);
        if ipv6::is_extension(number) {
            // A later fragment of a payload that begins with more headers.
            return Some(Self::hidden(ends, authenticated));
        }
        if number >= protocol::UNASSIGNED {
            let protocol = Protocol::Open(number);
            return Some(Self { ends, protocol, authenticated, ports: Ports::Hidden });
        }
        let rest = bytes.get(payload.offset..).unwrap_or_default();
        let ports = ports(number, payload.fragment, rest);
        Some(Self { ends, protocol: Protocol::Known(number), authenticated, ports })
    }

    fn hidden(ends: Ends, authenticated: bool) -> Self {
        Self { ends, protocol: Protocol::Hidden, authenticated, ports: Ports::Hidden }
    }
}

/// Returns true if the protocol has ports.
pub fn has_ports(protocol: u8) -> bool {
    least_header(protocol).is_some()
}

/// Returns the length in bytes of the shortest header of a protocol with ports.
fn least_header(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(20),
        protocol::UDP => Some(8),
        protocol::SCTP => Some(12),
        _ => None,
    }
}

#[inline]
fn ports(protocol: u8, fragment: Fragment, payload: &[u8]) -> Ports {
    let Some(least) = least_header(protocol) else { return Ports::None };
    match fragment {
        // Datagrams are cut like this only to hide their header or to change judged fields (RFC
        // 1858 section 3, RFC 3128, RFC 7112).
        Fragment::Later(1) if protocol == protocol::TCP => Ports::Hidden,
        Fragment::First if payload.len() < least => Ports::Hidden,
        Fragment::Later(_) => Ports::Later,
        Fragment::First | Fragment::Whole => match flow::ports(protocol, payload) {
            Some((source, destination)) => Ports::Known(source, destination),
            None => Ports::Hidden,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    fn udp4() -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 64)
            .udp(7, 53)
            .write(&mut bytes, b"x")
            .unwrap();
        bytes
    }

    #[test]
    fn ports_are_known_where_the_packet_shows_them() {
        let of = |bytes: &[u8]| Subject::of(bytes).unwrap().ports;
        let whole = udp4();
        assert_eq!(of(&whole), Ports::Known(7, 53));
        let mut later = whole.clone();
        later[6..8].copy_from_slice(&[0x00, 0x05]);
        assert_eq!(of(&later), Ports::Later);
        // A tiny first fragment: two bytes of payload, and padding that looks like the rest.
        let mut tiny = whole.clone();
        tiny[2..4].copy_from_slice(&22_u16.to_be_bytes());
        tiny[6..8].copy_from_slice(&[0x20, 0x00]);
        assert_eq!(of(&tiny), Ports::Hidden);
        let mut icmp = whole.clone();
        icmp[9] = 1;
        assert_eq!(of(&icmp), Ports::None);
        // With options, ports lie behind them.
        let mut options = whole.clone();
        options[0] = 0x46;
        options.splice(20..20, [1, 1, 1, 1]);
        let length = options.len() as u16;
        options[2..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(of(&options), Ports::Known(7, 53));
    }

    #[test]
    fn ipv6_payload_behind_extension_headers_counts() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(7, 80, 0, 1).write(&mut bytes, b"x").unwrap();
        let plain = Subject::of(&bytes).unwrap();
        assert_eq!((plain.protocol, plain.ports), (Protocol::Known(6), Ports::Known(7, 80)));
        let mut longer = bytes[..40].to_vec();
        longer[6] = 60;
        let length = (bytes.len() - 40 + 8) as u16;
        longer[4..6].copy_from_slice(&length.to_be_bytes());
        longer.extend_from_slice(&[6, 0, 1, 4, 0, 0, 0, 0]);
        longer.extend_from_slice(&bytes[40..]);
        assert_eq!(Subject::of(&longer), Some(plain));
        // A chain of headers that extends beyond the packet.
        longer[41] = 99;
        let hidden = Subject::of(&longer).unwrap();
        assert_eq!((hidden.protocol, hidden.ports), (Protocol::Hidden, Ports::Hidden));
    }

    /// Returns an IPv6 packet whose first header is of this kind.
    fn ipv6(kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((rest.len() as u16).to_be_bytes());
        bytes.extend([kind, 64]);
        bytes.extend([1; 16]);
        bytes.extend([2; 16]);
        bytes.extend(rest);
        bytes
    }

    /// A TCP header to port 23.
    const TELNET: [u8; 20] = [0, 7, 0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0];

    #[test]
    fn every_extension_header_is_followed_as_often_as_it_comes() {
        for kind in [0, 43, 51, 60, 135, 139, 140] {
            for count in [1, 15, 16, 33, 100] {
                let mut chain = [kind, 0, 0, 0, 0, 0, 0, 0].repeat(count);
                chain[8 * (count - 1)] = 6;
                let subject = Subject::of(&ipv6(kind, &[&chain[..], &TELNET].concat())).unwrap();
                let found = (subject.protocol, subject.ports);
                assert_eq!(found, (Protocol::Known(6), Ports::Known(7, 23)), "{count} of {kind}");
                assert_eq!(subject.authenticated, kind == 51);
            }
        }
    }

    #[test]
    fn unassigned_numbers_stay_open() {
        for number in [146, 200, 253, 254, 255] {
            let bytes = ipv6(number, &[&[6, 0, 0, 0, 0, 0, 0, 0][..], &TELNET].concat());
            assert_eq!(Subject::of(&bytes).unwrap().protocol, Protocol::Open(number));
        }
        for number in [41, 50, 59, 89, 115, 145] {
            let subject = Subject::of(&ipv6(number, &TELNET)).unwrap();
            assert_eq!((subject.protocol, subject.ports), (Protocol::Known(number), Ports::None));
        }
    }

    #[test]
    fn fragments_that_cut_the_header_hide_their_ports() {
        let of = |field: u16, payload: &[u8]| {
            let fragment = [&[6, 0][..], &field.to_be_bytes(), &[0, 0, 0, 9], payload].concat();
            let mut bytes = udp4();
            bytes.truncate(20);
            bytes[9] = 6;
            bytes[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
            bytes[6..8].copy_from_slice(&((field & 1) << 13 | field >> 3).to_be_bytes());
            bytes.extend(payload);
            let six = Subject::of(&ipv6(44, &fragment)).unwrap();
            let four = Subject::of(&bytes).unwrap();
            assert_eq!((four.protocol, four.ports), (six.protocol, six.ports));
            four.ports
        };
        assert_eq!(of(1, &TELNET), Ports::Known(7, 23), "first");
        assert_eq!(of(0, &TELNET), Ports::Known(7, 23), "atomic");
        for length in [0, 4, 8, 16, 19] {
            assert_eq!(of(1, &TELNET[..length]), Ports::Hidden, "{length} bytes");
        }
        assert_eq!(of(1 << 3, &TELNET), Ports::Hidden, "over the flags");
        assert_eq!(of(2 << 3 | 1, &TELNET), Ports::Later);
        // Later fragments of a payload that begins with options.
        let later = [60, 0, 0, 16, 0, 0, 0, 9];
        assert_eq!(Subject::of(&ipv6(44, &later)).unwrap().protocol, Protocol::Hidden);
    }

    #[test]
    fn payload_behind_an_authentication_header_counts() {
        let authentication = |length: u8| {
            let mut bytes = udp4();
            bytes.truncate(20);
            bytes[9] = 51;
            bytes.extend([6, length, 0, 0, 0, 0, 0, 1]);
            bytes.resize(20 + 24, 0);
            bytes.extend(TELNET);
            let total = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            Subject::of(&bytes).unwrap()
        };
        let subject = authentication(4);
        assert_eq!((subject.protocol, subject.ports), (Protocol::Known(6), Ports::Known(7, 23)));
        assert!(subject.authenticated);
        let hidden = authentication(200);
        assert_eq!((hidden.protocol, hidden.authenticated), (Protocol::Hidden, true));
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, first: u8) {
            let _ = Subject::of(&bytes);
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let _ = Subject::of(&bytes);
        }
    }
}
