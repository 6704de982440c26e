//! `esp4-decrypt`, `esp6-decrypt`: decrypt packets of tunnels that end here.
//!
//! The nodes accept ESP packets, with or without UDP (RFC 3948), to the local end of an SA. They
//! check them in the order of RFC 4303 section 3.4: SA, sequence number, authenticity, the sequence
//! number once more (another worker may have had the same packet meanwhile), padding. Then they
//! compare the inner packet with the selectors of the SA (RFC 4301 section 5.2). It continues as a
//! received packet. All other packets pass, unless a policy requires them to come through a tunnel
//! or discards them.
//!
//! - next: `ip4-input`, `ip6-input` (decrypted packets), `punt` (IKE; SAs that the kernel may
//!   have), `drop` (`esp-…`, `ipsec-policy`, `tunnel-congestion`), and the next node at its place
//!   (all others)

use super::association::Inbound;
use super::database::{Database, Reader};
use super::outer;
use super::policy::{Decision, Memory};
use std::net::IpAddr;
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::frame::ChunkMemory;
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::packet::{Packet, Protection};
use wattline_packet::esp::{self, Encapsulated, EspHeader, UDP_HEADER, UDP_PORT, UdpHeader};
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};
use wattline_packet::{FromBytes, ethernet, protocol};

const PASS: Edge = 0;
const INPUT4: Edge = 1;
const INPUT6: Edge = 2;
const PUNT: Edge = 3;
const DROP: Edge = 4;

pub(super) const NAME4: &str = "esp4-decrypt";
pub(super) const NAME6: &str = "esp6-decrypt";

/// Node for outer packets of one IP version.
pub(super) struct EspDecrypt {
    database: Reader,
    memory: Memory,
    ipv4: bool,
}

/// Location of an ESP packet: addresses of the outer header, and offsets in bytes from the start of
/// the pool's memory.
struct Found {
    local: IpAddr,
    /// DSCP and ECN of the outer header.
    service: u8,
    udp: bool,
    start: usize,
    end: usize,
}

/// Kind of a packet for this node.
enum Kind {
    /// A packet for the next node, with its addresses as numbers.
    Other(u128, u128),
    Esp(Found),
    Punt,
    Drop(DropReason),
}

/// Packets of one SA in the batch so far.
#[derive(Default)]
struct Run<'d> {
    association: Option<&'d Arc<Inbound>>,
    packets: u64,
    bytes: u64,
}

impl<'d> Run<'d> {
    fn count(&mut self, association: &'d Arc<Inbound>, bytes: usize) {
        if !self.association.is_some_and(|own| Arc::ptr_eq(own, association)) {
            self.end();
            self.association = Some(association);
        }
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    fn end(&mut self) {
        if let Some(association) = self.association.take() {
            association.common.counters.add(self.packets, self.bytes);
        }
        (self.packets, self.bytes) = (0, 0);
    }
}

impl EspDecrypt {
    pub fn new(database: Reader, ipv4: bool) -> Self {
        Self { database, memory: Memory::new(), ipv4 }
    }
}

impl Node for EspDecrypt {
    fn name(&self) -> &'static str {
        if self.ipv4 { NAME4 } else { NAME6 }
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT, "ip4-input", "ip6-input", "punt", "drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let Self { database, memory: decisions, ipv4 } = self;
        let database: &Database = database.load();
        let policies = if *ipv4 { &database.ipv4 } else { &database.ipv6 };
        let memory = context.pool.memory();
        let mut run = Run::default();
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let kind = if *ipv4 {
                kind4(packet, memory, database)
            } else {
                kind6(packet, memory, database)
            };
            let result = match kind {
                // Policies are written for packets that are sent; here the far end is the source.
                Kind::Other(source, destination) if packet.protection == Protection::None => {
                    match decisions.decide(policies, destination, source) {
                        Decision::Bypass => Ok(PASS),
                        Decision::Discard | Decision::Protect(_) => Err(DropReason::Policy),
                    }
                }
                Kind::Other(..) => Ok(PASS),
                Kind::Esp(found) => take_out(packet, memory, database, &found, &mut run),
                Kind::Punt => Ok(PUNT),
                Kind::Drop(reason) => Err(reason),
            };
            if result == Ok(PUNT) {
                // The packet belongs to a tunnel, so no policy applies.
                packet.protection = Protection::Encrypted;
            }
            *edge = result.unwrap_or_else(|reason| {
                packet.reason = reason;
                DROP
            });
        }
        run.end();
    }
}

#[inline]
fn kind4(packet: &Packet, memory: &ChunkMemory, database: &Database) -> Kind {
    let network = packet.network_offset();
    let header = memory.array::<{ ipv4::HEADER }>(network);
    let Some(header) = header.and_then(|bytes| Ipv4Header::ref_from_bytes(bytes).ok()) else {
        return Kind::Drop(DropReason::Truncated);
    };
    let (source, destination) = (header.source.get(), header.destination.get());
    if !matches!(header.protocol, protocol::ESP | protocol::UDP) {
        return Kind::Other(source.into(), destination.into());
    }
    let local = IpAddr::V4(destination.into());
    let payload = network + ipv4::HEADER..network + usize::from(header.total_length.get());
    let Some(bytes) = memory.get(payload.clone()) else { return Kind::Drop(DropReason::BadLength) };
    let other = Kind::Other(source.into(), destination.into());
    if header.protocol == protocol::UDP && !is_for_us(bytes) || !database.ends_here(local) {
        return other;
    }
    if header.is_fragment() {
        return match header.protocol {
            protocol::ESP => Kind::Drop(DropReason::EspFragment),
            _ => Kind::Punt,
        };
    }
    locate(header.protocol, bytes, payload.start, local, header.service)
}

#[inline]
fn kind6(packet: &Packet, memory: &ChunkMemory, database: &Database) -> Kind {
    let network = packet.network_offset();
    let header = memory.array::<{ ipv6::HEADER }>(network);
    let Some(header) = header.and_then(|bytes| Ipv6Header::ref_from_bytes(bytes).ok()) else {
        return Kind::Drop(DropReason::Truncated);
    };
    let (source, destination) =
        (u128::from_be_bytes(header.source), u128::from_be_bytes(header.destination));
    if !matches!(header.next_header, protocol::ESP | protocol::UDP) {
        return Kind::Other(source, destination);
    }
    let local = IpAddr::V6(destination.into());
    let payload = network + ipv6::HEADER..network + header.total_length();
    let Some(bytes) = memory.get(payload.clone()) else { return Kind::Drop(DropReason::BadLength) };
    if header.next_header == protocol::UDP && !is_for_us(bytes) || !database.ends_here(local) {
        return Kind::Other(source, destination);
    }
    let service = (header.version_class_flow.get() >> 20) as u8;
    locate(header.next_header, bytes, payload.start, local, service)
}

/// Whether a UDP datagram may contain ESP.
#[inline]
fn is_for_us(datagram: &[u8]) -> bool {
    UdpHeader::ref_from_prefix(datagram)
        .is_ok_and(|(header, _)| header.destination.get() == UDP_PORT)
}

/// Locates the ESP packet in the payload of an IP packet.
fn locate(protocol: u8, bytes: &[u8], start: usize, local: IpAddr, service: u8) -> Kind {
    let found =
        |udp, start, length| Kind::Esp(Found { local, service, udp, start, end: start + length });
    if protocol == protocol::ESP {
        return found(false, start, bytes.len());
    }
    let malformed = Kind::Drop(DropReason::EspMalformed);
    let Ok((header, rest)) = UdpHeader::ref_from_prefix(bytes) else { return malformed };
    let length = usize::from(header.length.get()).checked_sub(UDP_HEADER);
    let Some(payload) = length.and_then(|length| rest.get(..length)) else { return malformed };
    match Encapsulated::of(payload) {
        Encapsulated::Esp(esp) => found(true, start + UDP_HEADER, esp.len()),
        Encapsulated::Ike | Encapsulated::Keepalive => Kind::Punt,
        Encapsulated::Malformed => malformed,
    }
}

/// Checks and decrypts a packet, which then becomes the inner packet.
fn take_out<'d>(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    database: &'d Database,
    found: &Found,
    run: &mut Run<'d>,
) -> Result<Edge, DropReason> {
    let bytes = memory.get(found.start..found.end).unwrap_or_default();
    let (header, _) = EspHeader::ref_from_prefix(bytes).map_err(|_| DropReason::EspMalformed)?;
    let (spi, low) = (header.spi.get(), header.sequence.get());
    let Some(association) = database.inbound(spi, found.local) else {
        return if database.kernel_has_more { Ok(PUNT) } else { Err(DropReason::EspUnknown) };
    };
    open(packet, memory, association, low, found)
        .inspect(|(_, length)| run.count(association, *length))
        .inspect_err(|reason| association.common.counters.drop(*reason))
        .map(|(edge, _)| edge)
}

/// Checks and decrypts a packet with its SA; returns its edge and the length of the inner packet.
fn open(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    association: &Inbound,
    low: u32,
    found: &Found,
) -> Result<(Edge, usize), DropReason> {
    let Inbound { common, window, selectors } = association;
    if common.is_at_end() {
        return Err(DropReason::EspExpired);
    }
    // As in Linux, encapsulation in UDP must be as negotiated.
    if common.udp.is_some() != found.udp {
        return Err(DropReason::Policy);
    }
    let sequence = match common.extended {
        true => esp::extended_sequence(low, window.highest(), window.size()),
        false => Some(low.into()),
    };
    let sequence = sequence.ok_or(DropReason::EspReplayed)?;
    window.check(sequence).map_err(|_| DropReason::EspReplayed)?;
    let bytes = memory.get_mut(found.start..found.end).ok_or(DropReason::EspMalformed)?;
    let plain = common
        .transform
        .open(bytes, sequence, common.extended)
        .map_err(|_| DropReason::EspForged)?;
    window.accept(sequence).map_err(|_| DropReason::EspReplayed)?;
    let (inner, next_header) = esp::read_trailer(plain).ok_or(DropReason::EspMalformed)?;
    let (edge, kind, addresses) = match next_header {
        protocol::IPV4 => (INPUT4, ethernet::IPV4, addresses4(inner)),
        protocol::IPV6 => (INPUT6, ethernet::IPV6, addresses6(inner)),
        esp::DUMMY => return Err(DropReason::EspDummy),
        _ => return Err(DropReason::EspMalformed),
    };
    let (source, destination) = addresses.ok_or(DropReason::EspMalformed)?;
    if !selectors.iter().any(|prefixes| prefixes.hold(source, destination)) {
        return Err(DropReason::Policy);
    }
    let length = inner.len();
    let start = found.start + esp::HEADER + common.transform.algorithm().iv();
    let inner = memory.get_mut(start..start + length).ok_or(DropReason::EspMalformed)?;
    if !outer::take_over_ecn(inner, found.service) {
        return Err(DropReason::Congestion);
    }
    lay_out(packet, memory, start, length, kind).ok_or(DropReason::EspMalformed)?;
    Ok((edge, length))
}

/// Turns the frame into the inner packet, after the link header of the outer one.
fn lay_out(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    network: usize,
    length: usize,
    kind: u16,
) -> Option<()> {
    let old = packet.frame.offset as usize;
    let start = network.checked_sub(ethernet::HEADER)?;
    let link = *memory.array::<{ ethernet::HEADER }>(old)?;
    *memory.array_mut(start)? = link;
    memory.get_mut(network - 2..network)?.copy_from_slice(&kind.to_be_bytes());
    packet.frame.offset = start as u32;
    packet.frame.length = u16::try_from(ethernet::HEADER + length).ok()?;
    packet.vlan_in = 0;
    packet.protection = Protection::Decrypted;
    Some(())
}

fn addresses4(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (header, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    let address = |value: u32| IpAddr::V4(value.into());
    (header.version() == 4)
        .then(|| (address(header.source.get()), address(header.destination.get())))
}

fn addresses6(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    (header.version() == 6).then(|| (header.source.into(), header.destination.into()))
}
