//! `ip4-flow-records` and `ip6-flow-records`: count each packet in its flow.
//!
//! Packets are neither changed nor dropped. The node passes over a batch three times, so that
//! memory is prefetched before it is needed: from headers to keys, from keys to places in the
//! table, and counting. A sweep over the whole table finds idle flows once a second, in parts at
//! each tick.
//!
//! - next: the next node at its place

use super::counters::Counters;
use super::observe::{Family, Observation};
use super::record::{EndReason, Flow, NOWHERE, Record};
use super::sampler::Sampler;
use super::table::{Change, Outlet, Table, Timeouts};
use rtrb::Producer;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};
use wattline_dataplane::feature::NEXT;
use wattline_dataplane::forwarding::{Hop, HopKind};
use wattline_dataplane::frame::BATCH_MAX;
use wattline_dataplane::graph::{Context, Edge, Node};
use wattline_dataplane::packet::Packet;
use wattline_dataplane::port::PortId;
use wattline_units::Time;

/// Duration of a sweep over the whole table, in milliseconds.
const SWEEP: u64 = 1000;

pub(super) struct FlowNode<F, const N: usize> {
    pub table: Table<N>,
    pub sampler: Sampler,
    pub timeouts: Timeouts,
    /// True for each port on which arriving flows are recorded, by port number; empty for all
    /// ports.
    pub ports: Box<[bool]>,
    /// True if the node sees packets whose egress port is known. Packets that will not be sent are
    /// then in no flow.
    pub routed: bool,
    pub outlet: RingOutlet,
    /// Channel for the remaining flows when the worker ends.
    pub rest: Sender<Vec<Record>>,
    seen: Box<[Observation<N>; BATCH_MAX]>,
    swept: u64,
    family: PhantomData<F>,
}

/// Channel to the control thread.
pub(super) struct RingOutlet {
    pub ring: Producer<Record>,
    pub counters: Arc<Counters>,
    /// UNIX time in milliseconds at which the worker's time began. It changes when the system clock
    /// is set.
    pub epoch_millis: Option<u64>,
    /// The worker's time in milliseconds.
    pub now: u64,
}

impl RingOutlet {
    fn epoch(&mut self) -> u64 {
        let now = self.now;
        *self.epoch_millis.get_or_insert_with(|| {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (unix.as_millis() as u64).saturating_sub(now)
        })
    }
}

impl<const N: usize> Outlet<N> for RingOutlet {
    fn give(&mut self, flow: &Flow<N>, end: EndReason) -> bool {
        let record = flow.record(self.epoch(), end);
        let taken = self.ring.push(record).is_ok();
        if taken {
            self.counters.given(end, flow.packets, flow.bytes);
        }
        taken
    }

    fn lose(&mut self, flow: &Flow<N>) {
        self.counters.lost(flow.packets, flow.bytes);
    }
}

impl<F: Family<N>, const N: usize> FlowNode<F, N> {
    pub fn new(
        table: Table<N>,
        sampler: Sampler,
        timeouts: Timeouts,
        ports: Box<[bool]>,
        routed: bool,
        outlet: RingOutlet,
        rest: Sender<Vec<Record>>,
    ) -> Self {
        let seen = Box::new([Observation::EMPTY; BATCH_MAX]);
        Self {
            table,
            sampler,
            timeouts,
            ports,
            routed,
            outlet,
            rest,
            seen,
            swept: 0,
            family: PhantomData,
        }
    }

    #[inline]
    fn is_observed(&mut self, port: PortId) -> bool {
        (self.ports.is_empty() || self.ports.get(usize::from(port.0)).copied().unwrap_or(false))
            && (self.sampler.takes_all() || self.sampler.take())
    }
}

fn millis(time: Time) -> u64 {
    time.as_millis()
}

/// Egress port of a next hop.
#[inline]
fn port_out(hops: &[Hop], id: u16) -> u16 {
    let hop = hops.get(usize::from(id)).filter(|hop| hop.kind == HopKind::Forward);
    hop.map_or(NOWHERE, |hop| hop.port.0)
}

/// Returns true if a packet will be answered by an ICMP error instead of being sent: its TTL has
/// expired, or it is longer than the MTU of its egress port and may not be fragmented
/// (`ip4-rewrite`, `ip6-rewrite`).
#[inline]
fn is_refused<const N: usize>(hops: &[Hop], seen: &Observation<N>) -> bool {
    let hop = hops.get(usize::from(seen.next_hop)).filter(|hop| hop.kind == HopKind::Forward);
    hop.is_some_and(|hop| (seen.lifetime <= 1) | ((seen.bytes > hop.mtu) & !seen.fragmentable))
}

impl<F: Family<N>, const N: usize> Node for FlowNode<F, N> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn next(&self) -> &'static [&'static str] {
        &[NEXT]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        edges.fill(0);
        let Context { pool, routes, .. } = context;
        let memory = &*pool.memory();
        let mut count = 0;
        let (mut bytes, mut unreadable, mut refused) = (0_u64, 0, 0);
        let hops = routes.table().hops();
        for packet in packets.iter() {
            if !self.is_observed(packet.frame.port_in) {
                continue;
            }
            let Some(mut seen) = F::observe(packet, memory) else {
                unreadable += 1;
                continue;
            };
            if self.routed && is_refused(hops, &seen) {
                refused += 1;
                continue;
            }
            seen.hash = self.table.hash(&seen.key);
            self.table.prefetch_bucket(seen.hash);
            bytes += u64::from(seen.bytes);
            self.seen[count] = seen;
            count += 1;
        }
        let Self { table, seen, timeouts, outlet, .. } = self;
        for seen in &seen[..count] {
            table.prefetch_flow(seen.hash);
        }
        let now = millis(context.now);
        outlet.now = now;
        let mut created = 0;
        for seen in &seen[..count] {
            let out = || port_out(hops, seen.next_hop);
            let change = table.count(seen, now, *timeouts, out, outlet);
            created += u64::from(change != Change::Updated);
        }
        let counters = &outlet.counters;
        counters.packets.add(count as u64);
        counters.bytes.add(bytes);
        counters.passed_by.add(packets.len() as u64 - count as u64 - unreadable - refused);
        counters.refused.add(refused);
        counters.unreadable.add(unreadable);
        counters.flows_created.add(created);
        counters.flows_live.set(table.live() as u64);
    }

    fn tick(&mut self, context: &mut Context) {
        let now = millis(context.now);
        // The system clock may be set, so the epoch is computed again at every tick.
        self.outlet.epoch_millis = None;
        self.outlet.now = now;
        let buckets = self.table.buckets() as u64;
        let due = (now.saturating_sub(self.swept).min(SWEEP) * buckets / SWEEP) as usize;
        if due == 0 {
            return;
        }
        self.swept = now;
        self.table.sweep(due, now, self.timeouts, &mut self.outlet);
        self.outlet.counters.flows_live.set(self.table.live() as u64);
    }

    fn shut_down(&mut self, _: &mut Context) {
        let epoch = self.outlet.epoch();
        let mut rest = Vec::with_capacity(self.table.live());
        let counters = self.outlet.counters.clone();
        self.table.drain(|flow| {
            counters.given(EndReason::Forced, flow.packets, flow.bytes);
            rest.push(flow.record(epoch, EndReason::Forced));
        });
        counters.flows_live.set(0);
        if let Err(unsent) = self.rest.send(rest) {
            // There is no receiver: the router runs without a control thread.
            for record in unsent.0 {
                counters.taken_back(record.packets, record.bytes);
            }
        }
    }
}
