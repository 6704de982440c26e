//! The hash of receive-side scaling, computed from a frame as a card does.

use std::net::IpAddr;
use wattline_packet::ethernet;
use wattline_packet::flow::FlowKey;
use wattline_packet::ipv4::Ipv4Packet;
use wattline_packet::toeplitz::Toeplitz;

/// Returns the Toeplitz hash of an Ethernet frame: over addresses and, if every packet of the flow
/// contains them, ports. Zero for malformed frames and other protocols than IPv4 and IPv6.
pub fn hash(toeplitz: &Toeplitz, frame: &[u8]) -> u32 {
    let Some((kind, packet)) =
        frame.get(ethernet::HEADER - 2..).and_then(<[u8]>::split_first_chunk::<2>)
    else {
        return 0;
    };
    let key = match u16::from_be_bytes(*kind) {
        ethernet::IPV4 => Ipv4Packet::parse(packet).ok().map(|packet| FlowKey::of_ipv4(&packet)),
        ethernet::IPV6 => FlowKey::of_ipv6(packet),
        _ => None,
    };
    key.map_or(0, |key| flow_hash(toeplitz, &key))
}

/// Returns the hash of a flow.
pub fn flow_hash(toeplitz: &Toeplitz, key: &FlowKey) -> u32 {
    match (key.source, key.destination, key.ports) {
        (IpAddr::V4(source), IpAddr::V4(destination), Some((from, to))) => {
            toeplitz.ipv4_ports((source, from), (destination, to))
        }
        (IpAddr::V4(source), IpAddr::V4(destination), None) => toeplitz.ipv4(source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination), Some((from, to))) => {
            toeplitz.ipv6_ports((source, from), (destination, to))
        }
        (IpAddr::V6(source), IpAddr::V6(destination), None) => toeplitz.ipv6(source, destination),
        // Both addresses of a packet have the same family.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns Microsoft's first vector, in a frame: 66.9.149.187:2794 to 161.142.100.80:1766.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12] = 8;
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([66, 9, 149, 187, 161, 142, 100, 80]);
        let sum = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum = sum.sum::<u32>();
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(2794u16.to_be_bytes());
        packet.extend(1766u16.to_be_bytes());
        packet.extend([0, 8, 0, 0]);
        frame.extend(packet);
        frame
    }

    #[test]
    fn a_frame_hashes_as_the_published_vector() {
        assert_eq!(hash(&Toeplitz::default(), &frame()), 0x51cc_c178);
    }

    #[test]
    fn truncated_and_foreign_frames_hash_to_zero() {
        let frame = frame();
        for length in 0..frame.len() {
            hash(&Toeplitz::default(), &frame[..length]);
        }
        assert_eq!(hash(&Toeplitz::default(), &frame[..20]), 0);
        assert_eq!(hash(&Toeplitz::default(), &[0xff; 64]), 0);
    }
}
