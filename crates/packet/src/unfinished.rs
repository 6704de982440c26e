//! Checksums that a sender left to hardware which a virtual interface does not have.
//!
//! Linux writes the sum of the pseudo header into the field of TCP and UDP, and 0 into that of
//! SCTP, and a card adds the rest. A veth passes such packets on unchanged. XDP programs recognise
//! them in the same way (`crates/xdp/bpf/classify.h`).

use crate::checksum::Sum;
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::protocol::{SCTP, TCP, UDP};
use zerocopy::FromBytes;

/// Polynomial of CRC32c (RFC 9260, appendix A), reflected.
const CRC32C: u32 = 0x82f6_3b78;

/// Completes the checksum of an IP packet, if it is unfinished. A right checksum is kept. Packets
/// with IPv4 options or IPv6 extension headers, and fragments, are ignored.
pub fn finish(packet: &mut [u8]) {
    let Some((header, protocol, pseudo, end)) = pseudo_header(packet) else { return };
    let Some(payload) = packet.get_mut(header..end) else { return };
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        SCTP => return finish_sctp(payload),
        _ => return,
    };
    let Some(field) = payload.get(at..).and_then(|rest| rest.first_chunk::<2>()) else { return };
    // An unfinished field holds the sum itself, not its complement.
    if u16::from_be_bytes(*field) != !pseudo.checksum() {
        return;
    }
    let checksum = pseudo_of(pseudo, payload, at).checksum();
    // 0 means no checksum for UDP (RFC 768).
    let checksum = if protocol == UDP && checksum == 0 { 0xffff } else { checksum };
    payload[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Adds a payload, without the checksum at `at`, to the sum of its pseudo header.
fn pseudo_of(pseudo: Sum, payload: &[u8], at: usize) -> Sum {
    pseudo.bytes(&payload[..at]).bytes(&payload[at + 2..])
}

/// Returns the length of the IP header, the protocol, the sum of the pseudo header and the end of
/// the packet.
fn pseudo_header(packet: &[u8]) -> Option<(usize, u8, Sum, usize)> {
    let sum = |addresses: &[u8], protocol: u8, length: usize| {
        Sum::new().bytes(addresses).word(protocol.into()).word(length as u32)
    };
    match packet.first()? >> 4 {
        4 => {
            let (header, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
            let is_fragment = header.fragment.get() & 0x3fff != 0;
            if header.header_length() != ipv4::HEADER || is_fragment {
                return None;
            }
            let end = usize::from(header.total_length.get());
            let length = end.checked_sub(ipv4::HEADER)?;
            let sum = sum(packet.get(12..20)?, header.protocol, length);
            Some((ipv4::HEADER, header.protocol, sum, end))
        }
        6 => {
            let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
            let end = header.total_length();
            let sum = sum(packet.get(8..40)?, header.next_header, end.checked_sub(ipv6::HEADER)?);
            Some((ipv6::HEADER, header.next_header, sum, end))
        }
        _ => None,
    }
}

fn finish_sctp(payload: &mut [u8]) {
    if payload.get(8..12) != Some(&[0; 4]) {
        return;
    }
    let crc = payload.iter().fold(!0_u32, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (CRC32C & (crc & 1).wrapping_neg()))
    });
    payload[8..12].copy_from_slice(&(!crc).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const PAYLOADS: [&[u8]; 4] = [b"", b"x", b"odd", b"an even payload."];

    fn tcp_and_udp(payload: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let v4 = || PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64);
        let v6 = || PacketBuilder::ipv6([0x20; 16], [0x26; 16], 64);
        let mut packets =
            vec![(36, Vec::new()), (26, Vec::new()), (56, Vec::new()), (46, Vec::new())];
        v4().tcp(1, 2, 3, 4).write(&mut packets[0].1, payload).unwrap();
        v4().udp(1, 2).write(&mut packets[1].1, payload).unwrap();
        v6().tcp(1, 2, 3, 4).write(&mut packets[2].1, payload).unwrap();
        v6().udp(1, 2).write(&mut packets[3].1, payload).unwrap();
        packets
    }

    #[test]
    fn checksum_left_to_hardware_is_finished_and_others_stay() {
        for payload in PAYLOADS {
            for (at, right) in tcp_and_udp(payload) {
                let mut packet = right.clone();
                finish(&mut packet);
                assert_eq!(packet, right, "a right checksum");
                let (_, _, pseudo, _) = pseudo_header(&packet).unwrap();
                packet[at..at + 2].copy_from_slice(&(!pseudo.checksum()).to_be_bytes());
                // Padding of a short frame.
                packet.extend([0xaa; 6]);
                finish(&mut packet);
                assert_eq!(packet[..right.len()], right, "an unfinished one");
                let mut wrong = right.clone();
                wrong[at] ^= 1;
                let before = wrong.clone();
                finish(&mut wrong);
                assert_eq!(wrong, before, "a wrong one");
            }
        }
    }

    #[test]
    fn sctp_gets_its_crc() {
        // From RFC 3720, appendix B.4: 32 bytes of zeros.
        let mut payload = [0; 32];
        finish_sctp(&mut payload);
        assert_eq!(payload[8..12], 0x8a91_36aa_u32.to_le_bytes());
        let before = payload;
        finish_sctp(&mut payload);
        assert_eq!(payload, before);
    }

    #[test]
    fn any_bytes_are_survived() {
        for length in 0..80 {
            for version in [0x45, 0x46, 0x60, 0x00] {
                let mut packet = vec![0xff; length];
                packet.iter_mut().take(1).for_each(|first| *first = version);
                finish(&mut packet);
            }
        }
    }
}
