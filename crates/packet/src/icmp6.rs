//! ICMPv6 (RFC 4443) error messages, and the rules for sending them.

use crate::checksum::Sum;
use crate::ipv6::{self, AddressKind, Fragment, Ipv6Header, MINIMUM_MTU};
use crate::protocol;
use zerocopy::{FromBytes, IntoBytes};

const ICMP_HEADER: usize = 8;

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmp6Error {
    /// Type 1 code 0: no route to the destination.
    NoRoute,
    /// Type 1 code 1: communication administratively prohibited.
    Prohibited,
    /// Type 1 code 3: the neighbour does not answer.
    AddressUnreachable,
    /// Type 2, with the MTU of the egress interface.
    PacketTooBig {
        /// Largest packet in bytes that would pass.
        mtu: u16,
    },
    /// Type 3 code 0: hop limit exceeded in transit.
    TimeExceeded,
}

impl Icmp6Error {
    fn wire(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (1, 0, 0),
            Self::Prohibited => (1, 1, 0),
            Self::AddressUnreachable => (1, 3, 0),
            Self::PacketTooBig { mtu } => (2, 0, u32::from(mtu)),
            Self::TimeExceeded => (3, 0, 0),
        }
    }
}

/// Returns true if `error` about the packet that begins at `packet` may be sent (RFC 4443 section
/// 2.4 e). None may be sent about an ICMPv6 error or redirect, nor to a source that names no single
/// node; about multicasts only "packet too big" is allowed. The caller must exclude packets that
/// came by link-layer broadcast.
pub fn may_report(packet: &[u8], error: Icmp6Error) -> bool {
    let Ok((header, _)) = Ipv6Header::ref_from_prefix(packet) else { return false };
    let Some(payload) = ipv6::payload(packet) else { return false };
    // A later fragment does not show whether it belongs to an error.
    let about_error = payload.protocol == protocol::ICMP6
        && (matches!(payload.fragment, Fragment::Later(_))
            || packet.get(payload.offset).is_none_or(|kind| *kind < 128 || *kind == 137));
    let multicast = ipv6::kind_of(&header.destination) == AddressKind::Multicast;
    let too_big = matches!(error, Icmp6Error::PacketTooBig { .. });
    !about_error
        && !matches!(
            ipv6::kind_of(&header.source),
            AddressKind::Unspecified | AddressKind::Loopback | AddressKind::Multicast
        )
        && (!multicast || too_big)
}

/// Writes an error about `packet` into `buffer`; both begin with the IPv6 header. Returns the
/// length of the message, which quotes as much as fits into the minimum MTU.
///
/// `None` if `packet` is shorter than its length field, or if `buffer` cannot hold the headers.
pub fn write(
    buffer: &mut [u8],
    error: Icmp6Error,
    source: [u8; 16],
    hop_limit: u8,
    packet: &[u8],
) -> Option<usize> {
    let (about, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let quoted = packet.get(..about.total_length())?;
    let room = buffer.len().min(MINIMUM_MTU).checked_sub(ipv6::HEADER + ICMP_HEADER)?;
    let quoted = &quoted[..quoted.len().min(room)];
    if quoted.len() < ipv6::HEADER {
        return None;
    }
    let payload_length = ICMP_HEADER + quoted.len();
    let header = Ipv6Header {
        version_class_flow: 0x6000_0000.into(),
        payload_length: (payload_length as u16).into(),
        next_header: protocol::ICMP6,
        hop_limit,
        source,
        destination: about.source,
    };
    let (kind, code, rest) = error.wire();
    let mut icmp = [kind, code, 0, 0, 0, 0, 0, 0];
    icmp[4..].copy_from_slice(&rest.to_be_bytes());
    // The pseudo-header of RFC 8200 section 8.1.
    let checksum = Sum::new()
        .bytes(&header.source)
        .bytes(&header.destination)
        .word(payload_length as u32)
        .word(u32::from(protocol::ICMP6))
        .bytes(&icmp)
        .bytes(quoted)
        .checksum();
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());

    let buffer = buffer.get_mut(..ipv6::HEADER + payload_length)?;
    header.write_to_prefix(buffer).ok()?;
    buffer[ipv6::HEADER..][..ICMP_HEADER].copy_from_slice(&icmp);
    buffer[ipv6::HEADER + ICMP_HEADER..].copy_from_slice(quoted);
    Some(buffer.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp(size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv6([0x20; 16], [0x21; 16], 1)
            .udp(7, 53)
            .write(&mut bytes, &vec![0xab; size])
            .unwrap();
        bytes
    }

    #[test]
    fn etherparse_reads_what_is_written() {
        for size in [0, 1, 100, 2000] {
            let packet = udp(size);
            let mut buffer = [0; 1500];
            let error = Icmp6Error::PacketTooBig { mtu: 1400 };
            let length = write(&mut buffer, error, [0x22; 16], 64, &packet).unwrap();
            assert_eq!(length, MINIMUM_MTU.min(48 + packet.len()));
            let read = etherparse::SlicedPacket::from_ip(&buffer[..length]).unwrap();
            let Some(etherparse::TransportSlice::Icmpv6(icmp)) = &read.transport else {
                panic!("not ICMPv6")
            };
            assert!(icmp.is_checksum_valid([0x22; 16], [0x20; 16]));
            assert_eq!((icmp.type_u8(), icmp.code_u8()), (2, 0));
            assert_eq!(icmp.bytes5to8(), [0, 0, 0x05, 0x78]);
            assert_eq!(icmp.payload(), &packet[..packet.len().min(1232)]);
        }
    }

    #[test]
    fn no_errors_about_errors_or_groups() {
        let error = Icmp6Error::TimeExceeded;
        let too_big = Icmp6Error::PacketTooBig { mtu: 1280 };
        assert!(may_report(&udp(8), error));
        let mut group = udp(8);
        group[24] = 0xff;
        assert!(!may_report(&group, error));
        assert!(may_report(&group, too_big));
        let mut unspecified = udp(8);
        unspecified[8..24].fill(0);
        assert!(!may_report(&unspecified, error));
        let mut buffer = [0; 1280];
        let length = write(&mut buffer, error, [0x22; 16], 64, &udp(8)).unwrap();
        assert!(!may_report(&buffer[..length], error));
        buffer[40] = 128; // An echo request is no error.
        assert!(may_report(&buffer[..length], error));
        assert!(!may_report(&buffer[..40], error), "the type is missing");
    }
}
