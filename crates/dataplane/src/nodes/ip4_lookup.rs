//! `ip4-lookup`: finds the next hop.
//!
//! The node looks up all destinations of the batch at once, fetches the next-hop table after that
//! (the order matters: [`crate::forwarding`]), and sorts packets by kind of next hop. The flow hash
//! picks the member of a group, so that flows stay in order.
//!
//! - next: `ip4-rewrite`, `neighbour-hold`, `punt`, `icmp4-error` (`no-route`,
//!   `unreachable`, `prohibited`), `drop` (`blackhole`)

use super::lookup::sort;
use crate::forwarding::HopKind;
use crate::frame::ChunkMemory;
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;

/// Node `ip4-lookup`; see the module.
pub struct Ip4Lookup;

impl Node for Ip4Lookup {
    fn name(&self) -> &'static str {
        "ip4-lookup"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip4-rewrite", "neighbour-hold", "punt", "icmp4-error", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let memory = &*context.pool.memory();
        let address = |packet: &Packet| destination_of(packet, memory).map_or(0, u32::from);
        let fib4 = &context.routes.fib4;
        fib4.lookup_records(packets, address, |packet| &mut packet.next_hop);
        let table = context.routes.table();
        let hops = table.hops();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let hop = hops.get(usize::from(packet.next_hop.0));
            if hop.is_none_or(|hop| hop.kind != HopKind::Forward) {
                let view = *packet;
                *edge = sort(packet, table, |hash| hash.hash_ipv4(view.network_bytes(memory)));
            }
        }
    }
}

/// Returns the destination address of a packet.
#[inline]
pub(super) fn destination_of(packet: &Packet, memory: &ChunkMemory) -> Option<std::net::Ipv4Addr> {
    memory.array::<4>(packet.network_offset() + 16).map(|bytes| (*bytes).into())
}
