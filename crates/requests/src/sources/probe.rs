//! The latency that this crate's own generator measures.

use super::window::Window;
use super::{LatencySource, LatencySummary, Origin, Refused};
use crate::engine::Interval;
use crate::latency::Times;
use wattline_units::{Span, Time};

/// The intervals of a load, over the last while.
#[derive(Debug)]
pub struct ProbeReports {
    window: Window,
}

impl ProbeReports {
    /// Looks back so far; not less than the load's intervals are long.
    pub fn new(window: Span) -> Self {
        Self { window: Window::new(window) }
    }

    /// Takes an interval that ended now, and its latencies.
    pub fn take(&mut self, interval: &Interval, latency: &Times, now: Time) {
        if latency.count() > 0 {
            self.window.add(latency, now);
        }
        if interval.failed_requests > 0 {
            self.window.fail(interval.failed_requests, now);
        }
    }
}

impl LatencySource for ProbeReports {
    fn origin(&self) -> Origin {
        Origin::Probe
    }
    fn summary(&self, now: Time) -> Option<LatencySummary> {
        self.window.summary(now, Origin::Probe)
    }
    fn counts_late(&self) -> bool {
        true
    }
    fn late(&self, now: Time, bound: Span) -> Option<u64> {
        self.window.late(now, bound)
    }
    fn refused(&self) -> Refused {
        Refused::default()
    }
}
