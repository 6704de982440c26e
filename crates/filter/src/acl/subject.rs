//! What rules look at in a packet.

use std::net::{Ipv4Addr, Ipv6Addr};
use wattline_packet::FromBytes;
use wattline_packet::flow;
use wattline_packet::ipv4::Ipv4Header;
use wattline_packet::ipv6::{self, Fragment, Ipv6Header};
use wattline_packet::protocol;

/// Source and destination address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Of an IPv4 packet.
    V4(Ipv4Addr, Ipv4Addr),
    /// Of an IPv6 packet.
    V6(Ipv6Addr, Ipv6Addr),
}

/// What a packet shows of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Source and destination port.
    Known(u16, u16),
    /// Its protocol has none.
    None,
    /// A later fragment, which carries none.
    Later,
    /// They should be there, but the packet is too short, or its headers cannot be followed.
    Missing,
}

/// The fields of a packet that rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Its addresses.
    pub ends: Ends,
    /// Protocol number; of IPv6, that of the payload after extension headers.
    pub protocol: u8,
    /// Its ports.
    pub ports: Ports,
}

impl Subject {
    /// Of the IP packet that begins at `bytes`, with or without options; `None` if there is none.
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
        // Padding after the packet is not part of it.
        let end = usize::from(header.total_length.get()).min(bytes.len());
        let payload = bytes.get(header.header_length()..end).unwrap_or_default();
        let protocol = header.protocol;
        let ports = if header.is_first() { ports(protocol, payload) } else { later(protocol) };
        let ends = Ends::V4(header.source.get().into(), header.destination.get().into());
        Some(Self { ends, protocol, ports })
    }

    #[inline]
    fn of_ipv6(bytes: &[u8]) -> Option<Self> {
        let (header, _) = Ipv6Header::ref_from_prefix(bytes).ok()?;
        let bytes = &bytes[..header.total_length().min(bytes.len())];
        let ends = Ends::V6(header.source.into(), header.destination.into());
        let Some(payload) = ipv6::payload(bytes) else {
            // Whatever is behind these headers, it is not known to be permitted.
            return Some(Self { ends, protocol: header.next_header, ports: Ports::Missing });
        };
        let protocol = payload.protocol;
        let ports = match payload.fragment {
            Fragment::Later => later(protocol),
            Fragment::Whole | Fragment::First => {
                ports(protocol, bytes.get(payload.offset..).unwrap_or_default())
            }
        };
        Some(Self { ends, protocol, ports })
    }
}

/// Whether packets of a protocol have ports.
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
}

fn ports(protocol: u8, payload: &[u8]) -> Ports {
    match flow::ports(protocol, payload) {
        Some((source, destination)) => Ports::Known(source, destination),
        None if has_ports(protocol) => Ports::Missing,
        None => Ports::None,
    }
}

fn later(protocol: u8) -> Ports {
    if has_ports(protocol) { Ports::Later } else { Ports::None }
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
    fn ports_are_seen_where_they_are_and_missed_where_they_should_be() {
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
        assert_eq!(of(&tiny), Ports::Missing);
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
    fn of_ipv6_the_payload_behind_extension_headers_counts() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(7, 80, 0, 1).write(&mut bytes, b"x").unwrap();
        let plain = Subject::of(&bytes).unwrap();
        assert_eq!((plain.protocol, plain.ports), (6, Ports::Known(7, 80)));
        let mut longer = bytes[..40].to_vec();
        longer[6] = 60;
        let length = (bytes.len() - 40 + 8) as u16;
        longer[4..6].copy_from_slice(&length.to_be_bytes());
        longer.extend_from_slice(&[6, 0, 1, 4, 0, 0, 0, 0]);
        longer.extend_from_slice(&bytes[40..]);
        assert_eq!(Subject::of(&longer), Some(plain));
        // A chain of headers that leads out of the packet.
        longer[41] = 99;
        assert_eq!(Subject::of(&longer).unwrap().ports, Ports::Missing);
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
