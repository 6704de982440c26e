//! ICMP (RFC 792) error messages, and the rules for sending them.

use crate::checksum::Sum;
use crate::ipv4::{self, AddressKind, Ipv4Header, Ipv4Packet};
use crate::protocol;
use zerocopy::{FromBytes, IntoBytes};

/// Largest length of an error message, headers included (RFC 1812 section 4.3.2.3).
pub const MAXIMUM: usize = 576;
/// Length of the ICMP header of an error message.
const ICMP_HEADER: usize = 8;

/// Kind of an error: type, code and the four bytes that depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmp4Error {
    /// Type 11 code 0.
    TimeExceeded,
    /// Type 3 code 0: no route (RFC 1812 section 5.2.7.1).
    NetworkUnreachable,
    /// Type 3 code 1.
    HostUnreachable,
    /// Type 3 code 4, with the MTU of the egress interface (RFC 1191 section 4).
    FragmentationNeeded {
        /// Largest packet in bytes that would pass.
        mtu: u16,
    },
    /// Type 3 code 13: communication administratively prohibited.
    Prohibited,
}

impl Icmp4Error {
    /// Type, code and the rest of the header.
    fn wire(self) -> (u8, u8, u32) {
        match self {
            Self::TimeExceeded => (11, 0, 0),
            Self::NetworkUnreachable => (3, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::FragmentationNeeded { mtu } => (3, 4, u32::from(mtu)),
            Self::Prohibited => (3, 13, 0),
        }
    }
}

/// Returns true if an error about this packet may be sent (RFC 1812 section 4.3.2.7). None may be
/// sent about another ICMP error, a multicast or broadcast, a fragment other than the first, or a
/// packet whose source is no single host. The caller must exclude packets that came by link-layer
/// broadcast.
pub fn may_report(packet: &Ipv4Packet) -> bool {
    let header = packet.header;
    let about_error = header.protocol == protocol::ICMP
        && !packet.payload.first().is_some_and(|kind| is_query(*kind));
    header.is_first()
        && !about_error
        && ipv4::kind_of(header.source.get()) == AddressKind::Unicast
        && ipv4::kind_of(header.destination.get()) == AddressKind::Unicast
}

/// Returns true if a message type is no error, so that errors about it are allowed. Unknown types
/// count as errors, since they might be.
fn is_query(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 9 | 10 | 13..=18 | 42 | 43)
}

/// Writes an error about `packet` into `buffer`; both begin with the IPv4 header. Returns the
/// length of the message, which quotes as much as fits into 576 bytes.
///
/// `None` if `packet` is no IPv4 packet, or if `buffer` cannot hold the headers and the quoted
/// header with eight bytes of payload.
pub fn write(
    buffer: &mut [u8],
    error: Icmp4Error,
    source: u32,
    ttl: u8,
    packet: &[u8],
) -> Option<usize> {
    let about = Ipv4Packet::parse(packet).ok()?;
    let quoted = packet.get(..usize::from(about.header.total_length.get()))?;
    let room = buffer.len().min(MAXIMUM).checked_sub(ipv4::HEADER + ICMP_HEADER)?;
    let least = (about.header.header_length() + 8).min(quoted.len());
    let quoted = &quoted[..quoted.len().min(room)];
    if quoted.len() < least {
        return None;
    }
    let total = ipv4::HEADER + ICMP_HEADER + quoted.len();
    // The precedence is that of the packet, but at least 6, as for network control (RFC 1812
    // section 4.3.2.5).
    let mut header = Ipv4Header {
        version_ihl: 0x45,
        service: 0xc0,
        total_length: (total as u16).into(),
        identification: 0.into(),
        fragment: ipv4::DONT_FRAGMENT.into(),
        ttl,
        protocol: protocol::ICMP,
        checksum: 0.into(),
        source: source.into(),
        destination: about.header.source,
    };
    header.fill_checksum();
    let (kind, code, rest) = error.wire();
    let mut icmp = [kind, code, 0, 0, 0, 0, 0, 0];
    icmp[4..].copy_from_slice(&rest.to_be_bytes());
    let checksum = Sum::new().bytes(&icmp).bytes(quoted).checksum();
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());

    let buffer = buffer.get_mut(..total)?;
    header.write_to_prefix(buffer).ok()?;
    buffer[ipv4::HEADER..][..ICMP_HEADER].copy_from_slice(&icmp);
    buffer[ipv4::HEADER + ICMP_HEADER..].copy_from_slice(quoted);
    Some(total)
}

/// Returns the type and code of the ICMP message in an IPv4 packet; `None` if it holds none. For
/// tests and for counting answers.
pub fn type_and_code(packet: &[u8]) -> Option<(u8, u8)> {
    let (header, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    let payload = packet.get(header.header_length()..)?;
    (header.protocol == protocol::ICMP).then(|| payload.first_chunk::<2>().map(|b| (b[0], b[1])))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp(size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 1)
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
            let error = Icmp4Error::FragmentationNeeded { mtu: 1400 };
            let length = write(&mut buffer, error, 0xc000_0201, 64, &packet).unwrap();
            assert_eq!(length, MAXIMUM.min(28 + packet.len()));
            let read = etherparse::SlicedPacket::from_ip(&buffer[..length]).unwrap();
            let Some(etherparse::NetSlice::Ipv4(ip)) = &read.net else { panic!("not IPv4") };
            assert_eq!(ip.header().destination(), [192, 0, 2, 1]);
            assert!(Ipv4Packet::parse(&buffer[..length]).is_ok());
            let Some(etherparse::TransportSlice::Icmpv4(icmp)) = &read.transport else {
                panic!("not ICMP")
            };
            assert_eq!((icmp.type_u8(), icmp.code_u8()), (3, 4));
            assert_eq!(icmp.bytes5to8(), [0, 0, 0x05, 0x78]);
            assert_eq!(icmp.payload(), &packet[..packet.len().min(548)]);
            assert!(Sum::new().bytes(&buffer[20..length]).is_intact());
        }
    }

    #[test]
    fn no_errors_about_errors_groups_or_later_fragments() {
        let may = |bytes: &[u8]| may_report(&Ipv4Packet::parse(bytes).unwrap());
        let with = |change: fn(&mut Ipv4Header)| {
            let mut bytes = udp(8);
            let (header, _) = Ipv4Header::mut_from_prefix(&mut bytes).unwrap();
            change(header);
            header.fill_checksum();
            bytes
        };
        assert!(may(&udp(8)));
        assert!(may(&with(|header| header.fragment.set(0x2000))));
        assert!(!may(&with(|header| header.fragment.set(1))));
        assert!(!may(&with(|header| header.destination.set(0xe000_0001))));
        assert!(!may(&with(|header| header.destination.set(0xffff_ffff))));
        assert!(!may(&with(|header| header.source.set(0))));
        assert!(!may(&with(|header| header.source.set(0x7f00_0001))));
        let mut buffer = [0; 600];
        let length = write(&mut buffer, Icmp4Error::TimeExceeded, 1 << 24, 64, &udp(8)).unwrap();
        assert!(!may(&buffer[..length]));
        // An echo request is ICMP, but no error.
        buffer[20] = 8;
        assert!(may(&buffer[..length]));
    }

    #[test]
    fn too_small_a_buffer_gives_nothing() {
        assert_eq!(write(&mut [0; 55], Icmp4Error::TimeExceeded, 1, 64, &udp(8)), None);
        assert!(write(&mut [0; 56], Icmp4Error::TimeExceeded, 1, 64, &udp(8)).is_some());
    }
}
