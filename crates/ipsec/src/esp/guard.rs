//! `esp-guard`: keeps protected packets from leaving through the kernel.
//!
//! The router leaves packets to the kernel that it does not handle: packets with IPv4 options or
//! IPv6 hop-by-hop options, and packets whose egress interface is no port. The kernel forwards them
//! without knowing the policies. This node therefore checks every packet before it is punted (RFC
//! 4301 section 5). A packet that came in clear and should have come through a tunnel is dropped, a
//! packet that a policy protects is encrypted as it is, and only the rest passes.
//!
//! Packets to this machine itself and to groups are not forwarded, and pass. Frames that may hold a
//! packet that only the kernel finds ([`Punted::Opaque`]) are dropped. Packets with an expired TTL
//! pass: the kernel answers them and does not forward them. The kernel's ICMP errors would quote a
//! packet from a tunnel in clear, so such a packet is forwarded here, with its options unread, if
//! it leaves through a port.
//!
//! - next: `esp4-encrypt`, `esp6-encrypt` (protected packets), `ip4-lookup`, `ip6-lookup` (packets
//!   from a tunnel that leave through a port), `icmp4-error`, `icmp6-error` (such packets with
//!   `ttl-expired`), `drop` (`ipsec-policy`, `unjudged`), and the next node at its place (all others)

use super::database::{Database, Reader};
use super::encrypt;
use super::policy::{Decision, Memory};
use std::net::IpAddr;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::forwarding::RouteReader;
use wattline_dataplane::frame::ChunkMemory;
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::packet::{Packet, Protection};
use wattline_dataplane::punted::Punted;
use wattline_fib::NextHopId;
use wattline_packet::FromBytes;
use wattline_packet::ethernet;
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};

const PASS: Edge = 0;
const ENCRYPT: [Edge; 2] = [1, 2];
const LOOKUP: [Edge; 2] = [3, 4];
const ERROR: [Edge; 2] = [5, 6];
const DROP: Edge = 7;

/// EtherType of the outer of two tags (IEEE 802.1ad).
const SERVICE_VLAN: u16 = 0x88a8;

pub(super) const NAME: &str = "esp-guard";

/// Node for packets of both IP versions.
pub(super) struct EspGuard {
    database: Reader,
    memory: Memory,
}

/// Header fields of a packet to a single host.
struct Seen {
    source: u128,
    destination: u128,
    address: IpAddr,
    hops: u8,
    /// True if the header follows a tag that is not routed here, so that no other node finds it.
    tagged: bool,
}

impl EspGuard {
    pub fn new(database: Reader) -> Self {
        Self { database, memory: Memory::new() }
    }
}

impl Node for EspGuard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn next(&self) -> &'static [&'static str] {
        &[
            NEXT,
            encrypt::NAME4,
            encrypt::NAME6,
            "ip4-lookup",
            "ip6-lookup",
            "icmp4-error",
            "icmp6-error",
            "drop",
        ]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let Self { database, memory } = self;
        let database: &Database = database.load();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let memory_of_frames = context.pool.memory();
            let own = context.routes.table().own();
            if packet.protection == Protection::None
                && Punted::classify(packet, memory_of_frames, own) == Punted::Opaque
            {
                packet.reason = DropReason::Unjudged;
                *edge = DROP;
                continue;
            }
            *edge = match look(packet, memory_of_frames) {
                Some(seen) => judge(packet, &seen, database, memory, &mut context.routes),
                None => PASS,
            };
        }
    }
}

fn judge(
    packet: &mut Packet,
    seen: &Seen,
    database: &Database,
    memory: &mut Memory,
    routes: &mut RouteReader,
) -> Edge {
    let family = usize::from(seen.address.is_ipv6());
    let policies = if family == 0 { &database.ipv4 } else { &database.ipv6 };
    let refused = |packet: &mut Packet| {
        packet.reason = DropReason::Policy;
        DROP
    };
    let came_in_clear = packet.protection == Protection::None;
    // The packet belongs to a tunnel, and the kernel may have the SA.
    if packet.protection == Protection::Encrypted {
        return PASS;
    }
    // Policies are written for packets that are sent; here the far end is the source.
    if came_in_clear && memory.decide(policies, seen.destination, seen.source) != Decision::Bypass {
        return refused(packet);
    }
    if routes.table().own().is_own(seen.address) {
        return PASS;
    }
    match memory.decide(policies, seen.source, seen.destination) {
        Decision::Discard => refused(packet),
        Decision::Protect(_) if seen.tagged => refused(packet),
        Decision::Protect(_) if came_in_clear && seen.hops <= 1 => PASS,
        Decision::Protect(_) => ENCRYPT[family],
        Decision::Bypass => match packet.protection {
            Protection::Confidential => refused(packet),
            Protection::Decrypted => {
                // It has not been looked up yet; if its egress is the kernel's, it comes back.
                if packet.next_hop == NextHopId::NONE {
                    return LOOKUP[family];
                }
                if seen.hops > 1 {
                    return PASS;
                }
                packet.reason = DropReason::TtlExpired;
                ERROR[family]
            }
            _ => PASS,
        },
    }
}

/// Returns the header fields; `None` unless it is an IP packet to a single host. The IP version is
/// that of the first byte, as in the kernel, whatever the link header says.
fn look(packet: &Packet, memory: &ChunkMemory) -> Option<Seen> {
    let mut bytes = packet.network_bytes(memory);
    let kind = memory.array::<2>(packet.network_offset().checked_sub(2)?)?;
    let tagged = matches!(u16::from_be_bytes(*kind), ethernet::VLAN | SERVICE_VLAN);
    if tagged {
        bytes = bytes.get(ethernet::TAG..)?;
    }
    match bytes.first()? >> 4 {
        4 => {
            use ipv4::AddressKind::{Broadcast, Multicast};
            let (header, _) = Ipv4Header::ref_from_prefix(bytes).ok()?;
            let (source, destination) = (header.source.get(), header.destination.get());
            (!matches!(ipv4::kind_of(destination), Multicast | Broadcast)).then(|| Seen {
                source: source.into(),
                destination: destination.into(),
                address: IpAddr::V4(destination.into()),
                hops: header.ttl,
                tagged,
            })
        }
        6 => {
            use ipv6::AddressKind::{LinkLocal, Multicast};
            let (header, _) = Ipv6Header::ref_from_prefix(bytes).ok()?;
            (!matches!(ipv6::kind_of(&header.destination), Multicast | LinkLocal)).then(|| Seen {
                source: u128::from_be_bytes(header.source),
                destination: u128::from_be_bytes(header.destination),
                address: IpAddr::V6(header.destination.into()),
                hops: header.hop_limit,
                tagged,
            })
        }
        _ => None,
    }
}
