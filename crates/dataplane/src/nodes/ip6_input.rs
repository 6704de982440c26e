//! `ip6-input`: checks whether a packet is IPv6 and may be forwarded.
//!
//! The node checks length, version and payload length (RFC 8200 section 3) and the addresses (RFC
//! 4291 section 2.5). Multicasts, packets from or to link-local addresses and packets with
//! hop-by-hop options go to the kernel, as with the XDP program: an answer to a link-local address
//! belongs on the link of the question, which a lookup does not know. `ip6-rewrite` checks the hop
//! limit.
//!
//! - next: `ip6-lookup`, `punt`, `drop` (`truncated`, `bad-version`, `bad-length`,
//!   `martian-source`, `martian-destination`)

use crate::drop_reason::DropReason;
use crate::graph::{Context, Edge, Node};
use crate::packet::Packet;
use wattline_packet::FromBytes;
use wattline_packet::ipv6::{AddressKind, Ipv6Header, kind_of};
use wattline_packet::protocol::HOP_BY_HOP;

const LOOKUP: Edge = 0;
const PUNT: Edge = 1;
const DROP: Edge = 2;

/// Node `ip6-input`; see the module.
pub struct Ip6Input;

impl Node for Ip6Input {
    fn name(&self) -> &'static str {
        "ip6-input"
    }

    fn next(&self) -> &'static [&'static str] {
        &["ip6-lookup", "punt", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let memory = &*context.pool.memory();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            *edge = match check(packet.network_bytes(memory)) {
                Ok(edge) => edge,
                Err(reason) => {
                    packet.reason = reason;
                    DROP
                }
            };
        }
    }
}

#[inline]
fn check(bytes: &[u8]) -> Result<Edge, DropReason> {
    use AddressKind::{Global, LinkLocal, Loopback, Multicast, Unspecified};
    let (header, _) = Ipv6Header::ref_from_prefix(bytes).map_err(|_| DropReason::Truncated)?;
    if header.version() != 6 {
        return Err(DropReason::BadVersion);
    }
    if header.total_length() > bytes.len() {
        return Err(DropReason::BadLength);
    }
    match (kind_of(&header.source), kind_of(&header.destination)) {
        (Global, Global) if header.next_header != HOP_BY_HOP => Ok(LOOKUP),
        (Loopback | Multicast, _) => Err(DropReason::MartianSource),
        (_, Loopback | Unspecified) => Err(DropReason::MartianDestination),
        // Duplicate address detection uses the unspecified source here, which is valid.
        (_, Multicast | LinkLocal) => Ok(PUNT),
        (Unspecified, Global) => Err(DropReason::MartianSource),
        (LinkLocal | Global, Global) => Ok(PUNT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MAC_A, frame6};

    fn result(bytes: &[u8]) -> Result<Edge, DropReason> {
        let mut bench = Bench::new();
        let packet = bench.packet(bytes);
        let (edge, packet) = bench.process(&mut Ip6Input, packet);
        if edge == DROP { Err(packet.reason) } else { Ok(edge) }
    }

    fn with(source: &str, destination: &str) -> Result<Edge, DropReason> {
        let mut bytes = frame6(MAC_A, 64, b"payload");
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        bytes[22..38].copy_from_slice(&octets(source));
        bytes[38..54].copy_from_slice(&octets(destination));
        result(&bytes)
    }

    #[test]
    fn addresses_decide() {
        let global = "2001:db8::1";
        assert_eq!(with(global, global), Ok(LOOKUP));
        assert_eq!(with(global, "ff02::1"), Ok(PUNT));
        assert_eq!(with("::", "ff02::1:ff00:1"), Ok(PUNT));
        assert_eq!(with("fe80::1", "fe80::2"), Ok(PUNT));
        assert_eq!(with("fe80::1", global), Ok(PUNT));
        assert_eq!(with("::", global), Err(DropReason::MartianSource));
        assert_eq!(with("::1", global), Err(DropReason::MartianSource));
        assert_eq!(with("ff0e::1", global), Err(DropReason::MartianSource));
        assert_eq!(with(global, "::1"), Err(DropReason::MartianDestination));
        assert_eq!(with(global, "::"), Err(DropReason::MartianDestination));
    }

    #[test]
    fn lengths_and_version_are_checked() {
        let good = frame6(MAC_A, 64, b"payload");
        assert_eq!(result(&good[..14 + 39]), Err(DropReason::Truncated));
        assert_eq!(result(&good[..good.len() - 1]), Err(DropReason::BadLength));
        let mut bytes = good.clone();
        bytes[14] = 0x45;
        assert_eq!(result(&bytes), Err(DropReason::BadVersion));
        let mut bytes = good;
        bytes[20] = HOP_BY_HOP;
        assert_eq!(result(&bytes), Ok(PUNT));
    }
}
