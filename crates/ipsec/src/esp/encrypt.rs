//! `esp4-encrypt`, `esp6-encrypt`: send packets through tunnels.
//!
//! A protected packet is forwarded into the tunnel: its TTL is decremented, and it must fit the
//! path of the outer packet. If it is too long and may be fragmented, it is fragmented before
//! encryption, so that the peer need not reassemble the outer packet. Otherwise its sender is
//! notified (RFC 4301 section 8). The sequence numbers for all packets of a batch with the same SA
//! are taken at once. The outer packet is then routed by its own destination.
//!
//! - next: `ip4-lookup`, `ip6-lookup` (outer packets; ICMP errors), itself (fragments),
//!   `icmp4-error`, `icmp6-error` (`ttl-expired`), `drop` (`too-big`, `ipsec-policy`,
//!   `ipsec-no-association`, `esp-expired`, `esp-sequence-exhausted`, `no-headroom`), and the next
//!   node at its place (packets that no policy protects)

use super::association::{DontFragment, Outbound};
use super::crypt::Crypt;
use super::database::{Database, Reader};
use super::job::Job;
use super::outer::{self, Inner};
use super::policy::{Decision, Memory};
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::forwarding::HopKind;
use wattline_dataplane::frame::{BATCH_MAX, ChunkMemory};
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::nodes::{Icmp4Error, Icmp6Error, fragment};
use wattline_dataplane::packet::{Packet, Protection};
use wattline_dataplane::token_bucket::TokenBucket;
use wattline_fib::NextHopId;
use wattline_packet::checksum::TtlAndChecksum;
use wattline_packet::esp::{self, EspHeader, TRAILER};
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::ipv6::{self, Ipv6Header};
use wattline_packet::{FromBytes, IntoBytes, ethernet, protocol};

const PASS: Edge = 0;
const LOOKUP4: Edge = 1;
const LOOKUP6: Edge = 2;
const AGAIN: Edge = 3;
const ERROR: Edge = 4;
const DROP: Edge = 5;

pub(super) const NAME4: &str = "esp4-encrypt";
pub(super) const NAME6: &str = "esp6-encrypt";

/// Node for inner packets of one IP version.
pub(super) struct EspEncrypt {
    database: Reader,
    memory: Memory,
    crypt: Crypt,
    ipv4: bool,
    icmp4: Icmp4Error,
    icmp6: Icmp6Error,
}

/// A packet on its way into a tunnel.
#[derive(Clone, Copy)]
struct Bound {
    tunnel: u16,
    /// Length of the inner packet in bytes.
    length: u16,
    inner: Inner,
}

/// Header fields of an inner packet.
struct Header {
    source: u128,
    destination: u128,
    length: usize,
    hops: u8,
    service: u8,
    dont_fragment: bool,
}

impl EspEncrypt {
    pub fn new(database: Reader, ipv4: bool, icmp_rate: u32, icmp_burst: u32) -> Self {
        let bucket = TokenBucket::new(icmp_rate, icmp_burst);
        let (icmp4, icmp6) = (Icmp4Error::new(bucket.clone()), Icmp6Error::new(bucket));
        Self { database, memory: Memory::new(), crypt: Crypt::new(), ipv4, icmp4, icmp6 }
    }
}

impl Node for EspEncrypt {
    fn name(&self) -> &'static str {
        if self.ipv4 { NAME4 } else { NAME6 }
    }

    fn next(&self) -> &'static [&'static str] {
        if self.ipv4 {
            &[NEXT, "ip4-lookup", "ip6-lookup", NAME4, "icmp4-error", "drop"]
        } else {
            &[NEXT, "ip4-lookup", "ip6-lookup", NAME6, "icmp6-error", "drop"]
        }
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let Self { database, memory: decisions, crypt, ipv4, icmp4, icmp6 } = self;
        let database: &Database = database.load();
        let policies = if *ipv4 { &database.ipv4 } else { &database.ipv6 };
        let mut bound = [None; BATCH_MAX];
        let mut path = PathMtu { tunnel: None, mtu: 0 };
        let mut any = false;
        edges.fill(PASS);
        for ((packet, edge), bound) in packets.iter_mut().zip(&mut *edges).zip(&mut bound) {
            if packet.protection == Protection::Encrypted {
                continue;
            }
            let Some(header) = header_of(packet, context.pool.memory(), *ipv4) else {
                (packet.reason, *edge) = (DropReason::Truncated, DROP);
                continue;
            };
            let result = match decisions.decide(policies, header.source, header.destination) {
                Decision::Bypass if packet.protection == Protection::Confidential => {
                    Err(DropReason::Policy)
                }
                Decision::Bypass => continue,
                Decision::Discard => Err(DropReason::Policy),
                Decision::Protect(tunnel) => match database.outbound.get(usize::from(tunnel)) {
                    Some(Some(association)) => {
                        fit(context, packet, association, tunnel, &header, &mut path, *ipv4)
                    }
                    _ => Err(DropReason::NoAssociation),
                },
            };
            match result {
                Ok(Fit::Fits(one)) => {
                    *bound = Some(one);
                    any = true;
                    // Until it is encrypted, the packet is marked as dropped: it must not leave in
                    // any other way.
                    (packet.reason, *edge) = (DropReason::NoAssociation, DROP);
                }
                Ok(Fit::Cut) => *edge = AGAIN,
                Ok(Fit::Expired) => (packet.reason, *edge) = (DropReason::TtlExpired, ERROR),
                Ok(Fit::TooBig(mtu)) => {
                    (packet.reason, *edge) = (DropReason::TooBig, DROP);
                    let (made, to) = match *ipv4 {
                        true => (icmp4.report(context, packet, mtu), LOOKUP4),
                        false => (icmp6.report(context, packet, mtu), LOOKUP6),
                    };
                    if let Some(made) = made {
                        context.spawn(to, made);
                    }
                }
                Err(reason) => (packet.reason, *edge) = (reason, DROP),
            }
        }
        if any {
            let bound = &mut bound[..packets.len()];
            protect(context, database, crypt, packets, edges, bound, *ipv4);
        }
    }
}

/// Returns the header fields of a packet; padding after it does not count.
#[inline]
fn header_of(packet: &Packet, memory: &ChunkMemory, is_ipv4: bool) -> Option<Header> {
    let bytes = packet.network_bytes(memory);
    if is_ipv4 {
        let (header, _) = Ipv4Header::ref_from_prefix(bytes).ok()?;
        let length = usize::from(header.total_length.get());
        (ipv4::HEADER..=bytes.len()).contains(&length).then(|| Header {
            source: header.source.get().into(),
            destination: header.destination.get().into(),
            length,
            hops: header.ttl,
            service: header.service,
            dont_fragment: header.dont_fragment(),
        })
    } else {
        let (header, _) = Ipv6Header::ref_from_prefix(bytes).ok()?;
        (header.total_length() <= bytes.len()).then(|| Header {
            source: u128::from_be_bytes(header.source),
            destination: u128::from_be_bytes(header.destination),
            length: header.total_length(),
            hops: header.hop_limit,
            service: (header.version_class_flow.get() >> 20) as u8,
            dont_fragment: true,
        })
    }
}

/// Longest inner packet of the tunnel of the last packet.
struct PathMtu {
    tunnel: Option<u16>,
    mtu: usize,
}

/// Result of comparing a packet with its tunnel's MTU.
enum Fit {
    Fits(Bound),
    /// The packet is now the first of several fragments, which come back to this node.
    Cut,
    Expired,
    /// The packet is too long; its sender must send at most this many bytes.
    TooBig(u16),
}

fn fit(
    context: &mut Context,
    packet: &mut Packet,
    association: &Arc<Outbound>,
    tunnel: u16,
    header: &Header,
    path: &mut PathMtu,
    is_ipv4: bool,
) -> Result<Fit, DropReason> {
    if header.hops <= 1 {
        return Ok(Fit::Expired);
    }
    if path.tunnel != Some(tunnel) {
        let (_, hop) = context.routes.resolve(association.common.remote, 0);
        let most = match hop.kind {
            HopKind::Forward => hop.mtu.min(association.mtu),
            _ => association.mtu,
        };
        let mtu = association.common.inner_mtu(most.into());
        *path = PathMtu { tunnel: Some(tunnel), mtu };
    }
    let mut dont_fragment = match association.dont_fragment {
        DontFragment::Copy => header.dont_fragment,
        DontFragment::Set => true,
        DontFragment::Clear => false,
    };
    if header.length > path.mtu {
        // A router neither reports an MTU below the least that IP requires of a link nor fragments
        // to less. In that case the outer packet is fragmented instead (RFC 2473 section 7.1).
        let least = if is_ipv4 { 68 } else { ipv6::MINIMUM_MTU };
        let mtu = path.mtu.max(least) as u16;
        let outer_may_be_cut = association.common.remote.is_ipv4();
        let may_be_cut = is_ipv4 && !header.dont_fragment;
        if may_be_cut && path.mtu >= least {
            return fragment(context, packet, mtu, AGAIN).map(|()| Fit::Cut);
        }
        if outer_may_be_cut && (header.length <= least || !dont_fragment) {
            dont_fragment = false;
        } else if may_be_cut {
            // Packets that may be fragmented get no ICMP error.
            return Err(DropReason::TooBig);
        } else {
            return Ok(Fit::TooBig(mtu));
        }
    }
    let inner = Inner { service: header.service, dont_fragment };
    Ok(Fit::Fits(Bound { tunnel, length: header.length as u16, inner }))
}

/// Takes sequence numbers for all packets that go into tunnels, and sends the packets.
fn protect(
    context: &mut Context,
    database: &Database,
    crypt: &mut Crypt,
    packets: &mut [Packet],
    edges: &mut [Edge],
    bound: &mut [Option<Bound>],
    is_ipv4: bool,
) {
    let chunk = context.pool.chunk_size() as usize;
    let memory = context.pool.memory();
    let mut jobs = [None; BATCH_MAX];
    let jobs = &mut jobs[..bound.len()];
    for first in 0..bound.len() {
        let Some(Bound { tunnel, .. }) = bound[first] else { continue };
        // Handled with the first packet of its tunnel.
        if jobs[first].is_some() {
            continue;
        }
        let Some(Some(association)) = database.outbound.get(usize::from(tunnel)) else { continue };
        let wanted = bound.iter().flatten().filter(|one| one.tunnel == tunnel).count() as u32;
        let common = &association.common;
        let (mut left, mut next, refusal) = if common.is_at_end() {
            (0, 0, DropReason::EspExpired)
        } else {
            let taken = association.sequence.take(wanted);
            (taken.count, taken.first, DropReason::EspExhausted)
        };
        for place in first..bound.len() {
            let Some(one) = bound[place].filter(|one| one.tunnel == tunnel) else { continue };
            let result = if left == 0 {
                Err(refusal)
            } else {
                let sequence = next;
                next += 1;
                left -= 1;
                prepare(&packets[place], memory, chunk, association, &one, sequence, is_ipv4)
            };
            match result {
                Ok(job) => jobs[place] = Some(job),
                Err(reason) => {
                    bound[place] = None;
                    common.counters.drop(reason);
                    (packets[place].reason, edges[place]) = (reason, DROP);
                }
            }
        }
    }
    crypt.seal(memory, jobs);
    for first in 0..bound.len() {
        let Some(Bound { tunnel, .. }) = bound[first] else { continue };
        let Some(Some(association)) = database.outbound.get(usize::from(tunnel)) else { continue };
        let counters = &association.common.counters;
        let mut sent = (0, 0);
        for place in first..bound.len() {
            let Some(one) = bound[place].take_if(|one| one.tunnel == tunnel) else { continue };
            let Some(job) = &jobs[place] else { continue };
            edges[place] = match finish(&mut packets[place], memory, association, one.inner, job) {
                Ok(edge) => {
                    sent = (sent.0 + 1, sent.1 + u64::from(one.length));
                    edge
                }
                Err(reason) => {
                    counters.drop(reason);
                    packets[place].reason = reason;
                    DROP
                }
            };
        }
        counters.add(sent.0, sent.1);
    }
}

/// Builds the ESP packet around the inner one, in place, ready to be sealed.
#[inline]
fn prepare<'d>(
    packet: &Packet,
    memory: &mut ChunkMemory,
    chunk: usize,
    association: &'d Outbound,
    bound: &Bound,
    sequence: u64,
    is_ipv4: bool,
) -> Result<Job<'d>, DropReason> {
    let common = &association.common;
    let algorithm = common.transform.algorithm();
    let inner = packet.network_offset();
    let length = usize::from(bound.length);
    let trailer = esp::padding(length, algorithm.alignment()) + TRAILER;
    let begin = inner - inner % chunk;
    let start = inner.checked_sub(common.before() + ethernet::HEADER);
    start.filter(|start| *start >= begin).ok_or(DropReason::NoHeadroom)?;
    let head = esp::HEADER + algorithm.iv();
    let end = inner + length + trailer + algorithm.icv();
    if end > begin + chunk {
        return Err(DropReason::NoHeadroom);
    }
    // Not below the start of the frame, which was checked.
    let start = inner - head;
    let bytes = memory.get_mut(start..end).ok_or(DropReason::NoHeadroom)?;
    let (head, body) = bytes.split_at_mut(head);
    let (payload, rest) = body.split_at_mut(length);
    decrement(payload, is_ipv4);
    let next_header = if is_ipv4 { protocol::IPV4 } else { protocol::IPV6 };
    esp::write_trailer(&mut rest[..trailer], next_header);
    let header = EspHeader { spi: common.spi.into(), sequence: (sequence as u32).into() };
    header.write_to_prefix(head).map_err(|_| DropReason::NoHeadroom)?;
    Ok(Job {
        transform: &common.transform,
        sequence,
        unique: sequence.wrapping_add(association.iv_offset),
        // Offsets of frames, which have 32 bits.
        start: start as u32,
        end: end as u32,
        extended: common.extended,
        done: false,
    })
}

/// Writes the headers before a sealed ESP packet, and turns the frame into the outer packet.
#[inline]
fn finish(
    packet: &mut Packet,
    memory: &mut ChunkMemory,
    association: &Outbound,
    inner: Inner,
    job: &Job<'_>,
) -> Result<Edge, DropReason> {
    if !job.done {
        return Err(DropReason::EspMalformed);
    }
    let common = &association.common;
    let before = common.before() - esp::HEADER - job.transform.algorithm().iv() + ethernet::HEADER;
    let (start, end) = (job.start as usize - before, job.end as usize);
    let frame = memory.get_mut(start..end).ok_or(DropReason::NoHeadroom)?;
    let (link, outer) = frame.split_at_mut(ethernet::HEADER);
    outer::write(outer, association, inner, job.sequence).ok_or(DropReason::EspMalformed)?;
    let (kind, edge) = match common.remote.is_ipv4() {
        true => (ethernet::IPV4, LOOKUP4),
        false => (ethernet::IPV6, LOOKUP6),
    };
    link[ethernet::HEADER - 2..].copy_from_slice(&kind.to_be_bytes());
    packet.frame.offset = start as u32;
    packet.frame.length = u16::try_from(end - start).map_err(|_| DropReason::BadLength)?;
    packet.vlan_in = 0;
    packet.next_hop = NextHopId::NONE;
    packet.protection = Protection::Encrypted;
    Ok(edge)
}

/// Decrements the TTL, since the tunnel is one hop. The caller has checked that it does not expire.
fn decrement(packet: &mut [u8], is_ipv4: bool) {
    if is_ipv4 {
        if let Some(bytes) = packet.get_mut(8..12).and_then(|bytes| bytes.first_chunk_mut::<4>()) {
            *bytes = TtlAndChecksum::from_bytes(*bytes).decremented().to_bytes();
        }
    } else if let Some(hops) = packet.get_mut(7) {
        *hops = hops.saturating_sub(1);
    }
}
