//! What both lookup nodes do with the next hop that they found.

use crate::drop_reason::DropReason;
use crate::forwarding::{HopKind, Table};
use crate::graph::Edge;
use crate::packet::Packet;

pub(super) const REWRITE: Edge = 0;
pub(super) const HOLD: Edge = 1;
pub(super) const PUNT: Edge = 2;
pub(super) const ERROR: Edge = 3;
pub(super) const DROP: Edge = 4;

/// The edge of a packet whose next hop is not simply a way out; picks the member of a
/// group by `flow_hash`, so that the packets of a flow stay in order.
#[cold]
pub(super) fn sort(packet: &mut Packet, table: &Table, flow_hash: impl FnOnce() -> u32) -> Edge {
    let hop = table.hop(packet.next_hop);
    if hop.kind == HopKind::Group {
        packet.next_hop = table.member(hop, flow_hash());
    }
    let (edge, reason) = match table.hop(packet.next_hop).kind {
        HopKind::Forward => return REWRITE,
        HopKind::Resolve => return HOLD,
        HopKind::Punt => return PUNT,
        HopKind::Blackhole => (DROP, DropReason::Blackhole),
        HopKind::Unreachable => (ERROR, DropReason::Unreachable),
        HopKind::Prohibit => (ERROR, DropReason::Prohibited),
        // A group is never a member of one.
        HopKind::None | HopKind::Group => (ERROR, DropReason::NoRoute),
    };
    packet.reason = reason;
    edge
}
