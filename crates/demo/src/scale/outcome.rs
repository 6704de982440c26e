//! What is run, and what comes of it.

use super::listener::Heard;
use serde::Serialize;
use wattline_dataplane::counters::Snapshot;
use wattline_governor::ledger::Entry;
use wattline_scale::{Holds, Record, Setting};
use wattline_units::Span;

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
