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
    /// Returns the version number.
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }
    /// Returns the length of header and payload in bytes.
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

/// Returns the kind of an address.
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
    /// True after an authentication header.
    pub authenticated: bool,
    /// True after a routing header with which the destination forwards the packet.
    pub routed: bool,
}

/// Returns true for the extension headers that [`payload`] skips. ESP is not among them: it hides
/// the payload.
pub fn is_extension(number: u8) -> bool {
    is_generic(number) || matches!(number, protocol::AUTHENTICATION | protocol::FRAGMENT)
}

/// Returns true for extension headers that begin with the next header and their length in units of
/// 8 bytes, without the first 8 (RFC 6564 section 4, RFC 7045 section 4).
fn is_generic(number: u8) -> bool {
    use protocol::{DESTINATION_OPTIONS, HIP, HOP_BY_HOP, MOBILITY, ROUTING, SHIM6};
    matches!(number, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6)
}

/// Part of a datagram that a packet contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// No fragment header, or an atomic one (RFC 6946).
    Whole,
    /// The first of several fragments, which contains the payload's header.
    First,
    /// A later fragment, without the payload's header: its offset in units of 8 bytes.
    Later(u16),
}

/// Walks from the fixed header at the start of `packet` to the payload.
///
/// `None` if the chain exceeds the bytes. The walk ends at data that it cannot parse (ESP, unknown
/// protocols, later fragments). Hosts accept any number and order of headers (RFC 8200 section 4.1), so
/// the walk does too; each header has at least 8 bytes, so it ends.
pub fn payload(packet: &[u8]) -> Option<Payload> {
    let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let mut found = Payload {
        protocol: header.next_header,
        offset: HEADER,
        fragment: Fragment::Whole,
        authenticated: false,
        routed: false,
    };
    loop {
        let rest = packet.get(found.offset..)?;
        let kind = found.protocol;
        if is_generic(kind) {
            let [following, length, _, segments_left] = *rest.first_chunk()?;
            found.routed |= kind == protocol::ROUTING && segments_left != 0;
            found.protocol = following;
            found.offset += 8 + usize::from(length) * 8;
        } else if kind == protocol::AUTHENTICATION {
            let [following, length] = *rest.first_chunk()?;
            found.authenticated = true;
            found.protocol = following;
            found.offset += 8 + usize::from(length) * 4;
        } else if kind == protocol::FRAGMENT {
            let [following, _, high, low] = *rest.first_chunk()?;
            let field = u16::from_be_bytes([high, low]);
            found.protocol = following;
            found.offset += 8;
            if field >> 3 != 0 {
                found.fragment = Fragment::Later(field >> 3);
                return (found.offset <= packet.len()).then_some(found);
            }
            if field & 1 != 0 {
                found.fragment = Fragment::First;
            }
        } else {
            return Some(found);
        }
    }
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
        let expected = Payload {
            protocol: protocol::UDP,
            offset: 40 + 32,
            fragment: Fragment::First,
            ..found
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn later_fragments_have_no_payload_header() {
        let rest = [protocol::TCP, 0, 0, 8, 0, 0, 0, 7];
        let found = payload(&packet(protocol::FRAGMENT, &rest)).unwrap();
        assert_eq!(found.fragment, Fragment::Later(1));
        let atomic = [protocol::TCP, 0, 0, 0, 0, 0, 0, 7];
        let found = payload(&packet(protocol::FRAGMENT, &atomic)).unwrap();
        assert_eq!(found.fragment, Fragment::Whole);
    }

    #[test]
    fn chain_of_any_length_is_followed_to_its_end() {
        for count in [1, 15, 16, 17, 33, 180, 1000] {
            let mut rest = [protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(count - 1);
            rest.extend_from_slice(&[protocol::TCP, 0, 1, 4, 0, 0, 0, 0]);
            rest.extend_from_slice(&[0; 20]);
            let found = payload(&packet(protocol::DESTINATION_OPTIONS, &rest)).unwrap();
            assert_eq!((found.protocol, found.offset), (protocol::TCP, 40 + 8 * count));
        }
    }

    #[test]
    fn chain_that_leaves_the_packet_has_no_payload() {
        let rest = [protocol::DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 0].repeat(100);
        assert_eq!(payload(&packet(protocol::DESTINATION_OPTIONS, &rest)), None);
        for (kind, length) in [(60, 1), (0, 255), (43, 1), (51, 2), (135, 1), (139, 9), (140, 1)] {
            let rest = [protocol::TCP, length, 0, 0, 0, 0, 0, 0];
            assert_eq!(payload(&packet(kind, &rest)), None, "{kind}");
        }
        assert_eq!(payload(&packet(protocol::FRAGMENT, &[protocol::TCP, 0, 0, 8])), None);
    }

    #[test]
    fn authentication_and_routing_headers_are_noted() {
        let mut rest = vec![protocol::ROUTING, 4, 0, 0];
        rest.resize(24, 0);
        rest.extend_from_slice(&[protocol::NO_NEXT, 2, 4, 1]);
        rest.resize(48, 0);
        let found = payload(&packet(protocol::AUTHENTICATION, &rest)).unwrap();
        assert_eq!((found.protocol, found.offset), (protocol::NO_NEXT, 88));
        assert!(found.authenticated && found.routed);
        rest[27] = 0;
        assert!(!payload(&packet(protocol::AUTHENTICATION, &rest)).unwrap().routed);
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
