//! Flow records: which flows pass, and how many packets and bytes each has (NetFlow-like
//! monitoring; RFC 7011 to 7015 have the terms).
//!
//! Each worker has a table of IPv4 and one of IPv6 flows ([`worker`]), keyed by addresses,
//! protocol and ports. A flow becomes a [`Record`] when no packet of it came for the idle
//! timeout, when it has been for the active timeout, when its place is needed for another, or
//! when the router stops. Records go to the control thread through a ring of fixed size
//! ([`Records`]). Packets are never held up by it: where the ring is full, a flow that timed out
//! stays in the table and is tried again, so only the record of an *evicted* flow can be lost;
//! its packets and bytes are counted then, so that sums stay exact ([`Totals`]).
//!
//! A flow that moves to another worker has a record from each: counts in records are those since
//! the last record, so they add up.

mod counters;
mod node;
mod observe;
mod record;
mod sampler;
mod table;
#[cfg(test)]
mod tests;

pub use counters::Totals;
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
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::graph::Node;

/// What is recorded, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Flows that each table has room for; rounded up to a power of two.
    pub flows: usize,
    /// A flow that lasts longer gives a record this often.
    pub active: Duration,
    /// A flow without a packet for so long has ended; at most an hour.
    pub idle: Duration,
    /// One in so many packets is looked at.
    pub sampling_interval: u32,
    /// Which one.
    pub sampling: Sampling,
    /// By port number: whether what comes in there is recorded; empty for all.
    pub ports: Vec<bool>,
    /// Where packets are seen.
    pub place: Place,
    /// Records that may wait for the control thread, of each worker and family.
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

/// What comes from one worker.
pub struct Records {
    rings: [Consumer<Record>; 2],
    counters: [Arc<Counters>; 2],
    rest: Receiver<Vec<Record>>,
}

impl Records {
    /// Gives `take` what waits, at most `most`, and says how many there were.
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

    /// After the worker's end: the flows that were still in its tables.
    pub fn take_rest(&mut self, mut take: impl FnMut(&Record)) {
        self.rest.try_iter().flatten().for_each(|record| take(&record));
    }

    /// What was counted, IPv4 and IPv6.
    pub fn totals(&self) -> [Totals; 2] {
        [self.counters[0].totals(), self.counters[1].totals()]
    }
}

/// The nodes of one worker, and where its records come out.
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
