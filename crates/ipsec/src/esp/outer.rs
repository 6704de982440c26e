//! Outer headers: their construction, and the congestion marks that inner packets take from them.

use super::association::{Dscp, Outbound};
use std::net::IpAddr;
use wattline_packet::checksum::{self, Sum};
use wattline_packet::esp::{UDP_HEADER, UdpHeader};
use wattline_packet::ipv4::{self, DONT_FRAGMENT, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};
use wattline_packet::{FromBytes, IntoBytes, protocol};

/// TTL of an outer header before a rewrite node decrements it to 64.
const TTL: u8 = 65;
const ECN: u8 = 0b11;

/// Fields that an outer header takes from the inner packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inner {
    /// DSCP and ECN of the inner packet.
    pub service: u8,
    /// True if the outer IPv4 header has the flag "don't fragment".
    pub dont_fragment: bool,
}

/// Writes the IP header, and the UDP header if configured, for the `rest` bytes that follow them at
/// the end of `packet`. `None` if the packet is too short or too long.
pub(super) fn write(
    packet: &mut [u8],
    association: &Outbound,
    inner: Inner,
    sequence: u64,
) -> Option<()> {
    let common = &association.common;
    // DSCP as configured; ECN is copied (RFC 6040 section 4.1, normal mode).
    let service = match association.dscp {
        Dscp::Copy => inner.service,
        Dscp::Set(dscp) => dscp << 2 | inner.service & ECN,
    };
    let total = packet.len();
    let protocol = if common.udp.is_some() { protocol::UDP } else { protocol::ESP };
    let header = match (common.local, common.remote) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = u16::try_from(total).ok()?;
            let fragment = if inner.dont_fragment { DONT_FRAGMENT } else { 0 };
            // Unique for the lifetime of fragments, which is all that is needed.
            let identification = sequence as u16;
            // Assembled from whole words: reading a header that was just written in smaller pieces
            // would wait for the writes.
            let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
            let mut words = [
                pair(0x4500 | u16::from(service), length),
                pair(identification, fragment),
                pair(u16::from_be_bytes([TTL, protocol]), 0),
                source.into(),
                destination.into(),
            ];
            words[2] |=
                u32::from(words.iter().fold(Sum::new(), |sum, word| sum.word(*word)).checksum());
            let (header, _) = packet.split_first_chunk_mut::<{ ipv4::HEADER }>()?;
            for (bytes, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *bytes = word.to_be_bytes();
            }
            ipv4::HEADER
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                version_class_flow: (6 << 28 | u32::from(service) << 20).into(),
                payload_length: u16::try_from(total.checked_sub(ipv6::HEADER)?).ok()?.into(),
                next_header: protocol,
                hop_limit: TTL,
                source: source.octets(),
                destination: destination.octets(),
            };
            header.write_to_prefix(packet).ok()?;
            ipv6::HEADER
        }
        _ => return None,
    };
    if let Some((source, destination)) = common.udp {
        let length = u16::try_from(total.checked_sub(header)?).ok()?;
        let mut udp = UdpHeader {
            source: source.into(),
            destination: destination.into(),
            length: length.into(),
            checksum: 0.into(),
        };
        // IPv4 needs no UDP checksum (RFC 3948 section 2.1); IPv6 does (RFC 8200 section 8.1).
        if header == ipv6::HEADER {
            let sum = Sum::new()
                .bytes(packet.get(8..ipv6::HEADER)?)
                .word(length.into())
                .word(protocol::UDP.into())
                .bytes(udp.as_bytes())
                .bytes(packet.get(ipv6::HEADER + UDP_HEADER..)?)
                .checksum();
            udp.checksum.set(if sum == 0 { u16::MAX } else { sum });
        }
        udp.write_to_prefix(packet.get_mut(header..)?).ok()?;
    }
    Some(())
}

/// Returns the new ECN field of the inner packet, from the `inner` and `outer` ones (RFC 6040
/// section 4.2). `None` if the packet must be dropped: it met congestion, and its ends do not
/// support ECN.
fn ecn(inner: u8, outer: u8) -> Option<u8> {
    const NOT_CAPABLE: u8 = 0b00;
    const CAPABLE_1: u8 = 0b01;
    const CAPABLE_0: u8 = 0b10;
    const CONGESTED: u8 = 0b11;
    match (inner & ECN, outer & ECN) {
        (NOT_CAPABLE, CONGESTED) => None,
        (NOT_CAPABLE, _) => Some(NOT_CAPABLE),
        (_, CONGESTED) => Some(CONGESTED),
        (CAPABLE_0, CAPABLE_1) => Some(CAPABLE_1),
        (inner, _) => Some(inner),
    }
}

/// Copies congestion marks from the outer header to the inner packet. False if the packet must be
/// dropped.
pub(super) fn take_over_ecn(packet: &mut [u8], outer: u8) -> bool {
    let Some([first, second]) = packet.first_chunk::<2>().copied() else { return false };
    let is_ipv4 = first >> 4 == 4;
    let service = if is_ipv4 { second } else { first << 4 | second >> 4 };
    match ecn(service, outer) {
        None => false,
        Some(ecn) if ecn == service & ECN => true,
        Some(ecn) if is_ipv4 => {
            let Ok((header, _)) = Ipv4Header::mut_from_prefix(packet) else { return false };
            let word = |service: u8| u16::from_be_bytes([first, service]);
            header.service = service & !ECN | ecn;
            let sum = checksum::update(header.checksum.get(), word(service), word(header.service));
            header.checksum.set(sum);
            true
        }
        Some(ecn) => {
            // The traffic class spans the first two bytes; ECN is its low end.
            packet[1] = second & !(ECN << 4) | ecn << 4;
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the table in RFC 6040, figure 4.
    #[test]
    fn congestion_passes_from_outer_to_inner() {
        let expected = [
            [Some(0b00), Some(0b00), Some(0b00), None],
            [Some(0b01), Some(0b01), Some(0b01), Some(0b11)],
            [Some(0b10), Some(0b01), Some(0b10), Some(0b11)],
            [Some(0b11), Some(0b11), Some(0b11), Some(0b11)],
        ];
        for inner in 0..4u8 {
            for outer in 0..4u8 {
                let result = expected[usize::from(inner)][usize::from(outer)];
                assert_eq!(ecn(inner, outer), result, "{inner:02b} {outer:02b}");
                let mut four = wattline_dataplane::testing::frame4(
                    wattline_dataplane::testing::MAC_A,
                    64,
                    b"x",
                )[14..]
                    .to_vec();
                four[1] = 0xb8 | inner;
                let (header, _) = Ipv4Header::mut_from_prefix(&mut four).unwrap();
                header.fill_checksum();
                assert_eq!(take_over_ecn(&mut four, outer), result.is_some());
                let parsed = wattline_packet::ipv4::Ipv4Packet::parse(&four).unwrap();
                assert_eq!(parsed.header.service, 0xb8 | result.unwrap_or(inner));

                let mut six = wattline_dataplane::testing::frame6(
                    wattline_dataplane::testing::MAC_A,
                    64,
                    b"x",
                )[14..]
                    .to_vec();
                six[0] = 0x6b;
                six[1] = 0x85 | inner << 4;
                assert_eq!(take_over_ecn(&mut six, outer), result.is_some());
                assert_eq!(six[..2], [0x6b, 0x85 | result.unwrap_or(inner) << 4]);
            }
        }
        assert!(!take_over_ecn(&mut [0x45], 0));
    }
}
