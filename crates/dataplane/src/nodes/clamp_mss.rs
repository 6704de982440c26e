//! `clamp-mss4`, `clamp-mss6`: lower the segment size that TCP connections through some ports
//! announce.
//!
//! Behind a link with a smaller MTU, whose router sends no ICMP errors, long segments would be
//! lost. The nodes are in the graph if a port has a limit, between lookup and rewrite. The smaller
//! limit of a packet's two ports applies.
//!
//! - next: the next node at its place

use crate::feature::{Feature, NEXT, Place};
use crate::forwarding::{Hop, Table};
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use wattline_packet::mss::{self, Limit};

/// Node `clamp-mss4` or `clamp-mss6`; see the module.
pub struct ClampMss(&'static str);

impl ClampMss {
    /// Returns the nodes with their place.
    pub fn feature() -> Feature {
        let names = ["clamp-mss4", "clamp-mss6"];
        let nodes = names.map(|name| Box::new(Self(name)) as Box<dyn Node>).into();
        Feature { place: Place::Routed, ipv4: Some(names[0]), ipv6: Some(names[1]), nodes }
    }
}

impl Node for ClampMss {
    fn name(&self) -> &'static str {
        self.0
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        edges.fill(0);
        let table = context.routes.table();
        let memory = context.pool.memory();
        for packet in packets {
            let Some(hop) = table.hops().get(usize::from(packet.next_hop.0)) else { continue };
            if let Some(limit) = limit(table, packet, hop) {
                mss::lower(packet.network_bytes_mut(memory), limit);
            }
        }
    }
}

/// Returns the limit of a packet: the smaller one of its ingress and its egress port.
fn limit(table: &Table, packet: &Packet, hop: &Hop) -> Option<Limit> {
    let of = |port| table.port(port).and_then(|port| port.segments);
    let leaving = of(hop.port).map(|limit| match limit {
        // The route's MTU may be smaller than the link's.
        Limit { mtu: u16::MAX, .. } => limit,
        _ => Limit { mtu: limit.mtu.min(hop.mtu), ..limit },
    });
    match (of(packet.frame.port_in), leaving) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, frame4};

    /// Returns the size in a SYN that announced 1460 bytes, after its way through the node.
    fn announced(via: u16) -> [u8; 2] {
        let mut tcp = [0; 24];
        (tcp[12], tcp[13]) = (0x60, 0x02);
        tcp[20..].copy_from_slice(&[2, 4, 0x05, 0xb4]);
        let mut frame = frame4(MAC_A, 64, &tcp);
        frame[23] = 6;
        let mut bench = Bench::new();
        let packet = bench.packet_via(&frame, &Bench::forward(via));
        let (edge, packet) = bench.process(&mut ClampMss("clamp-mss4"), packet);
        assert_eq!(edge, 0);
        let bytes = bench.bytes(&packet);
        [bytes[56], bytes[57]]
    }

    #[test]
    fn size_is_that_of_the_port_with_a_limit() {
        assert_eq!(announced(1), 1360_u16.to_be_bytes());
        assert_eq!(announced(0), 1460_u16.to_be_bytes(), "neither port has a limit");
    }
}
