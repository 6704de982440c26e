//! `ip4-rewrite`: rewrites the headers of a packet for its next hop.
//!
//! The node decrements the TTL and updates the checksum (RFC 1624 equation 3), sets the Ethernet
//! addresses of the next hop, pushes or removes a VLAN tag, and cuts off padding. Before that it
//! checks that the TTL is at least 2 (RFC 1812 section 5.3.1) and that the packet fits the MTU.
//! Packets that the router generates start with one TTL more, since this node decrements theirs as
//! well.
//!
//! - next: `output`, `ip4-fragment` (too long, may be fragmented), `icmp4-error`
//!   (`ttl-expired`, `too-big`), `ip4-lookup` (the next hop changed meanwhile), `drop`
//!   (`no-headroom`, `truncated`)

use super::rewrite::write_link_header;
use crate::drop_reason::DropReason;
use crate::forwarding::{Hop, HopKind};
use crate::frame::ChunkMemory;
use crate::graph::{Context, Edge, Node};
use crate::packet::{Packet, field};
use wattline_packet::checksum::TtlAndChecksum;

const OUTPUT: Edge = 0;
const FRAGMENT: Edge = 1;
const ERROR: Edge = 2;
const LOOKUP: Edge = 3;
const DROP: Edge = 4;

/// Node `ip4-rewrite`; see the module.
pub struct Ip4Rewrite;

impl Node for Ip4Rewrite {
    fn name(&self) -> &'static str {
        "ip4-rewrite"
    }

    fn next(&self) -> &'static [&'static str] {
        &["output", "ip4-fragment", "icmp4-error", "ip4-lookup", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let hops = context.routes.table().hops();
        let chunk = context.pool.chunk_size();
        let memory = context.pool.memory();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            if !rewrite_plain(packet, hops, memory) {
                *edge = rewrite_other(packet, hops, memory, chunk);
            }
        }
    }
}

/// Rewrites a packet that is forwarded without a tag. Returns false, and changes nothing, if
/// [`rewrite_other`] has to handle the packet. All checks fail to one place, so that the path of
/// nearly all packets has no jump.
#[inline]
fn rewrite_plain(packet: &mut Packet, hops: &[Hop], memory: &mut ChunkMemory) -> bool {
    let Some(hop) = hops.get(usize::from(packet.next_hop.0)) else { return false };
    // One bounds check covers the link header and the IPv4 header.
    let Some(bytes) = memory.array_mut::<34>(packet.frame.offset as usize) else { return false };
    let length = u16::from_be_bytes(field::<16, 2, _>(bytes));
    let changing = TtlAndChecksum::from_bytes(field::<22, 4, _>(bytes));
    if (changing.ttl() <= 1) | (length > hop.untagged_mtu) {
        return false;
    }
    bytes[22..26].copy_from_slice(&changing.decremented().to_bytes());
    bytes[..12].copy_from_slice(&hop.macs);
    packet.frame.length = 14 + length;
    packet.port_out = hop.port;
    true
}

/// Rewrites or refuses any other packet.
#[cold]
fn rewrite_other(packet: &mut Packet, hops: &[Hop], memory: &mut ChunkMemory, chunk: u32) -> Edge {
    let Some(hop) = hops.get(usize::from(packet.next_hop.0)) else { return LOOKUP };
    let Some(bytes) = memory.array_mut::<34>(packet.frame.offset as usize) else {
        packet.reason = DropReason::Truncated;
        return DROP;
    };
    let length = u16::from_be_bytes(field::<16, 2, _>(bytes));
    let changing = TtlAndChecksum::from_bytes(field::<22, 4, _>(bytes));
    if changing.ttl() <= 1 || length > hop.mtu {
        return refuse(packet, hop, bytes);
    }
    bytes[22..26].copy_from_slice(&changing.decremented().to_bytes());
    match write_link_header(packet, memory, chunk, hop, usize::from(length)) {
        Ok(()) => OUTPUT,
        Err(reason) => {
            packet.reason = reason;
            DROP
        }
    }
}

fn refuse(packet: &mut Packet, hop: &Hop, bytes: &[u8; 34]) -> Edge {
    if hop.kind != HopKind::Forward {
        return LOOKUP;
    }
    if bytes[22] <= 1 {
        packet.reason = DropReason::TtlExpired;
        return ERROR;
    }
    if bytes[20] & 0x40 == 0 {
        return FRAGMENT;
    }
    packet.reason = DropReason::TooBig;
    ERROR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_hop::NextHop;
    use crate::testing::{Bench, MAC_A, MAC_B, MAC_NEIGHBOUR, fix_checksum, frame4, frame4_vlan};

    #[test]
    fn ttl_checksum_and_addresses_change_and_nothing_else() {
        let mut bench = Bench::new();
        let before = frame4(MAC_A, 64, b"payload");
        let packet = bench.packet_via(&before, &Bench::forward(1));
        let (edge, packet) = bench.process(&mut Ip4Rewrite, packet);
        assert_eq!((edge, packet.port_out.0), (OUTPUT, 1));
        let mut expected = before;
        expected[..6].copy_from_slice(&MAC_NEIGHBOUR);
        expected[6..12].copy_from_slice(&MAC_B);
        expected[14 + 8] = 63;
        fix_checksum(&mut expected);
        assert_eq!(bench.bytes(&packet), expected);
    }

    #[test]
    fn padding_is_cut_off() {
        let mut bench = Bench::new();
        let mut bytes = frame4(MAC_A, 64, b"");
        let length = bytes.len();
        bytes.resize(60, 0);
        let packet = bench.packet_via(&bytes, &Bench::forward(1));
        let (_, packet) = bench.process(&mut Ip4Rewrite, packet);
        assert_eq!(usize::from(packet.frame.length), length);
    }

    #[test]
    fn the_last_hop_and_long_packets_are_refused() {
        let mut bench = Bench::new();
        for ttl in [0, 1] {
            let packet = bench.packet_via(&frame4(MAC_A, ttl, b"x"), &Bench::forward(1));
            let (edge, packet) = bench.process(&mut Ip4Rewrite, packet);
            assert_eq!((edge, packet.reason), (ERROR, DropReason::TtlExpired));
        }
        let mut long = frame4(MAC_A, 64, &[0; 1481]);
        let packet = bench.packet_via(&long, &Bench::forward(1));
        assert_eq!(bench.process(&mut Ip4Rewrite, packet).0, FRAGMENT);
        long[14 + 6] = 0x40;
        fix_checksum(&mut long);
        let packet = bench.packet_via(&long, &Bench::forward(1));
        let (edge, packet) = bench.process(&mut Ip4Rewrite, packet);
        assert_eq!((edge, packet.reason), (ERROR, DropReason::TooBig));
        let packet = bench.packet_via(&frame4(MAC_A, 64, &[0; 1480]), &Bench::forward(1));
        assert_eq!(bench.process(&mut Ip4Rewrite, packet).0, OUTPUT);
    }

    #[test]
    fn tags_are_pushed_and_removed() {
        let mut bench = Bench::new();
        let plain = frame4(MAC_A, 64, b"payload");
        let packet = bench.packet_via(&plain, &Bench::forward_vlan(1, 7));
        let (edge, packet) = bench.process(&mut Ip4Rewrite, packet);
        assert_eq!(edge, OUTPUT);
        let tagged = bench.bytes(&packet);
        assert_eq!(tagged[..12], [MAC_NEIGHBOUR, MAC_B].concat());
        assert_eq!(tagged[12..18], [0x81, 0, 0, 7, 8, 0]);

        let mut packet = bench.packet_via(&frame4_vlan(MAC_A, 7), &Bench::forward(1));
        packet.skip_tag(7);
        let (_, packet) = bench.process(&mut Ip4Rewrite, packet);
        let untagged = bench.bytes(&packet);
        assert_eq!(untagged[..14], [&MAC_NEIGHBOUR[..], &MAC_B, &[8, 0]].concat());
        assert_eq!(untagged[14], 0x45);
    }

    #[test]
    fn tag_without_headroom_is_dropped() {
        let mut bench = Bench::new();
        let mut packet = bench.packet_via(&frame4(MAC_A, 64, b"x"), &Bench::forward_vlan(1, 7));
        packet.frame.offset -= packet.frame.offset % bench.context.pool.chunk_size();
        let bytes = frame4(MAC_A, 64, b"x");
        bench.context.pool.frame_bytes(&packet.frame).copy_from_slice(&bytes);
        let (edge, packet) = bench.process(&mut Ip4Rewrite, packet);
        assert_eq!((edge, packet.reason), (DROP, DropReason::NoHeadroom));
    }

    #[test]
    fn packet_with_vanished_next_hop_is_looked_up_again() {
        let mut bench = Bench::new();
        let packet = bench.packet_via(&frame4(MAC_A, 64, b"x"), &Bench::forward(1));
        bench.routes.set(packet.next_hop, &NextHop::Punt).unwrap();
        bench.routes.publish().unwrap();
        assert_eq!(bench.process(&mut Ip4Rewrite, packet).0, LOOKUP);
    }
}
