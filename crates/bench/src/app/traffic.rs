//! The packets of the workloads.

use crate::memory_router::{Error, LONGEST, MAC_IN, Traffic, udp_template};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use wattline_packet::ipv4::{Ipv4Header, Ipv4Packet};
use wattline_packet::ipv6::Ipv6Header;
use wattline_packet::{FromBytes, IntoBytes, protocol};
use wattline_testbed::replay;

/// Size of the pool from which payloads are cut; it is random, so it holds no repetition.
const PAYLOADS: usize = 1 << 20;
/// Offset of the payload in the frame of a UDP packet.
const PAYLOAD: usize = 14 + 20 + 8;
/// Repetitions of the list of lengths before it is shuffled once.
const SHUFFLED: usize = 300;

/// Prefixes of all source addresses, and of no destination: 10.0.0.0/8 and fd00::/8.
pub(super) const OWN4: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8));
pub(super) const OWN6: IpNet =
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 8));

/// UDP packets of many flows: one packet of each flow, then packets of random flows.
pub(super) struct FlowTraffic {
    flows: usize,
    template: Vec<u8>,
    lengths: Vec<usize>,
    payloads: Vec<u8>,
    random: SmallRng,
    next: usize,
}

impl FlowTraffic {
    /// Creates packets of `flows` flows with these lengths (without FCS, 60 to [`LONGEST`]).
    pub fn new(flows: usize, lengths: &[usize]) -> Self {
        let mut random = SmallRng::seed_from_u64(1);
        let mut lengths = lengths.repeat(SHUFFLED);
        for last in (1..lengths.len()).rev() {
            lengths.swap(last, random.random_range(0..=last));
        }
        let mut payloads = vec![0; PAYLOADS];
        random.fill(&mut payloads[..]);
        Self { flows, template: udp_template(LONGEST), lengths, payloads, random, next: 0 }
    }
}

impl Traffic for FlowTraffic {
    fn write(&mut self, chunk: &mut [u8]) -> usize {
        let length = self.lengths[self.next % self.lengths.len()];
        let flow = match self.next {
            next if next < self.flows => next,
            _ => self.random.random_range(0..self.flows),
        };
        self.next += 1;
        let scattered = (flow as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Each flow has its own source in 10.0.0.0/8; destinations are 16.0.0.0 to 111.255.255.255.
        let source = 0x0a00_0000 | flow as u32;
        let destination =
            (16 + (scattered >> 56) as u32 % 96) << 24 | (scattered >> 32) as u32 & 0xff_ffff;
        let bytes = &mut chunk[..length];
        bytes[..PAYLOAD].copy_from_slice(&self.template[..PAYLOAD]);
        bytes[14..34]
            .copy_from_slice(Ipv4Header::udp((length - 14) as u16, source, destination).as_bytes());
        bytes[34..36].copy_from_slice(&(1024 + (scattered >> 16) as u16 % 60_000).to_be_bytes());
        bytes[38..40].copy_from_slice(&((length - 34) as u16).to_be_bytes());
        let from = self.random.random_range(0..PAYLOADS - LONGEST);
        bytes[PAYLOAD..].copy_from_slice(&self.payloads[from..][..length - PAYLOAD]);
        length
    }
}

/// The forwardable packets of a capture in an endless loop. All go in one direction: the first byte
/// of an address is changed where necessary.
#[derive(Clone)]
pub(super) struct Replay {
    frames: Arc<[Vec<u8>]>,
    next: usize,
}

impl Replay {
    /// Reads the packets of a capture.
    ///
    /// # Errors
    /// Fails when the capture cannot be read or holds no forwardable packet.
    pub fn load(file: &Path) -> Result<Self, Error> {
        let mut frames = replay::load(file).map_err(|error| Error::Capture(error.to_string()))?;
        frames
            .retain(|frame| frame.len() <= LONGEST && replay::is_transit(frame) && is_sound(frame));
        if frames.is_empty() {
            let file = file.display();
            return Err(Error::Capture(format!("{file}: no packet that a router forwards")));
        }
        for frame in &mut frames {
            frame[..6].copy_from_slice(&MAC_IN);
            one_way(&mut frame[14..]);
        }
        Ok(Self { frames: frames.into(), next: 0 })
    }

    /// Number of packets, at least one.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
}

/// Returns true if a router would forward the frame. Captures hold wrong checksums where the
/// sending card was to fill them in; hop-by-hop options go to the kernel.
fn is_sound(frame: &[u8]) -> bool {
    let packet = &frame[14..];
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4Packet::parse(packet).is_ok(),
        _ => packet.get(6).is_some_and(|next| *next != protocol::HOP_BY_HOP),
    }
}

/// Rewrites the addresses so that the packet comes from [`OWN4`] or [`OWN6`] and goes elsewhere.
fn one_way(packet: &mut [u8]) {
    if let Ok((header, _)) = Ipv4Header::mut_from_prefix(packet)
        && header.version() == 4
    {
        header.source = (0x0a00_0000 | header.source.get() & 0xff_ffff).into();
        if header.destination.get() >> 24 == 10 {
            header.destination = (header.destination.get() | 0x0100_0000).into();
        }
        header.fill_checksum();
    } else if let Ok((header, _)) = Ipv6Header::mut_from_prefix(packet) {
        header.source[0] = 0xfd;
        if header.destination[0] == 0xfd {
            header.destination[0] = 0x20;
        }
    }
}

impl Traffic for Replay {
    fn write(&mut self, chunk: &mut [u8]) -> usize {
        let frame = &self.frames[self.next % self.frames.len()];
        self.next += 1;
        chunk[..frame.len()].copy_from_slice(frame);
        frame.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn packets_of_captures_have_one_direction() {
        for (source, destination) in [(0x0a01_0203, 0xc000_0201), (0xc000_0201, 0x0a01_0203)] {
            let mut packet = Ipv4Header::udp(20, source, destination).as_bytes().to_vec();
            one_way(&mut packet);
            let packet = Ipv4Packet::parse(&packet).unwrap();
            assert_eq!(packet.header.source.get() >> 24, 10);
            assert_ne!(packet.header.destination.get() >> 24, 10);
        }
        let mut packet = [0x60; 40];
        packet[24] = 0xfd;
        one_way(&mut packet);
        assert_eq!((packet[8], packet[24]), (0xfd, 0x20));
    }

    #[test]
    fn every_flow_occurs_once_before_any_repeats() {
        let mut traffic = FlowTraffic::new(500, &[60]);
        let mut chunk = [0; LONGEST];
        let mut seen = HashSet::new();
        for _ in 0..500 {
            let length = traffic.write(&mut chunk);
            let packet = etherparse::SlicedPacket::from_ethernet(&chunk[..length]).unwrap();
            assert!(packet.transport.is_some());
            seen.insert(chunk[23..38].to_vec());
        }
        assert_eq!(seen.len(), 500);
        traffic.write(&mut chunk);
        assert!(seen.contains(&chunk[23..38]), "no flow beyond those");
    }
}
