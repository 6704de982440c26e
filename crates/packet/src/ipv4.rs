//! IPv4 (RFC 791) headers, and the address rules of RFC 1812.

use crate::checksum::Sum;
use crate::protocol;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a header without options, in bytes.
pub const HEADER: usize = 20;
/// "Don't fragment", in [`Ipv4Header::fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments", in [`Ipv4Header::fragment`].
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Offset in units of 8 bytes, in [`Ipv4Header::fragment`].
pub const OFFSET: u16 = 0x1fff;

/// An IPv4 header without its options.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4 bits) and header length in units of 4 bytes (4 bits).
    pub version_ihl: u8,
    /// Type of service: DSCP and ECN.
    pub service: u8,
    /// Length of header and payload in bytes.
    pub total_length: U16,
    /// Identifies the datagram of a fragment.
    pub identification: U16,
    /// Flags (3 bits) and offset in units of 8 bytes (13 bits).
    pub fragment: U16,
    /// Remaining hops.
    pub ttl: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Checksum of the header.
    pub checksum: U16,
    /// Source address.
    pub source: U32,
    /// Destination address.
    pub destination: U32,
}

/// Reasons why bytes are no IPv4 packet (RFC 1812 section 5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ipv4Error {
    /// There are fewer bytes than the header states, or than a header needs.
    #[error("truncated IPv4 header")]
    Truncated,
    /// The version is not 4.
    #[error("the version of an IPv4 header is not 4")]
    Version,
    /// The header length is below 20 bytes.
    #[error("the IPv4 header length is below 20 bytes")]
    HeaderLength,
    /// The checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    Checksum,
    /// The total length is shorter than the header, or exceeds the available bytes.
    #[error("the IPv4 total length does not fit")]
    TotalLength,
}

/// A checked IPv4 packet; the bytes may be longer (Ethernet padding).
#[derive(Debug, Clone, Copy)]
pub struct Ipv4Packet<'a> {
    /// The fixed header.
    pub header: &'a Ipv4Header,
    /// Options, padding included; empty in most packets.
    pub options: &'a [u8],
    /// Bytes after the header, up to the total length.
    pub payload: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Performs all checks of RFC 1812 section 5.2.2, in its order.
    ///
    /// # Errors
    /// Returns the first check that fails.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Ipv4Error> {
        let (header, rest) =
            Ipv4Header::ref_from_prefix(bytes).map_err(|_| Ipv4Error::Truncated)?;
        let length = header.header_length();
        let whole = bytes.get(..length.max(HEADER)).ok_or(Ipv4Error::Truncated)?;
        if header.version() != 4 {
            return Err(Ipv4Error::Version);
        }
        if length < HEADER {
            return Err(Ipv4Error::HeaderLength);
        }
        if !Sum::new().bytes(whole).is_intact() {
            return Err(Ipv4Error::Checksum);
        }
        let total = usize::from(header.total_length.get());
        let body = total.checked_sub(HEADER).ok_or(Ipv4Error::TotalLength)?;
        let body = rest.get(..body).ok_or(Ipv4Error::TotalLength)?;
        let (options, payload) =
            body.split_at_checked(length - HEADER).ok_or(Ipv4Error::TotalLength)?;
        Ok(Self { header, options, payload })
    }
}

impl Ipv4Header {
    /// Makes the header of a UDP packet of `length` bytes without options, checksum included.
    pub fn udp(length: u16, source: u32, destination: u32) -> Self {
        let mut header = Self {
            version_ihl: 0x45,
            service: 0,
            total_length: length.into(),
            identification: 0.into(),
            fragment: 0.into(),
            ttl: 64,
            protocol: protocol::UDP,
            checksum: 0.into(),
            source: source.into(),
            destination: destination.into(),
        };
        header.fill_checksum();
        header
    }
    /// Returns the version number.
    pub fn version(&self) -> u8 {
        self.version_ihl >> 4
    }
    /// Returns the length of the header in bytes, options included, according to its field (0 to
    /// 60).
    pub fn header_length(&self) -> usize {
        usize::from(self.version_ihl & 0xf) * 4
    }
    /// Returns true if routers must not fragment the packet.
    pub fn dont_fragment(&self) -> bool {
        self.fragment.get() & DONT_FRAGMENT != 0
    }
    /// Returns true for any fragment, including the first.
    pub fn is_fragment(&self) -> bool {
        self.fragment.get() & (MORE_FRAGMENTS | OFFSET) != 0
    }
    /// Returns true if the payload begins with its own header: whole datagrams and first fragments.
    pub fn is_first(&self) -> bool {
        self.fragment.get() & OFFSET == 0
    }
    /// Computes the checksum of a header without options.
    pub fn fill_checksum(&mut self) {
        self.checksum.set(0);
        self.checksum.set(Sum::new().bytes(self.as_bytes()).checksum());
    }
}

/// Returns true if options contain a source route (RFC 791 section 3.1), with which the destination
/// forwards the packet, or are malformed.
pub fn is_source_routed(options: &[u8]) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut rest = options;
    loop {
        rest = match rest {
            [] | [END, ..] => return false,
            [NO_OPERATION, rest @ ..] => rest,
            [LOOSE | STRICT, ..] | [_] => return true,
            [_, length, ..] => match rest.get(usize::from(*length)..) {
                Some(following) if *length >= 2 => following,
                _ => return true,
            },
        };
    }
}

/// Kind of an address, as far as its first byte shows (RFC 1812 sections 4.2.2.11 and 5.3.7, RFC
/// 6890).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// A single host.
    Unicast,
    /// 0.0.0.0/8, "this network": never on the wire as a destination.
    ThisNetwork,
    /// 127.0.0.0/8.
    Loopback,
    /// 224.0.0.0/4.
    Multicast,
    /// 240.0.0.0/4 except the broadcast address.
    Reserved,
    /// 255.255.255.255.
    Broadcast,
}

/// Returns the kind of an address in host byte order.
#[inline]
pub fn kind_of(address: u32) -> AddressKind {
    match address >> 24 {
        0 => AddressKind::ThisNetwork,
        127 => AddressKind::Loopback,
        224..=239 => AddressKind::Multicast,
        240.. if address == u32::MAX => AddressKind::Broadcast,
        240.. => AddressKind::Reserved,
        _ => AddressKind::Unicast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn udp(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut header = etherparse::Ipv4Header::new(
            payload.len() as u16,
            64,
            etherparse::IpNumber::UDP,
            [192, 0, 2, 1],
            [198, 51, 100, 2],
        )
        .unwrap();
        header.options = options.try_into().unwrap();
        header.set_payload_len(payload.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let mut bytes = Vec::new();
        header.write(&mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn reads_what_etherparse_writes() {
        let mut bytes = udp(&[1, 1, 1, 0], b"payload");
        bytes.extend_from_slice(&[0; 9]); // Ethernet padding is not payload.
        let packet = Ipv4Packet::parse(&bytes).unwrap();
        assert_eq!((packet.options, packet.payload), (&[1, 1, 1, 0][..], &b"payload"[..]));
        assert_eq!(packet.header.destination.get(), 0xc633_6402);
    }

    #[test]
    fn every_check_can_fail() {
        let good = udp(&[], b"payload");
        let parse = |bytes: &[u8]| Ipv4Packet::parse(bytes).unwrap_err();
        let patched = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        let fixed = |mut bytes: Vec<u8>| {
            let (header, _) = Ipv4Header::mut_from_prefix(&mut bytes).unwrap();
            header.fill_checksum();
            bytes
        };
        assert_eq!(parse(&good[..19]), Ipv4Error::Truncated);
        assert_eq!(parse(&patched(0, 0x4f)), Ipv4Error::Truncated);
        assert_eq!(parse(&patched(0, 0x65)), Ipv4Error::Version);
        assert_eq!(parse(&patched(0, 0x44)), Ipv4Error::HeaderLength);
        assert_eq!(parse(&patched(8, 63)), Ipv4Error::Checksum);
        assert_eq!(parse(&fixed(patched(3, 28))), Ipv4Error::TotalLength);
        assert_eq!(parse(&fixed(patched(3, 19))), Ipv4Error::TotalLength);
    }

    #[test]
    fn source_routes_are_found_behind_other_options() {
        for options in
            [&[][..], &[0, 131], &[1, 1, 1, 0], &[148, 4, 0, 0], &[7, 7, 4, 0, 0, 0, 0, 0]]
        {
            assert!(!is_source_routed(options), "{options:?}");
        }
        for options in [
            &[131, 7, 4, 10, 0, 0, 1, 0][..],
            &[1, 137, 3, 4],
            &[148, 4, 0, 0, 1, 131, 3, 4],
            &[7, 0, 0, 0],
            &[7, 9, 0, 0],
            &[1, 1, 1, 7],
        ] {
            assert!(is_source_routed(options), "{options:?}");
        }
    }

    #[test]
    fn kinds_at_their_borders() {
        use AddressKind::*;
        for (address, kind) in [
            (0x00ff_ffff, ThisNetwork),
            (0x0100_0000, Unicast),
            (0x7f00_0001, Loopback),
            (0xdfff_ffff, Unicast),
            (0xe000_0001, Multicast),
            (0xf000_0000, Reserved),
            (0xffff_fffe, Reserved),
            (0xffff_ffff, Broadcast),
        ] {
            assert_eq!(kind_of(address), kind, "{address:08x}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_etherparse(mut bytes in prop::collection::vec(any::<u8>(), 0..80), ihl in 0u8..16) {
            if bytes.len() > 3 {
                bytes[0] = 0x40 | ihl;
                bytes[2] = 0;
                bytes[3] %= 90;
            }
            // Etherparse parses authentication headers (protocol 51); a router does not.
            if bytes.get(9) == Some(&51) {
                bytes[9] = 17;
            }
            if let Some(header) = bytes.get_mut(..usize::from(ihl) * 4).filter(|h| h.len() >= 20) {
                header[10..12].fill(0);
                let checksum = Sum::new().bytes(header).checksum();
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            let ours = Ipv4Packet::parse(&bytes).ok().map(|packet| packet.payload.to_vec());
            let theirs = etherparse::Ipv4Slice::from_slice(&bytes)
                .ok()
                .map(|packet| bytes[packet.header().slice().len()..usize::from(packet.header().total_len())].to_vec());
            prop_assert_eq!(ours, theirs);
        }
    }
}
