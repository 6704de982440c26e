//! `ip4-lookup`: where does it go?
//!
//! Looks all destinations of the batch up at once, then fetches the next-hop table
//! (that order matters: [`crate::forwarding`]) and sorts packets by kind of next hop.
//! Of a group, the flow's hash picks the member, so that flows stay in order.
//!
//! - next: `ip4-rewrite`, `neighbour-hold`, `punt`, `icmp4-error` (`no-route`,
//!   `unreachable`, `prohibited`), `drop` (`blackhole`)

use super::lookup::{REWRITE, sort};
use crate::forwarding::HopKind;
use crate::graph::{Context, Edge, Node};
use crate::packet::{Packet, array_at};
use wattline_packet::flow::FlowKey;
use wattline_packet::ipv4::Ipv4Packet;

/// The node.
pub struct Ip4Lookup;

impl Node for Ip4Lookup {
    fn name(&self) -> &'static str {
        "ip4-lookup"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip4-rewrite", "neighbour-hold", "punt", "icmp4-error", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let memory = &*context.pool.bytes();
        let address = |packet: &Packet| destination_of(packet, memory).map_or(0, u32::from);
        let fib4 = &context.routes.fib4;
        fib4.lookup_records(packets, address, |packet| &mut packet.next_hop);
        let table = context.routes.table();
        let hops = table.hops();
        edges.fill(REWRITE);
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let hop = hops.get(usize::from(packet.next_hop.0));
            if hop.is_none_or(|hop| hop.kind != HopKind::Forward) {
                let view = *packet;
                *edge = sort(packet, table, || flow_hash(&view, memory));
            }
        }
    }
}

/// The hash by which a packet chooses among several ways.
pub(super) fn flow_hash(packet: &Packet, memory: &[u8]) -> u32 {
    Ipv4Packet::parse(packet.network_bytes(memory))
        .map_or(0, |packet| FlowKey::of_ipv4(&packet).hash())
}

/// The destination of a packet.
#[inline]
pub(super) fn destination_of(packet: &Packet, memory: &[u8]) -> Option<std::net::Ipv4Addr> {
    array_at::<4>(memory, packet.network_offset() + 16).map(|bytes| (*bytes).into())
}

#[cfg(test)]
mod tests {
    use super::super::lookup::{DROP, ERROR, HOLD, PUNT};
    use super::*;
    use crate::drop_reason::DropReason;
    use crate::next_hop::NextHop;
    use crate::testing::{Bench, MAC_A, frame4 as frame, net};

    fn with_route(next_hop: &NextHop) -> (Edge, Packet) {
        let mut bench = Bench::new();
        bench.routes.route(net("203.0.113.0/24"), next_hop).unwrap();
        bench.routes.publish().unwrap();
        let packet = bench.packet(&frame(MAC_A, 64, b"payload"));
        bench.process(&mut Ip4Lookup, packet)
    }

    #[test]
    fn every_kind_of_next_hop_has_its_edge() {
        use crate::port::PortId;
        let resolve = NextHop::Resolve { port: PortId(1), gateway: None };
        assert_eq!(with_route(&resolve).0, HOLD);
        assert_eq!(with_route(&NextHop::Punt).0, PUNT);
        for (next_hop, edge, reason) in [
            (NextHop::Blackhole, DROP, DropReason::Blackhole),
            (NextHop::Unreachable, ERROR, DropReason::Unreachable),
            (NextHop::Prohibit, ERROR, DropReason::Prohibited),
        ] {
            let (taken, packet) = with_route(&next_hop);
            assert_eq!((taken, packet.reason), (edge, reason));
        }
    }

    #[test]
    fn what_has_no_route_is_reported() {
        let mut bench = Bench::new();
        bench.routes.remove(net("203.0.113.0/24"));
        bench.routes.publish().unwrap();
        let packet = bench.packet(&frame(MAC_A, 64, b"payload"));
        let (edge, packet) = bench.process(&mut Ip4Lookup, packet);
        assert_eq!((edge, packet.reason), (ERROR, DropReason::NoRoute));
    }

    #[test]
    fn a_group_gives_each_flow_one_member() {
        let mut bench = Bench::new();
        let members: Vec<_> =
            (0..2).map(|port| bench.routes.acquire(&Bench::forward(port)).unwrap()).collect();
        bench.routes.route(net("203.0.113.0/24"), &NextHop::Group(members.clone())).unwrap();
        bench.routes.publish().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for flow in 0..32 {
            let bytes = frame(MAC_A, 64, &[0, flow, 0, 53, 0, 8, 0, 0]);
            let mut member = || {
                let packet = bench.packet(&bytes);
                let (edge, packet) = bench.process(&mut Ip4Lookup, packet);
                assert_eq!(edge, REWRITE);
                packet.next_hop
            };
            let first = member();
            assert_eq!(member(), first);
            seen.insert(first);
        }
        assert_eq!(seen, members.into_iter().collect());
    }
}
