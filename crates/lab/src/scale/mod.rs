//! A router on the platform `scale`, between a generator and a listener in this process.
//!
//! Real frames of a [`Source`] go through cards in memory, workers that behave like the cores
//! of a server model, and the routes of the real data plane; a listener at the far end counts
//! them by flow and sequence number. Without root, without interfaces. All times and rates of
//! a source are model time.

mod feed;
mod frames;
mod listener;
mod router;

pub use listener::Heard;

use crate::Error;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use wattline_control::governor::account::Interval;
use wattline_control::governor::ledger::Entry;
use wattline_control::scale::{Holds, Record, Scale, Setting};
use wattline_dataplane::counters::Snapshot;
use wattline_traffic::Source;
use wattline_units::{Span, Time};

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server, its governor and its dilation.
    pub setting: Setting,
    /// Model time that is recorded.
    pub duration: Span,
    /// Model time before that, which is not.
    pub warmup: Span,
    /// Model time of an interval.
    pub interval: Span,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The policy's name.
    pub policy: &'static str,
    /// How many times as long everything lasted.
    pub scale: u32,
    /// What the loop recorded.
    #[serde(flatten)]
    pub record: Record,
    /// What became of every frame, by sequence numbers, from the start to the last one.
    pub delivery: Delivery,
    /// What was held back to keep flows in order, from the start to the last frame.
    pub holds: Holds,
    /// Longest real time by which the generator put a frame on the wire too late.
    pub feed_lateness_max_seconds: f64,
    /// What became of the steps, by knob.
    pub knobs: Vec<Entry>,
    /// What the workers counted.
    #[serde(skip)]
    pub workers: Snapshot,
}

impl Outcome {
    /// Whether this machine was so busy that figures may show it.
    pub fn is_disturbed(&self) -> bool {
        self.feed_lateness_max_seconds > 0.0 || self.record.disturbance.is_disturbed()
    }
}

/// What became of the frames that were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// Frames that the links carried to the router.
    pub sent_packets: u64,
    /// Frames that the source made beyond what the links carry.
    pub beyond_link_packets: u64,
    /// Frames that found their ring of the model full.
    pub dropped_packets: u64,
    /// What the listener heard.
    #[serde(flatten)]
    pub heard: Heard,
}

impl Delivery {
    /// Frames that are neither delivered nor dropped by a full ring: a defect.
    pub fn lost_packets(&self) -> i64 {
        let found = self.heard.received_packets + self.dropped_packets;
        self.sent_packets as i64 - found as i64
    }
}

/// Runs a plan with the packets of a source; `each` sees every interval as it ends, with the
/// running emulation.
///
/// # Errors
/// When the setting contradicts itself, the packets cannot be had, or threads cannot be made.
pub fn run(
    plan: &Plan,
    source: Box<dyn Source>,
    mut each: impl FnMut(&Interval, &Scale),
) -> Result<Outcome, Error> {
    let mut router = router::Router::new(&plan.setting)?;
    let end = Time::ZERO + plan.warmup + plan.duration;
    let mut feed = feed::Feed::new(router.card(), source, end);
    // What comes first is on the wire before time runs.
    feed.send_ahead()?;
    router.start()?;
    let stop = AtomicBool::new(false);
    let (record, fed) = std::thread::scope(|scope| {
        let router = &router;
        let sender = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn_scoped(scope, || feed.run(router.scale().clock(), &stop))
            .map_err(|source| wattline_testbed::Error::io("starting the generator", source))?;
        let from = Time::ZERO + plan.warmup;
        let record = router.scale().record(from, plan.duration, plan.interval, |interval| {
            each(interval, router.scale());
        });
        stop.store(true, Ordering::Release);
        let fed = sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, Error>((record?, fed?))
    })?;
    router.finish(record, fed)
}
