//! `ip6-lookup`: finds the next hop, like `ip4-lookup` but for IPv6.
//!
//! - next: `ip6-rewrite`, `neighbour-hold`, `punt`, `icmp6-error` (`no-route`,
//!   `unreachable`, `prohibited`), `drop` (`blackhole`)

use super::lookup::{REWRITE, sort};
use crate::forwarding::HopKind;
use crate::frame::{BATCH_MAX, ChunkMemory};
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use wattline_fib::NextHopId;

/// Node `ip6-lookup`; see the module.
pub struct Ip6Lookup;

impl Node for Ip6Lookup {
    fn name(&self) -> &'static str {
        "ip6-lookup"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip6-rewrite", "neighbour-hold", "punt", "icmp6-error", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let memory = &*context.pool.memory();
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
                    sort(packet, table, |hash| hash.hash_ipv6(view.network_bytes(memory)))
                }
            };
        }
    }
}

/// Returns the destination address of a packet.
#[inline]
pub(super) fn destination_of(packet: &Packet, memory: &ChunkMemory) -> Option<std::net::Ipv6Addr> {
    memory.array::<16>(packet.network_offset() + 24).map(|bytes| (*bytes).into())
}
