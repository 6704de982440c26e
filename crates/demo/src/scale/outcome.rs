//! Plan and result of a run.

use super::listener::ListenerCounts;
use serde::Serialize;
use wattline_dataplane::counters::Snapshot;
use wattline_governor::ledger::Entry;
use wattline_scale::{Holds, Record, Setting};
use wattline_units::Span;

/// Plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Server, policy and dilation.
    pub setting: Setting,
    /// Recorded model time.
    pub duration: Span,
    /// Model time before the recorded part.
    pub warmup: Span,
    /// Length of an interval in model time.
    pub interval: Span,
}

impl Plan {
    /// Returns the same run for the simulator, with these intervals.
    pub fn simulated(&self, interval: Option<Span>) -> wattline_sim::Setting<'_> {
        let Setting { server, application, policy, mean_bytes, seed, .. } = &self.setting;
        wattline_sim::Setting {
            application: *application,
            mean_bytes: *mean_bytes,
            warmup: self.warmup,
            interval,
            seed: *seed,
            ..wattline_sim::Setting::new(server, policy.clone(), self.duration)
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Name of the policy.
    pub policy: &'static str,
    /// Dilation: real time divided by model time.
    pub scale: u32,
    /// Record of the control loop.
    #[serde(flatten)]
    pub record: Record,
    /// Fate of every frame by sequence number, from the first to the last one.
    pub delivery: Delivery,
    /// Packets held back to keep flows in order, from the first to the last frame.
    pub holds: Holds,
    /// Longest delay of the generator in real time.
    pub feed_lateness_max_seconds: f64,
    /// Outcomes of the steps, by knob.
    pub knobs: Vec<Entry>,
    /// Counters of the workers.
    #[serde(skip)]
    pub workers: Snapshot,
}

impl Outcome {
    /// Returns the reason why the figures may be affected, if this machine was too busy.
    pub fn disturbed_because(&self) -> Option<String> {
        let late = self.feed_lateness_max_seconds;
        let late = (late > 0.0).then(|| format!("the generator was {:.1} ms late", late * 1e3));
        let reasons: Vec<_> = late.into_iter().chain(self.record.disturbance.reasons()).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Returns true if this machine was so busy that the figures may be affected.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed_because().is_some()
    }
}

/// Fate of the frames that were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// Frames that the links carried to the router.
    pub sent_packets: u64,
    /// Frames of the source beyond the capacity of the links.
    pub beyond_link_packets: u64,
    /// Frames dropped because their modelled ring was full.
    pub dropped_packets: u64,
    /// Counts of the listener.
    #[serde(flatten)]
    pub heard: ListenerCounts,
}

impl Delivery {
    /// Frames neither delivered nor dropped by a full ring: a defect.
    pub fn lost_packets(&self) -> i64 {
        let found = self.heard.received_packets + self.dropped_packets;
        self.sent_packets as i64 - found as i64
    }
}
