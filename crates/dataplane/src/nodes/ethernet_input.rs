//! `ethernet-input`: checks the destination MAC address and the EtherType.
//!
//! IP frames for the port's own MAC address are routed; on a promiscuous port, those for any single
//! station are. Tagged frames are routed if their VLAN is routed on that port. Group addresses,
//! ARP, other protocols and other VLANs go to the kernel. The node completes checksums that
//! senders left unfinished at virtual interfaces.
//!
//! - next: `ip4-input`, `ip6-input`, `punt`, `drop` (`truncated`, `other-station`)

use crate::drop_reason::DropReason;
use crate::forwarding::{PortConfig, Table};
use crate::frame::ChunkMemory;
use crate::graph::{Context, Edge, Node};
use crate::packet::{Packet, field};
use crate::port::PortId;
use wattline_packet::{ethernet, unfinished};

const IP4: Edge = 0;
const IP6: Edge = 1;
const PUNT: Edge = 2;
const DROP: Edge = 3;

/// Bit in the first byte of a MAC address that marks a group address.
const GROUP: u8 = 1;

/// Mask of the destination address within the first eight bytes of a frame.
const ADDRESS: u64 = u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

/// Frames that a port accepts: those whose first eight bytes equal `own` in the bits set in `mask`.
struct Station {
    own: u64,
    mask: u64,
}

impl Station {
    fn new(table: &Table, port: PortId) -> Self {
        match table.port(port) {
            // Any single station, but no group.
            Some(port) if port.promiscuous => Self { own: 0, mask: u64::from(GROUP) },
            Some(PortConfig { mac: [a, b, c, d, e, f], .. }) => {
                Self { own: u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]), mask: ADDRESS }
            }
            None => Self { own: 0, mask: ADDRESS },
        }
    }

    #[inline]
    fn takes(&self, header: &[u8; 14]) -> bool {
        (u64::from_le_bytes(field::<0, 8, _>(header)) ^ self.own) & self.mask == 0
    }
}

/// Node `ethernet-input`; see the module.
pub struct EthernetInput;

impl Node for EthernetInput {
    fn name(&self) -> &'static str {
        "ethernet-input"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip4-input", "ip6-input", "punt", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let table = context.routes.table();
        let memory = &*context.pool.memory();
        // All frames of a batch usually come from one port.
        let mut port_in = packets.first().map_or(PortId(0), |packet| packet.frame.port_in);
        let mut station = Station::new(table, port_in);
        for (packet, edge) in packets.iter_mut().zip(&mut *edges) {
            if packet.frame.port_in != port_in {
                port_in = packet.frame.port_in;
                station = Station::new(table, port_in);
            }
            let Some(header) = memory.array::<14>(packet.frame.offset as usize) else {
                packet.reason = DropReason::Truncated;
                *edge = DROP;
                continue;
            };
            // Frames that are too short for these headers fail the length check of the next node.
            let is_accepted = station.takes(header);
            let kind = field::<12, 2, _>(header);
            if is_accepted && kind == ethernet::IPV4.to_be_bytes() {
                continue;
            }
            *edge = if is_accepted && kind == ethernet::IPV6.to_be_bytes() {
                IP6
            } else {
                let group = header[0] & GROUP != 0;
                slow(packet, memory, table, is_accepted, group, u16::from_be_bytes(kind))
            };
        }
        let memory = context.pool.memory();
        for (packet, edge) in packets.iter().zip(edges) {
            let is_ip = *edge == IP4 || *edge == IP6;
            if is_ip && table.port(packet.frame.port_in).is_some_and(|port| port.is_virtual) {
                unfinished::finish(packet.network_bytes_mut(memory));
            }
        }
    }
}

#[cold]
fn slow(
    packet: &mut Packet,
    memory: &ChunkMemory,
    table: &Table,
    is_accepted: bool,
    group: bool,
    kind: u16,
) -> Edge {
    if usize::from(packet.frame.length) < ethernet::HEADER {
        packet.reason = DropReason::Truncated;
        return DROP;
    }
    if !is_accepted && !group {
        packet.reason = DropReason::OtherStation;
        return DROP;
    }
    if !is_accepted || kind != ethernet::VLAN {
        return PUNT;
    }
    let frame = packet.frame;
    let tag = memory.array::<4>(frame.offset as usize + ethernet::HEADER);
    let (Some([control_high, control_low, high, low]), true) = (tag, frame.length >= 18) else {
        packet.reason = DropReason::Truncated;
        return DROP;
    };
    let vlan = u16::from_be_bytes([*control_high, *control_low]) & 0x0fff;
    let known = |id| {
        table.port(frame.port_in).is_some_and(|port| port.vlans.iter().any(|known| known.id == id))
    };
    let edge = match u16::from_be_bytes([*high, *low]) {
        ethernet::IPV4 => IP4,
        ethernet::IPV6 => IP6,
        _ => return PUNT,
    };
    if vlan == 0 || !known(vlan) {
        return PUNT;
    }
    packet.skip_tag(vlan);
    edge
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Ip4Input, Ip6Input};
    use crate::testing::{Bench, MAC_A, frame4, frame4_vlan, frame6};

    fn edge_of(bytes: &[u8]) -> (Edge, Packet) {
        let mut bench = Bench::new();
        let packet = bench.packet(bytes);
        bench.process(&mut EthernetInput, packet)
    }

    #[test]
    fn ip_for_us_is_routed() {
        assert_eq!(edge_of(&frame4(MAC_A, 64, &[])).0, IP4);
        assert_eq!(edge_of(&frame6(MAC_A, 64, &[])).0, IP6);
    }

    #[test]
    fn groups_and_other_protocols_are_left_to_the_kernel() {
        assert_eq!(edge_of(&frame4([0xff; 6], 64, &[])).0, PUNT);
        assert_eq!(edge_of(&frame6([0x33, 0x33, 0, 0, 0, 1], 64, &[])).0, PUNT);
        let mut arp = frame4(MAC_A, 64, &[]);
        arp[12..14].copy_from_slice(&ethernet::ARP.to_be_bytes());
        assert_eq!(edge_of(&arp).0, PUNT);
    }

    #[test]
    fn other_stations_frames_are_dropped() {
        let (edge, packet) = edge_of(&frame4([2, 9, 9, 9, 9, 9], 64, &[]));
        assert_eq!((edge, packet.reason), (DROP, DropReason::OtherStation));
        let mut bench = Bench::new();
        bench.promiscuous();
        let packet = bench.packet(&frame4([2, 9, 9, 9, 9, 9], 64, &[]));
        assert_eq!(bench.process(&mut EthernetInput, packet).0, IP4);
    }

    #[test]
    fn vlans_are_routed_where_configured() {
        let (edge, packet) = edge_of(&frame4_vlan(MAC_A, 7));
        let received = packet.received();
        assert_eq!((edge, packet.vlan_in), (IP4, 7));
        assert_eq!(packet.frame.offset, received.offset + 4);
        assert_eq!(usize::from(received.length), frame4_vlan(MAC_A, 7).len());
        assert_eq!(edge_of(&frame4_vlan(MAC_A, 8)).0, PUNT);
        assert_eq!(edge_of(&frame4_vlan(MAC_A, 0)).0, PUNT);
    }

    #[test]
    fn short_frames_are_truncated() {
        for length in [0, 1, 13] {
            // Remains of an earlier frame in the chunk must not count.
            for mut stale in [frame4(MAC_A, 64, &[]), frame4([0xff; 6], 64, &[])] {
                for kind in [ethernet::IPV4, ethernet::IPV6, ethernet::ARP] {
                    stale[12..14].copy_from_slice(&kind.to_be_bytes());
                    let mut bench = Bench::new();
                    let mut packet = bench.packet(&stale);
                    packet.frame.length = length;
                    let (mut edge, mut packet) = bench.process(&mut EthernetInput, packet);
                    if edge == IP4 {
                        (edge, packet) = bench.process(&mut Ip4Input, packet);
                        assert_eq!(edge, 2);
                    } else if edge == IP6 {
                        (edge, packet) = bench.process(&mut Ip6Input, packet);
                        assert_eq!(edge, 2);
                    } else {
                        assert_eq!(edge, DROP);
                    }
                    assert_eq!(packet.reason, DropReason::Truncated);
                }
            }
        }
        assert_eq!(edge_of(&frame4_vlan(MAC_A, 7)[..17]).0, DROP);
    }
}
