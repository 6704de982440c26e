//! Captured traffic through a topology: sends frames at the source and collects frames on both
//! sides of the router.

use crate::Error;
use crate::clock::monotonic_nanos;
use crate::raw::{RawSocket, Received, Sniffer};
use crate::topology::{LEFT, RIGHT, SINK, SOURCE, Station, Topology};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;
use wattline_traffic::capture::{LinkType, Reader};

/// Frames per burst, as from a card with interrupt moderation.
const BURST: usize = 8;
/// Time for frames in flight after the last one.
const DRAIN: Duration = Duration::from_millis(500);

/// Returns the packets of a capture as the source would send them: from its own Ethernet address to
/// the router's. Packets without an Ethernet header get one by their IP version.
///
/// # Errors
/// Fails when the capture cannot be read, or is truncated or damaged.
pub fn load(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = Reader::open(path)?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record()? {
        frames.extend(addressed(record.link_type, record.data));
    }
    Ok(frames)
}

/// Returns the frame for a captured packet; `None` if it is not an IP packet for a router.
fn addressed(link_type: LinkType, data: &[u8]) -> Option<Vec<u8>> {
    let mut frame = [LEFT.mac, SOURCE.mac].concat();
    if link_type == LinkType::ETHERNET {
        frame.extend(data.get(12..)?);
        // The type has two bytes; a shorter frame cannot be sent.
        return (frame.len() >= 14).then_some(frame);
    }
    let packet = data.get(link_type.header_length()?..)?;
    frame.extend(match packet.first()? >> 4 {
        4 => [0x08, 0x00],
        6 => [0x86, 0xdd],
        _ => return None,
    });
    frame.extend(packet);
    Some(frame)
}

/// Returns true if a frame holds a packet that any router forwards: a complete IPv4 or IPv6 packet
/// from and to unicast addresses that may leave their link, with a sufficient time to live.
pub fn is_transit(frame: &[u8]) -> bool {
    let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return false };
    if !packet.link_exts.is_empty() {
        return false;
    }
    match packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let travels = |address: Ipv4Addr| {
                !(address.is_multicast()
                    || address.is_broadcast()
                    || address.is_loopback()
                    || address.octets()[0] == 0
                    || address.octets()[0] >= 240)
            };
            // Replies of DHCP to clients are for programs that read frames.
            let to_dhcp_client = matches!(&packet.transport,
                Some(TransportSlice::Udp(udp)) if udp.destination_port() == 68);
            header.ttl() > 1
                && !to_dhcp_client
                && header.options().is_empty()
                && travels(header.source_addr())
                && travels(header.destination_addr())
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let travels = |address: Ipv6Addr| {
                !(address.is_multicast()
                    || address.is_unspecified()
                    || address.is_loopback()
                    || address.is_unicast_link_local())
            };
            header.hop_limit() > 1
                && travels(header.source_addr())
                && travels(header.destination_addr())
        }
        _ => false,
    }
}

/// Returns the part of a frame that a router does not change: the packet without link header and
/// padding, with time to live and its checksum zeroed.
pub fn fingerprint(frame: &[u8]) -> Vec<u8> {
    let mut packet = frame.get(14..).unwrap_or_default().to_vec();
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            packet.truncate(usize::from(u16::from_be_bytes([packet[2], packet[3]])));
            packet[8] = 0;
            packet[10..12].fill(0);
        }
        Some(6) if packet.len() >= 40 => {
            packet.truncate(40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])));
            packet[7] = 0;
        }
        _ => {}
    }
    packet
}

/// Outcome of frames sent through a router.
#[derive(Debug, Default)]
pub struct Crossing {
    /// Sending time of each frame on [`crate::clock`]; `None` for a frame longer than the link
    /// allows.
    pub sent_nanos: Vec<Option<u64>>,
    /// Frames that the router sent to the sink.
    pub to_sink: Vec<Received>,
    /// Frames that the router sent back to the source: ICMP errors.
    pub to_source: Vec<Received>,
}

impl Crossing {
    /// Returns the nanoseconds from sending to arrival at the sink, of every frame that arrived;
    /// equal frames are matched in order.
    pub fn latencies(&self, frames: &[Vec<u8>]) -> Vec<u64> {
        let mut under_way: HashMap<Vec<u8>, VecDeque<u64>> = HashMap::new();
        for (frame, sent) in frames.iter().zip(&self.sent_nanos) {
            if let Some(nanos) = sent {
                under_way.entry(fingerprint(frame)).or_default().push_back(*nanos);
            }
        }
        self.to_sink
            .iter()
            .filter_map(|arrived| {
                let sent = under_way.get_mut(&fingerprint(&arrived.frame))?.pop_front()?;
                Some(arrived.nanos.saturating_sub(sent))
            })
            .collect()
    }
}

/// Sends frames from the source at `rate_pps` and collects the router's frames on both sides.
/// Neighbours should be static; otherwise their resolution is collected as well.
///
/// # Errors
/// Fails when a packet socket cannot be opened or the source's link fails.
pub fn cross(topology: &Topology, frames: &[Vec<u8>], rate_pps: f64) -> Result<Crossing, Error> {
    let at_sink = Sniffer::start(&topology.sink, SINK.interface, between(RIGHT, SINK))?;
    let at_source = Sniffer::start(&topology.source, SOURCE.interface, between(LEFT, SOURCE))?;
    let sent_nanos = send(topology, frames, rate_pps)?;
    std::thread::sleep(DRAIN);
    Ok(Crossing { sent_nanos, to_sink: at_sink.finish(), to_source: at_source.finish() })
}

/// Sends frames from the source at `rate_pps`; returns the sending time of each on
/// [`crate::clock`], `None` for a frame longer than the link allows.
///
/// # Errors
/// Fails when the packet socket cannot be opened or the source's link fails.
pub fn send(
    topology: &Topology,
    frames: &[Vec<u8>],
    rate_pps: f64,
) -> Result<Vec<Option<u64>>, Error> {
    let socket = RawSocket::open(&topology.source, SOURCE.interface)?;
    let start = monotonic_nanos();
    let mut sent_nanos = Vec::with_capacity(frames.len());
    for (index, frame) in frames.iter().enumerate() {
        if index % BURST == 0 {
            let due = start + (index as f64 / rate_pps * 1e9) as u64;
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_nanos())));
        }
        let now = monotonic_nanos();
        sent_nanos.push(socket.send(frame)?.then_some(now));
    }
    Ok(sent_nanos)
}

/// Returns a filter for frames from one station to another, without multicast (ND, MLD).
fn between(from: Station, to: Station) -> impl Fn(&[u8]) -> bool {
    move |frame| frame.get(..6) == Some(&to.mac) && frame.get(6..12) == Some(&from.mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_keeps_its_content_and_gets_new_addresses() {
        let mut frame = vec![1; 12];
        frame.extend([0x08, 0x06, 9, 9]);
        let sent = addressed(LinkType::ETHERNET, &frame).unwrap();
        assert_eq!(sent[..6], LEFT.mac);
        assert_eq!(sent[6..12], SOURCE.mac);
        assert_eq!(sent[12..], [0x08, 0x06, 9, 9]);
        assert_eq!(addressed(LinkType::ETHERNET, &frame[..13]), None);
    }

    fn udp(ttl: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        etherparse::PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac)
            .ipv4([192, 0, 2, 1], [198, 51, 100, 1], ttl)
            .udp(1, 2)
            .write(&mut frame, b"content")
            .unwrap();
        frame
    }

    #[test]
    fn transit_is_forwarded_by_every_router() {
        assert!(is_transit(&udp(64)));
        assert!(!is_transit(&udp(1)), "expired");
        let mut multicast = udp(64);
        multicast[30] = 224;
        assert!(!is_transit(&multicast));
        assert!(!is_transit(&udp(64)[..30]), "cut");
        assert!(!is_transit(&[0; 60]));
    }

    #[test]
    fn frames_are_recognised_behind_the_router() {
        let sent = udp(64);
        let arrived = |nanos, ttl| Received { nanos, frame: [udp(ttl), vec![0; 9]].concat() };
        let crossing = Crossing {
            sent_nanos: vec![Some(100), Some(200), None],
            to_sink: vec![arrived(150, 63), arrived(290, 63), arrived(999, 63)],
            to_source: vec![],
        };
        assert_eq!(crossing.latencies(&[sent.clone(), sent.clone(), sent]), [50, 90]);
    }

    #[test]
    fn bare_packets_get_a_header_by_their_version() {
        let sent = addressed(LinkType::RAW, &[0x60, 1, 2]).unwrap();
        assert_eq!(sent[12..], [0x86, 0xdd, 0x60, 1, 2]);
        let sent = addressed(LinkType::NULL, &[2, 0, 0, 0, 0x45, 7]).unwrap();
        assert_eq!(sent[12..], [0x08, 0x00, 0x45, 7]);
        assert_eq!(addressed(LinkType::RAW, &[0x15]), None);
        assert_eq!(addressed(LinkType::RAW, &[]), None);
        assert_eq!(addressed(LinkType(999), &[0x45; 40]), None);
    }
}
