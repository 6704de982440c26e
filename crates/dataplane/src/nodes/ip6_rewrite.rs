//! `ip6-rewrite`: rewrites the headers of a packet for its next hop, like `ip4-rewrite` but for
//! IPv6: hop limit, MTU (routers do not fragment, RFC 8200 section 5), link header. A route may
//! have an MTU below 1280, which is then applied unchanged, as in Linux (observed on 6.18).
//!
//! - next: `output`, `icmp6-error` (`ttl-expired`, `too-big`), `ip6-lookup` (the next hop
//!   changed meanwhile), `drop` (`no-headroom`)

use super::rewrite::write_link_header;
use crate::drop_reason::DropReason;
use crate::forwarding::{Hop, HopKind};
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use wattline_packet::FromBytes;
use wattline_packet::ipv6::{self, Ipv6Header};

const OUTPUT: Edge = 0;
const ERROR: Edge = 1;
const LOOKUP: Edge = 2;
const DROP: Edge = 3;

/// Node `ip6-rewrite`; see the module.
pub struct Ip6Rewrite;

impl Node for Ip6Rewrite {
    fn name(&self) -> &'static str {
        "ip6-rewrite"
    }

    fn next(&self) -> &'static [&'static str] {
        &["output", "icmp6-error", "ip6-lookup", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let table = context.routes.table();
        let chunk = context.pool.chunk_size();
        let memory = context.pool.memory();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let hop = table.hop(packet.next_hop);
            let header = memory.array_mut::<{ ipv6::HEADER }>(packet.network_offset());
            let Some(Ok(header)) = header.map(|bytes| Ipv6Header::mut_from_bytes(bytes)) else {
                packet.reason = DropReason::Truncated;
                *edge = DROP;
                continue;
            };
            let length = header.total_length();
            if (header.hop_limit <= 1) | (length > usize::from(hop.mtu)) {
                *edge = refuse(packet, hop, header.hop_limit);
                continue;
            }
            header.hop_limit -= 1;
            *edge = match write_link_header(packet, memory, chunk, hop, length) {
                Ok(()) => OUTPUT,
                Err(reason) => {
                    packet.reason = reason;
                    DROP
                }
            };
        }
    }
}

#[cold]
fn refuse(packet: &mut Packet, hop: &Hop, hop_limit: u8) -> Edge {
    if hop.kind != HopKind::Forward {
        return LOOKUP;
    }
    packet.reason = if hop_limit <= 1 { DropReason::TtlExpired } else { DropReason::TooBig };
    ERROR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, MAC_B, MAC_NEIGHBOUR, frame6};

    #[test]
    fn hop_limit_and_addresses_change_and_nothing_else() {
        let mut bench = Bench::new();
        let before = frame6(MAC_A, 64, b"payload");
        let packet = bench.packet_via(&before, &Bench::forward(1));
        let (edge, packet) = bench.process(&mut Ip6Rewrite, packet);
        assert_eq!((edge, packet.port_out.0), (OUTPUT, 1));
        let mut expected = before;
        expected[..6].copy_from_slice(&MAC_NEIGHBOUR);
        expected[6..12].copy_from_slice(&MAC_B);
        expected[14 + 7] = 63;
        assert_eq!(bench.bytes(&packet), expected);
    }

    #[test]
    fn the_last_hop_and_long_packets_are_refused() {
        let mut bench = Bench::new();
        let packet = bench.packet_via(&frame6(MAC_A, 1, b"x"), &Bench::forward(1));
        let (edge, packet) = bench.process(&mut Ip6Rewrite, packet);
        assert_eq!((edge, packet.reason), (ERROR, DropReason::TtlExpired));
        let packet = bench.packet_via(&frame6(MAC_A, 64, &[0; 1461]), &Bench::forward(1));
        let (edge, packet) = bench.process(&mut Ip6Rewrite, packet);
        assert_eq!((edge, packet.reason), (ERROR, DropReason::TooBig));
        let packet = bench.packet_via(&frame6(MAC_A, 64, &[0; 1460]), &Bench::forward(1));
        assert_eq!(bench.process(&mut Ip6Rewrite, packet).0, OUTPUT);
    }
}
