//! Packets that are about to be punted, were not judged on their way, and that the kernel would
//! forward.
//!
//! Packets with IPv4 options or IPv6 hop-by-hop headers go from the inputs to `punt`, past all lookups.
//! Frames with a tag of VLAN 0 carry a priority only (IEEE 802.1Q): no input takes them, and the kernel
//! takes the tag off and forwards what is behind it.

use wattline_dataplane::frame::ChunkMemory;
use wattline_dataplane::packet::Packet;
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};
use wattline_packet::protocol::HOP_BY_HOP;
use wattline_packet::{FromBytes, ethernet};

/// EtherType of service tags (IEEE 802.1ad).
const SERVICE_VLAN: u16 = 0x88a8;
/// The VLAN in a tag.
const VLAN: u16 = 0x0fff;

/// Such a packet, from its IP header on; `None` for all others. The IP version is that of the first
/// byte, as in the kernel.
pub(crate) fn unjudged<'a>(packet: &Packet, memory: &'a ChunkMemory) -> Option<&'a [u8]> {
    let bytes = packet.network_bytes(memory);
    let kind = memory.array::<2>(packet.network_offset().checked_sub(2)?)?;
    let is_tagged = matches!(u16::from_be_bytes(*kind), ethernet::VLAN | SERVICE_VLAN);
    let bytes = match bytes.first_chunk::<2>() {
        Some(control) if is_tagged && u16::from_be_bytes(*control) & VLAN == 0 => {
            bytes.get(ethernet::TAG..)?
        }
        _ if is_tagged => return None,
        _ => bytes,
    };
    let is_unseen = match bytes.first()? >> 4 {
        4 => {
            use ipv4::AddressKind::{Broadcast, Multicast};
            let (header, _) = Ipv4Header::ref_from_prefix(bytes).ok()?;
            let is_odd = is_tagged || header.header_length() > ipv4::HEADER;
            is_odd && !matches!(ipv4::kind_of(header.destination.get()), Broadcast | Multicast)
        }
        6 => {
            use ipv6::AddressKind::{LinkLocal, Multicast};
            let (header, _) = Ipv6Header::ref_from_prefix(bytes).ok()?;
            let is_odd = is_tagged || header.next_header == HOP_BY_HOP;
            is_odd && !matches!(ipv6::kind_of(&header.destination), LinkLocal | Multicast)
        }
        _ => false,
    };
    is_unseen.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::testing::{Bench, MAC_A, frame4, frame4_vlan, frame6};

    /// Where the packet begins that is to be judged.
    fn begins(frame: &[u8]) -> Option<usize> {
        let mut bench = Bench::new();
        let packet = bench.packet(frame);
        let memory = bench.context.pool.memory();
        let length = unjudged(&packet, memory).map(<[u8]>::len);
        length.map(|length| frame.len() - length)
    }

    #[test]
    fn priority_tags_options_and_hop_by_hop_headers_are_found() {
        assert_eq!(begins(&frame4(MAC_A, 64, b"payload")), None);
        assert_eq!(begins(&frame6(MAC_A, 64, b"payload")), None);
        assert_eq!(begins(&frame4_vlan(MAC_A, 0)), Some(18));
        assert_eq!(begins(&frame4_vlan(MAC_A, 7)), None, "a VLAN that the kernel has to itself");
        let mut service = frame4_vlan(MAC_A, 0);
        service[12..14].copy_from_slice(&[0x88, 0xa8]);
        assert_eq!(begins(&service), Some(18));
        let mut options = frame4(MAC_A, 64, b"payload");
        options[14] = 0x46;
        assert_eq!(begins(&options), Some(14));
        options[30] = 224;
        assert_eq!(begins(&options), None, "to a group");
        let mut headers = frame6(MAC_A, 64, b"payload");
        headers[20] = 0;
        assert_eq!(begins(&headers), Some(14));
        headers[38] = 0xff;
        assert_eq!(begins(&headers), None, "to a group");
        for cut in [0, 13, 14, 15, 17, 19, 33] {
            let _ = begins(&frame4_vlan(MAC_A, 0)[..cut]);
        }
    }
}
