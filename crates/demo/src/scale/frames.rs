//! Real frames for the packets of a source.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use wattline_packet::ipv4::Ipv4Header;
use wattline_packet::toeplitz::Toeplitz;
use wattline_packet::{IntoBytes, ethernet};
use wattline_scale::FCS_BYTES;
use wattline_testbed::probe::payload::{self, Payload};
use wattline_traffic::Packet;

const IP: usize = ethernet::HEADER;
const UDP: usize = IP + 20;
/// Offset of the payload in a frame.
pub(super) const PAYLOAD: usize = UDP + 8;
/// Length of the shortest frame without FCS.
const SHORTEST: usize = 60;
/// Port of the discard service (RFC 2544).
const DESTINATION_PORT: u16 = 9;
/// First source port to try; lower ones belong to services.
const FIRST_SOURCE_PORT: u16 = 1024;

/// Returns the Ethernet address of a port of the router.
pub(super) fn port_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

/// Returns the Ethernet address of the station at a port.
pub(super) fn station_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

/// Returns the prefix behind a port, in the block for benchmarks (RFC 2544): 198.18.PORT.0/24.
pub(super) fn behind(port: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, port as u8, 0)
}

/// Makes frames. Each flow of the source becomes a UDP flow on the same entry of the indirection
/// table, so that the load is distributed over the cores as in the simulator.
pub(super) struct Frames {
    flows: HashMap<(u32, u8), Flow>,
    toeplitz: Toeplitz,
    ports: usize,
    /// Entries of the indirection table minus one.
    mask: u32,
    frame: Vec<u8>,
}

struct Flow {
    number: u16,
    sequence: u64,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    source_port: u16,
}

impl Frames {
    pub fn new(ports: usize, table_entries: usize) -> Self {
        Self {
            flows: HashMap::new(),
            toeplitz: Toeplitz::default(),
            ports,
            mask: (table_entries as u32).wrapping_sub(1),
            frame: Vec::new(),
        }
    }

    /// Returns the frame of a packet and its ingress port; `None` for a flow beyond the first
    /// 65,536, since it would need the number of another flow.
    pub fn next(&mut self, packet: &Packet) -> Option<(usize, &[u8])> {
        let port = usize::from(packet.port) % self.ports;
        let count = self.flows.len();
        let flow = match self.flows.entry((packet.flow, port as u8)) {
            std::collections::hash_map::Entry::Occupied(flow) => flow.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let number = u16::try_from(count).ok()?;
                let wanted = packet.flow & self.mask;
                place.insert(Flow::find(
                    &self.toeplitz,
                    number,
                    port,
                    self.ports,
                    wanted,
                    self.mask,
                ))
            }
        };
        let length = usize::from(packet.length.saturating_sub(FCS_BYTES)).max(SHORTEST);
        flow.write(port, length, packet.picos / 1_000, &mut self.frame);
        Some((port, &self.frame))
    }
}

impl Flow {
    /// Finds a flow through the router whose hash has these low bits.
    fn find(
        toeplitz: &Toeplitz,
        number: u16,
        port: usize,
        ports: usize,
        wanted: u32,
        mask: u32,
    ) -> Self {
        let [high, low] = number.to_be_bytes();
        let source = Ipv4Addr::new(10, port as u8, high, low);
        let destination = Ipv4Addr::from(u32::from(behind((port + 1) % ports)) | 1);
        let hash =
            |from: u16| toeplitz.ipv4_ports((source, from), (destination, DESTINATION_PORT)) & mask;
        // One in `mask + 1` ports fits; 64,511 ports are enough for tables of up to about 2^12
        // entries.
        let source_port = (FIRST_SOURCE_PORT..=u16::MAX)
            .find(|from| hash(*from) == wanted)
            .unwrap_or(FIRST_SOURCE_PORT);
        Self { number, sequence: 0, source, destination, source_port }
    }

    fn write(&mut self, port: usize, length: usize, nanos: u64, frame: &mut Vec<u8>) {
        frame.clear();
        frame.resize(length, 0);
        frame[..6].copy_from_slice(&port_mac(port));
        frame[6..12].copy_from_slice(&station_mac(port));
        frame[12..IP].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        let header =
            Ipv4Header::udp((length - IP) as u16, self.source.into(), self.destination.into());
        frame[IP..UDP].copy_from_slice(header.as_bytes());
        frame[UDP..UDP + 2].copy_from_slice(&self.source_port.to_be_bytes());
        frame[UDP + 2..UDP + 4].copy_from_slice(&DESTINATION_PORT.to_be_bytes());
        // No checksum, which IPv4 allows (RFC 768).
        frame[UDP + 4..UDP + 6].copy_from_slice(&((length - UDP) as u16).to_be_bytes());
        let payload = Payload { flow: self.number, sequence: self.sequence, nanos };
        payload.emit(&mut frame[PAYLOAD..PAYLOAD + payload::LENGTH]);
        self.sequence += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_scale::rss;

    #[test]
    fn frames_keep_the_table_entry_and_number_their_flow() {
        let mut frames = Frames::new(4, 128);
        for round in 0..3u64 {
            for flow in 0..512u32 {
                let packet = Packet {
                    picos: round * 1_000_000,
                    flow: flow.wrapping_mul(0x9e37_79b9),
                    length: 64 + flow as u16,
                    port: (flow % 4) as u8,
                };
                let (port, frame) = frames.next(&packet).unwrap();
                assert_eq!((port, frame.len()), ((flow % 4) as usize, 60 + flow as usize));
                assert_eq!(rss::hash(&Toeplitz::default(), frame) & 127, packet.flow & 127);
                let payload = Payload::parse(&frame[PAYLOAD..]).unwrap();
                assert_eq!((payload.sequence, payload.nanos), (round, round * 1_000));
                assert_eq!(u32::from(payload.flow), flow);
            }
        }
    }
}
