//! `esp4-decrypt`, `esp6-decrypt`: decrypt packets of tunnels that end here.
//!
//! The nodes accept ESP packets, with or without UDP (RFC 3948), to the local end of an SA. They
//! check them in the order of RFC 4303 section 3.4: SA, sequence number, authenticity, the sequence
//! number once more (another worker, or this batch, may have had the same packet meanwhile), padding.
//! Authenticity is checked for all packets of a batch together. Then the nodes
//! compare the inner packet with the selectors of the SA (RFC 4301 section 5.2). It continues as a
//! received packet. All other packets pass, unless a policy requires them to come through a tunnel
//! or discards them.
//!
//! - next: `ip4-input`, `ip6-input` (decrypted packets), `punt` (IKE; SAs that the kernel may
//!   have), `drop` (`esp-…`, `ipsec-policy`, `tunnel-congestion`), and the next node at its place
//!   (all others)

use super::association::Inbound;
use super::crypt::Crypt;
use super::database::{Database, Ends, Reader, Receiver};
use super::job::Job;
use super::outer;
use super::policy::{Decision, Memory};
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::frame::{BATCH_MAX, ChunkMemory};
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
    crypt: Crypt,
    ipv4: bool,
}

/// Location of an ESP packet: addresses of the outer header, and offsets in bytes from the start of
/// the pool's memory.
struct Found {
    local: u128,
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

/// A packet whose SA is known, while its batch is opened.
#[derive(Clone, Copy)]
struct Pending<'d> {
    receiver: &'d Receiver,
    /// Low half of the sequence number.
    low: u32,
    /// DSCP and ECN of the outer header.
    service: u8,
    /// Start and end of the ESP packet, in bytes from the start of the pool's memory.
    place: (u32, u32),
}

impl<'d> Pending<'d> {
    /// Returns the job that opens this packet under a sequence number.
    fn job(&self, sequence: u64) -> Job<'d> {
        let common = &self.receiver.association.common;
        Job {
            transform: &common.transform,
            sequence,
            unique: 0,
            start: self.place.0,
            end: self.place.1,
            extended: common.extended,
            done: false,
        }
    }
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
        Self { database, memory: Memory::new(), crypt: Crypt::new(), ipv4 }
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
        let Self { database, memory: decisions, crypt, ipv4 } = self;
        let database: &Database = database.load();
        let (policies, ends) = match *ipv4 {
            true => (&database.ipv4, &database.ends4),
            false => (&database.ipv6, &database.ends6),
        };
        let memory = context.pool.memory();
        let mut pending = [None; BATCH_MAX];
        let mut jobs = [None; BATCH_MAX];
        let mut any = false;
        for (place, (packet, edge)) in packets.iter_mut().zip(&mut *edges).enumerate() {
            let kind =
                if *ipv4 { kind4(packet, memory, ends) } else { kind6(packet, memory, ends) };
            let result = match kind {
                // Policies are written for packets that are sent; here the far end is the source.
                Kind::Other(source, destination) if packet.protection == Protection::None => {
                    match decisions.decide(policies, destination, source) {
                        Decision::Bypass => Ok(PASS),
                        Decision::Discard | Decision::Protect(_) => Err(DropReason::Policy),
                    }
                }
                Kind::Other(..) => Ok(PASS),
                Kind::Esp(found) => match admit(memory, ends, &found) {
                    Ok(Some((one, job))) => {
                        (pending[place], jobs[place]) = (Some(one), job);
                        any = true;
                        continue;
                    }
                    Ok(None) if database.kernel_has_more => Ok(PUNT),
                    Ok(None) => Err(DropReason::EspUnknown),
                    Err(reason) => Err(reason),
                },
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
        if !any {
            return;
        }
        let jobs = &mut jobs[..packets.len()];
        crypt.open(memory, jobs);
        let mut run = Run::default();
        let opened = pending.iter().zip(&*jobs);
        for ((packet, edge), (one, job)) in packets.iter_mut().zip(edges).zip(opened) {
            let Some(one) = one else { continue };
            let association = &one.receiver.association;
            let result = match job {
                Some(job) => take_out(packet, memory, one, job),
                None => open_late(packet, memory, crypt, one),
            };
            *edge = match result {
                Ok((edge, length)) => {
                    run.count(association, length);
                    edge
                }
                Err(reason) => {
                    association.common.counters.drop(reason);
                    packet.reason = reason;
                    DROP
                }
            };
        }
        run.end();
    }
}

#[inline]
fn kind4(packet: &Packet, memory: &ChunkMemory, ends: &Ends) -> Kind {
    let network = packet.network_offset();
    let header = memory.array::<{ ipv4::HEADER }>(network);
    let Some(header) = header.and_then(|bytes| Ipv4Header::ref_from_bytes(bytes).ok()) else {
        return Kind::Drop(DropReason::Truncated);
    };
    let (source, destination) = (header.source.get(), header.destination.get());
    if !matches!(header.protocol, protocol::ESP | protocol::UDP) {
        return Kind::Other(source.into(), destination.into());
    }
    let local = u128::from(destination);
    let payload = network + ipv4::HEADER..network + usize::from(header.total_length.get());
    let Some(bytes) = memory.get(payload.clone()) else { return Kind::Drop(DropReason::BadLength) };
    let other = Kind::Other(source.into(), local);
    if header.protocol == protocol::UDP && !is_for_us(bytes) || !ends.are_at(local) {
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
fn kind6(packet: &Packet, memory: &ChunkMemory, ends: &Ends) -> Kind {
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
    let payload = network + ipv6::HEADER..network + header.total_length();
    let Some(bytes) = memory.get(payload.clone()) else { return Kind::Drop(DropReason::BadLength) };
    if header.next_header == protocol::UDP && !is_for_us(bytes) || !ends.are_at(destination) {
        return Kind::Other(source, destination);
    }
    let service = (header.version_class_flow.get() >> 20) as u8;
    locate(header.next_header, bytes, payload.start, destination, service)
}

/// Returns true if a UDP datagram may contain ESP.
#[inline]
fn is_for_us(datagram: &[u8]) -> bool {
    UdpHeader::ref_from_prefix(datagram)
        .is_ok_and(|(header, _)| header.destination.get() == UDP_PORT)
}

/// Locates the ESP packet in the payload of an IP packet.
#[inline]
fn locate(protocol: u8, bytes: &[u8], start: usize, local: u128, service: u8) -> Kind {
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

/// Finds the SA of a packet and makes the checks that need no cryptography; `None` without an SA.
/// The job is absent if the window, as it was before the batch, does not accept the sequence
/// number.
#[inline]
fn admit<'d>(
    memory: &ChunkMemory,
    ends: &'d Ends,
    found: &Found,
) -> Result<Option<(Pending<'d>, Option<Job<'d>>)>, DropReason> {
    let bytes = memory.get(found.start..found.end).unwrap_or_default();
    let (header, _) = EspHeader::ref_from_prefix(bytes).map_err(|_| DropReason::EspMalformed)?;
    let (spi, low) = (header.spi.get(), header.sequence.get());
    let Some(receiver) = ends.receiver(spi, found.local) else { return Ok(None) };
    let association = &receiver.association;
    takes_any(association, found.udp)
        .inspect_err(|reason| association.common.counters.drop(*reason))?;
    // Offsets of frames, which have 32 bits.
    let place = (found.start as u32, found.end as u32);
    let pending = Pending { receiver, low, service: found.service, place };
    let job = look_up(association, low).ok().map(|sequence| pending.job(sequence));
    Ok(Some((pending, job)))
}

/// Checks that an SA accepts packets of this form.
#[inline]
fn takes_any(association: &Inbound, udp: bool) -> Result<(), DropReason> {
    let common = &association.common;
    if common.is_at_end() {
        return Err(DropReason::EspExpired);
    }
    // As in Linux, encapsulation in UDP must be as negotiated.
    if common.udp.is_some() != udp {
        return Err(DropReason::Policy);
    }
    Ok(())
}

/// Returns the whole sequence number that the window accepts now.
#[inline]
fn look_up(association: &Inbound, low: u32) -> Result<u64, DropReason> {
    let Inbound { common, window, .. } = association;
    let sequence = match common.extended {
        true => esp::extended_sequence(low, window.highest(), window.size()),
        false => Some(low.into()),
    };
    let sequence = sequence.ok_or(DropReason::EspReplayed)?;
    window.check(sequence).map_err(|_| DropReason::EspReplayed)?;
    Ok(sequence)
}

/// Opens a packet whose sequence number became acceptable within the batch: the packets before it
/// may have moved the window so far that the number counts as one of the next cycle.
#[cold]
fn open_late(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    crypt: &mut Crypt,
    pending: &Pending<'_>,
) -> Result<(Edge, usize), DropReason> {
    let sequence = look_up(&pending.receiver.association, pending.low)?;
    let mut jobs = [Some(pending.job(sequence))];
    crypt.open(memory, &mut jobs);
    let [job] = &jobs;
    let job = job.as_ref().ok_or(DropReason::EspReplayed)?;
    take_out(packet, memory, pending, job)
}

/// Accepts an opened packet, and turns it into the inner packet. Returns its edge and the length of
/// the inner packet.
#[inline]
fn take_out(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    pending: &Pending<'_>,
    job: &Job<'_>,
) -> Result<(Edge, usize), DropReason> {
    let Pending { receiver, low, service, .. } = *pending;
    let association = &receiver.association;
    if !job.done {
        // The packets before it have moved the window: it may be too old by now, forged or not.
        look_up(association, low)?;
        return Err(DropReason::EspForged);
    }
    if association.window.accept(job.sequence).is_err() {
        // The window may have moved so far that the number counts as one of the next cycle. The
        // packet is not authentic under that number.
        let is_another = look_up(association, low)? != job.sequence;
        return Err(if is_another { DropReason::EspForged } else { DropReason::EspReplayed });
    }
    let algorithm = job.transform.algorithm();
    let start = job.start as usize + esp::HEADER + algorithm.iv();
    let plain = memory.get(start..job.end as usize - algorithm.icv());
    let plain = plain.ok_or(DropReason::EspMalformed)?;
    let (inner, next_header) = esp::read_trailer(plain).ok_or(DropReason::EspMalformed)?;
    let (edge, kind, addresses) = match next_header {
        protocol::IPV4 => (INPUT4, ethernet::IPV4, addresses4(inner)),
        protocol::IPV6 => (INPUT6, ethernet::IPV6, addresses6(inner)),
        esp::DUMMY => return Err(DropReason::EspDummy),
        _ => return Err(DropReason::EspMalformed),
    };
    let (source, destination) = addresses.ok_or(DropReason::EspMalformed)?;
    if !receiver.selectors.hold(next_header == protocol::IPV4, source, destination) {
        return Err(DropReason::Policy);
    }
    let length = inner.len();
    let inner = memory.get_mut(start..start + length).ok_or(DropReason::EspMalformed)?;
    if !outer::take_over_ecn(inner, service) {
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

#[inline]
fn addresses4(packet: &[u8]) -> Option<(u128, u128)> {
    let (header, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    (header.version() == 4).then(|| (header.source.get().into(), header.destination.get().into()))
}

#[inline]
fn addresses6(packet: &[u8]) -> Option<(u128, u128)> {
    let (header, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let [source, destination] = [header.source, header.destination].map(u128::from_be_bytes);
    (header.version() == 6).then_some((source, destination))
}
