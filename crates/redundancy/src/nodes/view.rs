//! View of an IP packet for encoder and decoder nodes, and its modification.

use super::rules::EXTENSIONS_FOR_ROUTERS;
use std::net::IpAddr;
use wattline_dataplane::frame::ChunkMemory;
use wattline_dataplane::packet::Packet;
use wattline_packet::checksum::update;
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};
use wattline_packet::{Family, FromBytes};

/// The parts of a packet that matter here.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub destination: IpAddr,
    /// Source and destination address as in the header.
    pub addresses: &'a [u8],
    /// TTL or hop limit.
    pub hops: u8,
    /// Protocol number in the fixed header.
    pub protocol: u8,
    /// True if it is a fragment, or has options or extension headers that routers must read.
    pub unfit: bool,
    /// Bytes after the fixed header.
    pub payload: &'a [u8],
    /// Length of the whole packet in bytes.
    pub length: usize,
}

impl<'a> View<'a> {
    /// Parses a packet that an input node has checked; `None` if the descriptor is wrong.
    pub fn parse(family: Family, packet: &Packet, memory: &'a ChunkMemory) -> Option<Self> {
        let bytes = packet.network_bytes(memory);
        match family {
            Family::V4 => {
                let (header, _) = Ipv4Header::ref_from_prefix(bytes).ok()?;
                let length = usize::from(header.total_length.get());
                Some(Self {
                    destination: IpAddr::V4(header.destination.get().into()),
                    addresses: bytes.get(12..20)?,
                    hops: header.ttl,
                    protocol: header.protocol,
                    unfit: header.is_fragment() || header.header_length() != ipv4::HEADER,
                    payload: bytes.get(ipv4::HEADER..length)?,
                    length,
                })
            }
            Family::V6 => {
                let (header, _) = Ipv6Header::ref_from_prefix(bytes).ok()?;
                let length = header.total_length();
                let next = header.next_header;
                Some(Self {
                    destination: IpAddr::V6(header.destination.into()),
                    addresses: bytes.get(8..40)?,
                    hops: header.hop_limit,
                    protocol: next,
                    unfit: EXTENSIONS_FOR_ROUTERS.contains(&next),
                    payload: bytes.get(ipv6::HEADER..length)?,
                    length,
                })
            }
        }
    }

    /// Returns the hash of the flow, good enough to distinguish flows in a table.
    pub fn flow(&self) -> u32 {
        let ports = self.payload.first_chunk().map_or(0, |ports| u32::from_le_bytes(*ports));
        let (words, _) = self.addresses.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mixed = words.chain([u64::from(ports)]).fold(0u64, |hash, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
        });
        (mixed >> 32) as u32
    }
}

/// Replaces the bytes after the fixed header and updates the header; nothing else changes. The
/// caller must ensure room in the chunk. `None` if there is none.
pub(super) fn replace(
    family: Family,
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    protocol: u8,
    payload: &[u8],
) -> Option<()> {
    let length = family.header() + payload.len();
    let start = packet.network_offset();
    let bytes = memory.get_mut(start..start + length)?;
    match family {
        Family::V4 => {
            let (header, _) = Ipv4Header::mut_from_prefix(bytes).ok()?;
            let word = |ttl: u8, protocol: u8| u16::from_be_bytes([ttl, protocol]);
            let (old, new) = (header.total_length.get(), u16::try_from(length).ok()?);
            let checksum = update(header.checksum.get(), old, new);
            let (old, changed) = (word(header.ttl, header.protocol), word(header.ttl, protocol));
            header.checksum.set(update(checksum, old, changed));
            header.total_length.set(new);
            header.protocol = protocol;
        }
        Family::V6 => {
            let (header, _) = Ipv6Header::mut_from_prefix(bytes).ok()?;
            header.payload_length.set(u16::try_from(payload.len()).ok()?);
            header.next_header = protocol;
        }
    }
    bytes.get_mut(family.header()..)?.copy_from_slice(payload);
    let frame = wattline_packet::ethernet::HEADER + length;
    packet.frame.length = u16::try_from(frame).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::testing::{Bench, MAC_A, frame4, frame6};
    use wattline_packet::ipv4::Ipv4Packet;

    #[test]
    fn a_replaced_payload_is_a_packet_in_order() {
        for (family, frame) in
            [(Family::V4, frame4(MAC_A, 9, b"payload")), (Family::V6, frame6(MAC_A, 9, b"payload"))]
        {
            let mut bench = Bench::new();
            let mut packet = bench.packet(&frame);
            let view = View::parse(family, &packet, bench.context.pool.memory()).unwrap();
            assert_eq!((view.payload, view.hops, view.protocol), (&b"payload"[..], 9, 17));
            assert_eq!((view.unfit, view.length), (false, frame.len() - 14));
            let longer = [5; 100];
            replace(family, &mut packet, bench.context.pool.memory(), 253, &longer).unwrap();
            let bytes = bench.bytes(&packet);
            assert_eq!(bytes.len(), 14 + family.header() + 100);
            if family == Family::V4 {
                assert_eq!(Ipv4Packet::parse(&bytes[14..]).unwrap().payload, longer);
            }
            replace(family, &mut packet, bench.context.pool.memory(), 17, b"payload").unwrap();
            assert_eq!(bench.bytes(&packet), frame, "and back");
        }
    }
}
