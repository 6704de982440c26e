//! IPv6 (RFC 8200) headers and the walk over extension headers.

use crate::protocol;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the fixed header in bytes.
pub const HEADER: usize = 40;
/// Least MTU of every link in bytes (RFC 8200 section 5).
pub const MINIMUM_MTU: usize = 1280;

/// The fixed IPv6 header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Number of bytes after this header.
    pub payload_length: U16,
    /// Protocol number of the next header: an extension header or the payload.
    pub next_header: u8,
    /// Remaining hops.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Ipv6Header {
    /// Version number.
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }
    /// Length of header and payload in bytes.
    pub fn total_length(&self) -> usize {
        HEADER + usize::from(self.payload_length.get())
    }
}

/// Kind of an address (RFC 4291 section 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// A single host with global scope.
    Global,
    /// `::`.
    Unspecified,
    /// `::1`.
    Loopback,
    /// `fe80::/10`.
    LinkLocal,
    /// `ff00::/8`.
    Multicast,
}

/// Kind of an address.
#[inline]
pub fn kind_of(address: &[u8; 16]) -> AddressKind {
    match u128::from_be_bytes(*address) {
        0 => AddressKind::Unspecified,
        1 => AddressKind::Loopback,
        value if value >> 120 == 0xff => AddressKind::Multicast,
        value if value >> 118 == 0xfe80 >> 6 => AddressKind::LinkLocal,
        _ => AddressKind::Global,
    }
}

/// End of a walk over the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Protocol number of the data at `offset`.
    pub protocol: u8,
    /// Offset in bytes from the start of the IPv6 header.
    pub offset: usize,
    /// Contents of a fragment header on the way.
    pub fragment: Fragment,
}

/// Whether a packet is a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// No fragment header, or an atomic one (RFC 6946).
    Whole,
    /// The first of several fragments, which contains the payload's header.
    First,
    /// A later fragment, without the payload's header.
    Later,
}

/// Largest number of extension headers in a walk; valid packets have at most six.
const MOST_HEADERS: usize = 16;

/// Walks from the fixed header at the start of `packet` to the payload.
///
/// `None` if the chain exceeds the bytes or is longer than any valid one. The walk ends at data
/// that it cannot parse (ESP, unknown protocols, later fragments).
pub fn payload(packet: &[u8]) -> Option<Payload> {
    let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let mut next = header.next_header;
    let mut offset = HEADER;
    let mut fragment = Fragment::Whole;
    for _ in 0..MOST_HEADERS {
        match next {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                let [following, length] = *packet.get(offset..)?.first_chunk()?;
                next = following;
                offset += 8 + usize::from(length) * 8;
            }
            protocol::AUTHENTICATION => {
                let [following, length] = *packet.get(offset..)?.first_chunk()?;
                next = following;
                offset += 8 + usize::from(length) * 4;
            }
            protocol::FRAGMENT => {
                let [following, _, high, low] = *packet.get(offset..)?.first_chunk()?;
                let field = u16::from_be_bytes([high, low]);
                next = following;
                offset += 8;
                if field >> 3 != 0 {
                    return Some(Payload { protocol: next, offset, fragment: Fragment::Later });
                }
                if field & 1 != 0 {
                    fragment = Fragment::First;
                }
            }
            _ => return Some(Payload { protocol: next, offset, fragment }),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(next_header: u8, rest: &[u8]) -> Vec<u8> {
        let header = Ipv6Header {
            version_class_flow: 0x6000_0000.into(),
            payload_length: (rest.len() as u16).into(),
            next_header,
            hop_limit: 64,
            source: [1; 16],
            destination: [2; 16],
        };
        [header.as_bytes(), rest].concat()
    }

    #[test]
    fn walks_options_routing_and_fragment_headers() {
        let mut rest = vec![protocol::ROUTING, 0, 0, 0, 0, 0, 0, 0];
        rest.extend_from_slice(&[protocol::FRAGMENT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend_from_slice(&[protocol::UDP, 0, 0, 1, 0, 0, 0, 7]);
        let found = payload(&packet(protocol::HOP_BY_HOP, &rest)).unwrap();
        let expected =
            Payload { protocol: protocol::UDP, offset: 40 + 32, fragment: Fragment::First };
        assert_eq!(found, expected);
    }

    #[test]
    fn later_fragments_have_no_payload_header() {
        let rest = [protocol::TCP, 0, 0, 8, 0, 0, 0, 7];
        let found = payload(&packet(protocol::FRAGMENT, &rest)).unwrap();
        assert_eq!(found.fragment, Fragment::Later);
        let atomic = [protocol::TCP, 0, 0, 0, 0, 0, 0, 7];
        let found = payload(&packet(protocol::FRAGMENT, &atomic)).unwrap();
        assert_eq!(found.fragment, Fragment::Whole);
    }

    #[test]
    fn endless_chains_end() {
        let rest = [protocol::DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 0].repeat(100);
        assert_eq!(payload(&packet(protocol::DESTINATION_OPTIONS, &rest)), None);
        assert_eq!(payload(&packet(protocol::DESTINATION_OPTIONS, &rest[..8])), None);
    }

    #[test]
    fn kinds() {
        let kind = |text: &str| kind_of(&text.parse::<std::net::Ipv6Addr>().unwrap().octets());
        assert_eq!(kind("::"), AddressKind::Unspecified);
        assert_eq!(kind("::1"), AddressKind::Loopback);
        assert_eq!(kind("febf::1"), AddressKind::LinkLocal);
        assert_eq!(kind("fec0::1"), AddressKind::Global);
        assert_eq!(kind("ff02::1"), AddressKind::Multicast);
        assert_eq!(kind("2001:db8::1"), AddressKind::Global);
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, next: u8) {
            if let Some(found) = payload(&packet(next, &bytes)) {
                prop_assert!(found.offset >= HEADER);
            }
            let _ = payload(&bytes);
        }
    }
}
