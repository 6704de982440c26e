//! `ip6-lookup`: where does it go? As `ip4-lookup`, for IPv6.
//!
//! - next: `ip6-rewrite`, `neighbour-hold`, `punt`, `icmp6-error` (`no-route`,
//!   `unreachable`, `prohibited`), `drop` (`blackhole`)

use super::lookup::{REWRITE, sort};
use crate::forwarding::HopKind;
use crate::frame::BATCH_MAX;
use crate::graph::{Context, Edge, Node};
use crate::packet::{Packet, array_at};
use wattline_fib::NextHopId;
use wattline_packet::flow::FlowKey;

/// The node.
pub struct Ip6Lookup;

impl Node for Ip6Lookup {
    fn name(&self) -> &'static str {
        "ip6-lookup"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip6-rewrite", "neighbour-hold", "punt", "icmp6-error", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let memory = &*context.pool.bytes();
        let mut addresses = [0u128; BATCH_MAX];
        let mut ids = [NextHopId::NONE; BATCH_MAX];
        for (address, packet) in addresses.iter_mut().zip(&*packets) {
            *address = destination_of(packet, memory).map_or(0, u128::from);
        }
        let count = packets.len();
        context.routes.fib6.lookup_batch(&addresses[..count], &mut ids[..count]);
        let table = context.routes.table();
        for ((packet, edge), id) in packets.iter_mut().zip(edges).zip(&ids) {
            packet.next_hop = *id;
            *edge = match table.hop(*id).kind {
                HopKind::Forward => REWRITE,
                _ => {
                    let view = *packet;
                    sort(packet, table, || flow_hash(&view, memory))
                }
            };
        }
    }
}

/// The hash by which a packet chooses among several ways.
pub(super) fn flow_hash(packet: &Packet, memory: &[u8]) -> u32 {
    FlowKey::of_ipv6(packet.network_bytes(memory)).map_or(0, |key| key.hash())
}

/// The destination of a packet.
#[inline]
pub(super) fn destination_of(packet: &Packet, memory: &[u8]) -> Option<std::net::Ipv6Addr> {
    array_at::<16>(memory, packet.network_offset() + 24).map(|bytes| (*bytes).into())
}

#[cfg(test)]
mod tests {
    use super::super::lookup::{DROP, ERROR, HOLD, PUNT};
    use super::*;
    use crate::drop_reason::DropReason;
    use crate::next_hop::NextHop;
    use crate::testing::{Bench, MAC_A, frame6 as frame, net};

    fn with_route(next_hop: &NextHop) -> (Edge, Packet) {
        let mut bench = Bench::new();
        bench.routes.route(net("2001:db8:3::/48"), next_hop).unwrap();
        bench.routes.publish().unwrap();
        let packet = bench.packet(&frame(MAC_A, 64, b"payload"));
        bench.process(&mut Ip6Lookup, packet)
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
        bench.routes.remove(net("2001:db8:3::/48"));
        bench.routes.publish().unwrap();
        let packet = bench.packet(&frame(MAC_A, 64, b"payload"));
        let (edge, packet) = bench.process(&mut Ip6Lookup, packet);
        assert_eq!((edge, packet.reason), (ERROR, DropReason::NoRoute));
    }

    #[test]
    fn a_group_gives_each_flow_one_member() {
        let mut bench = Bench::new();
        let members: Vec<_> =
            (0..2).map(|port| bench.routes.acquire(&Bench::forward(port)).unwrap()).collect();
        bench.routes.route(net("2001:db8:3::/48"), &NextHop::Group(members.clone())).unwrap();
        bench.routes.publish().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for flow in 0..32 {
            let bytes = frame(MAC_A, 64, &[0, flow, 0, 53, 0, 8, 0, 0]);
            let mut member = || {
                let packet = bench.packet(&bytes);
                let (edge, packet) = bench.process(&mut Ip6Lookup, packet);
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
