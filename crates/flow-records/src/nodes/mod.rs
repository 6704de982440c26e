//! Flow records: passing flows with their packets and bytes (NetFlow-like monitoring; RFC 7011 to
//! 7015 define the terms).
//!
//! Each worker has one table of IPv4 flows and one of IPv6 flows ([`worker`]), with addresses,
//! protocol and ports as key. A flow becomes a [`Record`] when no packet of it came for the idle
//! timeout, when it has lasted for the active timeout, when its place is needed for another flow,
//! or when the router stops. Records go to the control thread through a ring of fixed size
//! ([`Records`]). The ring never delays packets. If it is full, a flow that timed out stays in the
//! table and is tried again. Only the record of an *evicted* flow can be lost. Its packets and
//! bytes are then counted, so that the sums stay exact ([`FlowCounts`]).
//!
//! A flow that moves to another worker has a record from each worker. Each counts since the flow's
//! last record, so they add up.

mod counters;
mod node;
mod observe;
mod record;
mod sampler;
mod table;
#[cfg(test)]
mod tests;

pub use record::{EndReason, Record};
pub use sampler::Sampling;

use counters::Counters;
use node::{FlowNode, RingOutlet};
use observe::{Family, Ipv4, Ipv6};
use rtrb::{Consumer, RingBuffer};
use sampler::Sampler;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use table::{Table, Timeouts};
use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::graph::Node;
use wattline_status::applications::FlowCounts;

/// Settings of the flow records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Capacity of each table in flows; rounded up to a power of two.
    pub flows: usize,
    /// Interval between the records of a long flow (active timeout).
    pub active: Duration,
    /// Time without a packet after which a flow has ended (idle timeout); at most an hour.
    pub idle: Duration,
    /// Sampling interval: one packet in this many is counted.
    pub sampling_interval: u32,
    /// Choice of the sampled packet within an interval.
    pub sampling: Sampling,
    /// True for each port on which arriving packets are recorded, by port number; empty for all
    /// ports.
    pub ports: Vec<bool>,
    /// Place in the graph at which packets are seen.
    pub place: Place,
    /// Capacity in records of the ring to the control thread, for each worker and IP version.
    pub ring: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flows: 1 << 16,
            active: Duration::from_secs(60),
            idle: Duration::from_secs(15),
            sampling_interval: 1,
            sampling: Sampling::Deterministic,
            ports: Vec::new(),
            place: Place::Routed,
            ring: 1 << 14,
        }
    }
}

/// Receiver of the records of one worker.
pub struct Records {
    rings: [Consumer<Record>; 2],
    counters: [Arc<Counters>; 2],
    rest: Receiver<Vec<Record>>,
}

impl Records {
    /// Passes at most `most` waiting records to `take`, and returns their number.
    pub fn take(&mut self, most: usize, mut take: impl FnMut(&Record)) -> usize {
        let mut taken = 0;
        for ring in &mut self.rings {
            while taken < most
                && let Ok(record) = ring.pop()
            {
                take(&record);
                taken += 1;
            }
        }
        taken
    }

    /// Passes the flows that were still in the tables when the worker ended.
    pub fn take_rest(&mut self, mut take: impl FnMut(&Record)) {
        self.rest.try_iter().flatten().for_each(|record| take(&record));
    }

    /// Returns the counts of IPv4 and of IPv6.
    pub fn totals(&self) -> [FlowCounts; 2] {
        self.counters.each_ref().map(|counters| counters.map(Counter::get))
    }
}

/// Returns the nodes of one worker, and the receiver of its records.
pub fn worker(settings: &Settings) -> (Feature, Records) {
    let (rest_in, rest) = channel();
    let (ipv4, ring4, counters4) = node::<Ipv4, 2>(settings, rest_in.clone());
    let (ipv6, ring6, counters6) = node::<Ipv6, 5>(settings, rest_in);
    let feature = Feature {
        place: settings.place,
        ipv4: Some(Ipv4::NAME),
        ipv6: Some(Ipv6::NAME),
        nodes: vec![ipv4, ipv6],
    };
    (feature, Records { rings: [ring4, ring6], counters: [counters4, counters6], rest })
}

fn node<F: Family<N> + 'static, const N: usize>(
    settings: &Settings,
    rest: Sender<Vec<Record>>,
) -> (Box<dyn Node>, Consumer<Record>, Arc<Counters>) {
    let (ring, records) = RingBuffer::new(settings.ring);
    let counters = Arc::new(Counters::default());
    let millis = |duration: Duration| duration.as_millis() as u64;
    let node = FlowNode::<F, N>::new(
        Table::new(settings.flows),
        Sampler::new(settings.sampling_interval, settings.sampling),
        Timeouts { active: millis(settings.active), idle: millis(settings.idle) },
        settings.ports.clone().into(),
        settings.place == Place::Routed,
        RingOutlet { ring, counters: counters.clone(), epoch_millis: None, now: 0 },
        rest,
    );
    (Box::new(node), records, counters)
}
