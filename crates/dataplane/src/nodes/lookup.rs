//! Treatment of a next hop, shared by both lookup nodes.

use crate::drop_reason::DropReason;
use crate::flow_hash::FlowHash;
use crate::forwarding::{HopKind, Table};
use crate::graph::Edge;
use crate::packet::Packet;

pub(super) const REWRITE: Edge = 0;
pub(super) const HOLD: Edge = 1;
pub(super) const PUNT: Edge = 2;
pub(super) const ERROR: Edge = 3;
pub(super) const DROP: Edge = 4;

/// Returns the edge of a packet whose next hop is not [`HopKind::Forward`]. `flow_hash` picks the
/// member of a group, so that the packets of a flow stay in order.
#[cold]
pub(super) fn sort(
    packet: &mut Packet,
    table: &Table,
    flow_hash: impl FnOnce(&FlowHash) -> u32,
) -> Edge {
    let hop = table.hop(packet.next_hop);
    if hop.kind == HopKind::Group {
        packet.next_hop = table.member(hop, flow_hash(table.flow_hash()));
    }
    let (edge, reason) = match table.hop(packet.next_hop).kind {
        HopKind::Forward => return REWRITE,
        HopKind::Resolve => return HOLD,
        HopKind::Punt => return PUNT,
        HopKind::Blackhole => (DROP, DropReason::Blackhole),
        HopKind::Unreachable => (ERROR, DropReason::Unreachable),
        HopKind::Prohibit => (ERROR, DropReason::Prohibited),
        // A group is never a member of a group.
        HopKind::None | HopKind::Group => (ERROR, DropReason::NoRoute),
    };
    packet.reason = reason;
    edge
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::next_hop::NextHop;
    use crate::nodes::{Ip4Lookup, Ip6Lookup};
    use crate::port::PortId;
    use crate::testing::{Bench, MAC_A, frame4, frame6, net};
    use std::collections::BTreeSet;

    /// Returns both nodes, each with a frame of this payload and the prefix that contains its
    /// destination.
    fn both(payload: &[u8]) -> [(Box<dyn Node>, Vec<u8>, &'static str); 2] {
        [
            (Box::new(Ip4Lookup), frame4(MAC_A, 64, payload), "203.0.113.0/24"),
            (Box::new(Ip6Lookup), frame6(MAC_A, 64, payload), "2001:db8:3::/48"),
        ]
    }

    #[test]
    fn every_kind_of_next_hop_has_its_edge() {
        // The value before any node sets it.
        let none = DropReason::Truncated;
        for (next_hop, edge, reason) in [
            (
                NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None },
                HOLD,
                none,
            ),
            (NextHop::Punt, PUNT, none),
            (NextHop::Blackhole, DROP, DropReason::Blackhole),
            (NextHop::Unreachable, ERROR, DropReason::Unreachable),
            (NextHop::Prohibit, ERROR, DropReason::Prohibited),
        ] {
            for (mut node, frame, prefix) in both(b"payload") {
                let mut bench = Bench::new();
                bench.routes.route(net(prefix), &next_hop).unwrap();
                bench.routes.publish().unwrap();
                let packet = bench.packet(&frame);
                let (taken, packet) = bench.process(node.as_mut(), packet);
                assert_eq!((taken, packet.reason), (edge, reason), "{prefix} {next_hop:?}");
            }
        }
    }

    #[test]
    fn packet_without_route_is_reported() {
        for (mut node, frame, prefix) in both(b"payload") {
            let mut bench = Bench::new();
            bench.routes.remove(net(prefix));
            bench.routes.publish().unwrap();
            let packet = bench.packet(&frame);
            let (edge, packet) = bench.process(node.as_mut(), packet);
            assert_eq!((edge, packet.reason), (ERROR, DropReason::NoRoute), "{prefix}");
        }
    }

    #[test]
    fn a_group_gives_each_flow_one_member() {
        let mut bench = Bench::new();
        let members: Vec<_> =
            (0..2).map(|port| (bench.routes.acquire(&Bench::forward(port)).unwrap(), 1)).collect();
        let mut seen = [BTreeSet::new(), BTreeSet::new()];
        for (_, _, prefix) in both(&[]) {
            bench.routes.route(net(prefix), &NextHop::Group(members.clone())).unwrap();
        }
        bench.routes.publish().unwrap();
        for flow in 0..32 {
            let families = both(&[0, flow, 0, 53, 0, 8, 0, 0]);
            for ((mut node, frame, prefix), seen) in families.into_iter().zip(&mut seen) {
                let mut member = || {
                    let packet = bench.packet(&frame);
                    let (edge, packet) = bench.process(node.as_mut(), packet);
                    assert_eq!(edge, REWRITE, "{prefix}");
                    bench.context.pool.free(packet.frame.offset);
                    packet.next_hop
                };
                let first = member();
                assert_eq!(member(), first, "{prefix}");
                seen.insert(first);
            }
        }
        for seen in seen {
            assert_eq!(seen, members.iter().map(|(id, _)| *id).collect());
        }
    }
}
