//! Flow hash of a captured packet.

use crate::capture::LinkType;
use wattline_packet::protocol;
use wattline_packet::toeplitz::Toeplitz;

/// Returns the RSS hash of a packet over its addresses and, if present, ports; over the first bytes
/// if it is not IP.
///
/// Unlike the router's own parser, this accepts truncated and damaged packets, since a capture of
/// headers has flows as well.
pub(crate) fn flow_hash(rss: &Toeplitz, link_type: LinkType, data: &[u8]) -> u32 {
    network_header(link_type, data)
        .and_then(|packet| five_tuple(rss, packet))
        .unwrap_or_else(|| rss.hash(&data[..data.len().min(14)]))
}

fn network_header(link_type: LinkType, data: &[u8]) -> Option<&[u8]> {
    let mut rest = data.get(link_type.header_length()?..)?;
    if link_type == LinkType::ETHERNET {
        let mut kind = data.get(12..14)?;
        // VLAN tags, one inside the other at most.
        for _ in 0..2 {
            if kind == [0x81, 0x00] || kind == [0x88, 0xa8] {
                kind = rest.get(2..4)?;
                rest = rest.get(4..)?;
            }
        }
    }
    Some(rest)
}

fn five_tuple(rss: &Toeplitz, packet: &[u8]) -> Option<u32> {
    let (addresses, kind, ports_at) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0x0f) * 4;
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0;
            (packet.get(12..20)?, packet[9], (!fragment).then_some(header))
        }
        6 => (packet.get(8..40)?, packet[6], Some(40)),
        _ => return None,
    };
    let has_ports = matches!(kind, protocol::TCP | protocol::UDP | protocol::SCTP);
    let ports = ports_at.filter(|_| has_ports).and_then(|at| packet.get(at..at + 4));
    let mut input = [0; 36];
    let length = addresses.len() + ports.map_or(0, <[u8]>::len);
    input[..addresses.len()].copy_from_slice(addresses);
    input[addresses.len()..length].copy_from_slice(ports.unwrap_or_default());
    Some(rss.hash(&input[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vector of Microsoft's verification suite: 66.9.149.187:2794 to 161.142.100.80:1766.
    #[test]
    fn tcp_packet_hashes_as_on_a_card() {
        let mut frame = vec![0; 14];
        frame[12] = 8;
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend([66, 9, 149, 187, 161, 142, 100, 80]);
        frame.extend(2794u16.to_be_bytes());
        frame.extend(1766u16.to_be_bytes());
        let rss = Toeplitz::default();
        assert_eq!(flow_hash(&rss, LinkType::ETHERNET, &frame), 0x51cc_c178);
        assert_eq!(flow_hash(&rss, LinkType::RAW, &frame[14..]), 0x51cc_c178);

        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(flow_hash(&rss, LinkType::ETHERNET, &tagged), 0x51cc_c178);

        // Without ports (a first fragment, or cut by a snap length), only the addresses count.
        frame[14 + 6] = 0x20;
        assert_eq!(flow_hash(&rss, LinkType::ETHERNET, &frame), 0x323e_8fc2);
        frame[14 + 6] = 0;
        frame.truncate(14 + 22);
        assert_eq!(flow_hash(&rss, LinkType::ETHERNET, &frame), 0x323e_8fc2);
    }

    #[test]
    fn any_bytes_can_be_hashed() {
        bolero::check!().with_iterations(5_000).for_each(|data: &[u8]| {
            for link_type in [LinkType::NULL, LinkType::ETHERNET, LinkType::RAW, LinkType(147)] {
                flow_hash(&Toeplitz::default(), link_type, data);
            }
        });
    }
}
