//! `ip4-input`: checks whether a packet is IPv4 and may be forwarded.
//!
//! The checks are those of RFC 1812 section 5.2.2 in its order: length, version, header length,
//! checksum, total length. Martian addresses follow (5.3.7), including the router's own addresses
//! as source. Packets with options, multicasts and broadcasts go to the kernel. The TTL is checked
//! only when a packet is about to be forwarded (`ip4-rewrite`), because it does not matter for
//! packets to the router itself (5.3.1).
//!
//! - next: `ip4-lookup`, `punt`, `drop` (`truncated`, `bad-version`,
//!   `bad-header-length`, `bad-checksum`, `bad-length`, `martian-source`,
//!   `martian-destination`)

use crate::drop_reason::DropReason;
use crate::frame::ChunkMemory;
use crate::graph::{Context, Edge, Node};
use crate::own_addresses::OwnAddresses;
use crate::packet::{Packet, field};
use wattline_packet::checksum::ipv4_header_is_intact;
use wattline_packet::ethernet;
use wattline_packet::ipv4::{AddressKind, Ipv4Error, Ipv4Header, Ipv4Packet, kind_of};

const LOOKUP: Edge = 0;
const PUNT: Edge = 1;
const DROP: Edge = 2;

/// First bytes of the addresses that a host can have.
static UNICAST: [bool; 256] = {
    let mut table = [false; 256];
    let mut first = 1;
    while first < 224 {
        table[first] = first != 127;
        first += 1;
    }
    table
};

/// Node `ip4-input`; see the module.
pub struct Ip4Input;

impl Node for Ip4Input {
    fn name(&self) -> &'static str {
        "ip4-input"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip4-lookup", "punt", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let memory = &*context.pool.memory();
        let (table, fib4) = context.routes.table_and_fib4();
        let own = table.own();
        let prefetch = fib4.prefetcher();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            if let Some(header) = memory.array::<20>(packet.network_offset()) {
                // Prefetches for the lookups while this node checks the batch.
                let destination = u32::from_be_bytes(field::<16, 4, _>(header));
                prefetch(destination);
                let source = u32::from_be_bytes(field::<12, 4, _>(header));
                if is_plain(packet, header, destination) & !own.may_hold(source) {
                    continue;
                }
            }
            *edge = classify(packet, memory, own);
        }
    }
}

/// Returns true for nearly all packets: valid, without options, from host to host.
#[inline]
fn is_plain(packet: &Packet, header: &[u8; 20], destination: u32) -> bool {
    let total = u32::from(u16::from_be_bytes(field::<2, 2, _>(header)));
    (header[0] == 0x45)
        & (total >= 20)
        & (total + ethernet::HEADER as u32 <= u32::from(packet.frame.length))
        & UNICAST[usize::from(header[12])]
        & UNICAST[(destination >> 24) as usize]
        & ipv4_header_is_intact(header)
}

/// Determines the edge of any other packet.
#[cold]
fn classify(packet: &mut Packet, memory: &ChunkMemory, own: &OwnAddresses) -> Edge {
    let bytes = packet.network_bytes(memory);
    // The parser also reports a short header; here the version is checked first.
    let reason = match Ipv4Packet::parse(bytes) {
        Ok(checked) => match classify_addresses(checked.header) {
            Ok(_) if own.holds(checked.header.source.get()) => DropReason::MartianSource,
            Ok(_) if !checked.options.is_empty() => return PUNT,
            Ok(edge) => return edge,
            Err(reason) => reason,
        },
        Err(Ipv4Error::Truncated) => DropReason::Truncated,
        Err(Ipv4Error::Version) => DropReason::BadVersion,
        Err(Ipv4Error::HeaderLength) => DropReason::BadHeaderLength,
        Err(Ipv4Error::Checksum) => DropReason::BadChecksum,
        Err(Ipv4Error::TotalLength) => DropReason::BadLength,
    };
    packet.reason = reason;
    DROP
}

fn classify_addresses(header: &Ipv4Header) -> Result<Edge, DropReason> {
    use AddressKind::{Broadcast, Loopback, Multicast, Reserved, ThisNetwork, Unicast};
    let source = kind_of(header.source.get());
    let destination = kind_of(header.destination.get());
    match (source, destination) {
        // A host without an address sends a DHCP request, which is for the kernel.
        (ThisNetwork, Broadcast) if header.source.get() == 0 => Ok(PUNT),
        (ThisNetwork | Loopback | Multicast | Reserved | Broadcast, _) => {
            Err(DropReason::MartianSource)
        }
        (Unicast, ThisNetwork | Loopback | Reserved) => Err(DropReason::MartianDestination),
        (Unicast, Multicast | Broadcast) => Ok(PUNT),
        (Unicast, Unicast) => Ok(LOOKUP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, fix_checksum, frame4, with_option};

    fn result(bytes: &[u8]) -> Result<Edge, DropReason> {
        let mut bench = Bench::new();
        let packet = bench.packet(bytes);
        let (edge, packet) = bench.process(&mut Ip4Input, packet);
        if edge == DROP { Err(packet.reason) } else { Ok(edge) }
    }

    fn patched(at: usize, value: u8) -> Vec<u8> {
        let mut bytes = frame4(MAC_A, 64, b"payload");
        bytes[14 + at] = value;
        bytes
    }

    fn fixed(at: usize, value: u8) -> Result<Edge, DropReason> {
        let mut bytes = patched(at, value);
        fix_checksum(&mut bytes);
        result(&bytes)
    }

    #[test]
    fn good_packets_pass_whatever_their_ttl_and_padding() {
        assert_eq!(result(&frame4(MAC_A, 64, b"payload")), Ok(LOOKUP));
        assert_eq!(result(&frame4(MAC_A, 0, b"payload")), Ok(LOOKUP));
        let mut padded = frame4(MAC_A, 64, b"");
        padded.extend_from_slice(&[0; 18]);
        assert_eq!(result(&padded), Ok(LOOKUP));
    }

    #[test]
    fn each_check_of_rfc_1812_drops_for_its_own_reason() {
        let good = frame4(MAC_A, 64, b"payload");
        assert_eq!(result(&good[..14 + 19]), Err(DropReason::Truncated));
        assert_eq!(result(&patched(0, 0x65)), Err(DropReason::BadVersion));
        assert_eq!(result(&patched(0, 0x44)), Err(DropReason::BadHeaderLength));
        assert_eq!(result(&patched(9, 99)), Err(DropReason::BadChecksum));
        assert_eq!(fixed(3, 200), Err(DropReason::BadLength));
        assert_eq!(fixed(3, 19), Err(DropReason::BadLength));
        for first in [0, 127, 224, 240, 255] {
            assert_eq!(fixed(12, first), Err(DropReason::MartianSource));
        }
        for first in [0, 127, 240] {
            assert_eq!(fixed(16, first), Err(DropReason::MartianDestination));
        }
    }

    #[test]
    fn groups_broadcasts_and_options_are_left_to_the_kernel() {
        assert_eq!(fixed(16, 224), Ok(PUNT));
        let mut broadcast = frame4(MAC_A, 64, b"payload");
        broadcast[14 + 16..14 + 20].fill(255);
        fix_checksum(&mut broadcast);
        assert_eq!(result(&broadcast), Ok(PUNT));
        broadcast[14 + 12..14 + 16].fill(0);
        fix_checksum(&mut broadcast);
        assert_eq!(result(&broadcast), Ok(PUNT), "DHCP discovery");
        let options = with_option(frame4(MAC_A, 64, b"payload"), [1; 4]);
        assert_eq!(result(&options), Ok(PUNT));
    }

    #[test]
    fn packet_from_own_address_is_dropped() {
        let mut bench = Bench::new();
        bench.routes.set_own_addresses(["192.0.2.9/24".parse().unwrap()]);
        bench.routes.publish().unwrap();
        let bytes = frame4(MAC_A, 64, b"payload");
        assert_eq!(bytes[26..30], [192, 0, 2, 9]);
        let mut result = |bytes: &[u8]| {
            let packet = bench.packet(bytes);
            let (edge, packet) = bench.process(&mut Ip4Input, packet);
            (edge, packet.reason)
        };
        assert_eq!(result(&bytes), (DROP, DropReason::MartianSource));
        for host in 0..32 {
            let mut bytes = bytes.clone();
            bytes[29] = host;
            fix_checksum(&mut bytes);
            assert_eq!(result(&bytes).0, if host == 9 { DROP } else { LOOKUP });
        }
    }

    #[test]
    fn the_fast_table_agrees_with_the_kinds() {
        for first in 0..=255u8 {
            let kind = kind_of(u32::from(first) << 24 | 1);
            assert_eq!(UNICAST[usize::from(first)], kind == AddressKind::Unicast, "{first}");
        }
    }
}
