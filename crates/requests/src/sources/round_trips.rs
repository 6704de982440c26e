//! The round trips that TCP itself measures on a server's connections.
//!
//! A sample is a connection's smoothed round trip (RFC 6298) at a look, where the other end has
//! acknowledged something since the look before. That is the way to the other end and back and
//! what both kernels' receiving adds, interrupt moderation and idle states on this side among it.
//! It is neither the time that a request waits for the application nor the time that this takes;
//! and since each is a mean over some ten segments, its percentiles are those of connections, not
//! of packets.

use super::window::Window;
use super::{LatencySource, LatencySummary, Origin, Refused, latency};
use std::collections::HashMap;
use wattline_units::{Span, Time};

/// Round trips over the last while.
#[derive(Debug)]
pub struct RoundTrips {
    window: Window,
    /// By connection: segments that were acknowledged at the last look.
    delivered: HashMap<u64, u32>,
    refused: Refused,
}

impl RoundTrips {
    /// Looks back so far.
    pub fn new(window: Span) -> Self {
        Self { window: Window::new(window), delivered: HashMap::new(), refused: Refused::default() }
    }

    /// Takes all connections that there are now: each by its name, with its smoothed round trip in
    /// microseconds and the segments that were acknowledged so far.
    pub fn take(&mut self, connections: impl Iterator<Item = (u64, u32, u32)>, now: Time) {
        let mut delivered = HashMap::with_capacity(self.delivered.len());
        for (name, smoothed_micros, count) in connections {
            let before = self.delivered.get(&name).copied();
            delivered.insert(name, count);
            // A connection that is new has sent what was acknowledged at some time before.
            if before.is_none_or(|before| before == count) || smoothed_micros == 0 {
                continue;
            }
            let seconds = f64::from(smoothed_micros) * 1e-6;
            if let Some(span) = latency(seconds, &mut self.refused) {
                self.window.record(span, 1, now);
            }
        }
        self.delivered = delivered;
    }
}

impl LatencySource for RoundTrips {
    fn origin(&self) -> Origin {
        Origin::RoundTrips
    }
    fn summary(&self, now: Time) -> Option<LatencySummary> {
        self.window.summary(now, Origin::RoundTrips)
    }
    fn counts_late(&self) -> bool {
        true
    }
    fn late(&self, now: Time, bound: Span) -> Option<u64> {
        self.window.late(now, bound)
    }
    fn refused(&self) -> Refused {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Quantile;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_sample_is_a_connection_whose_other_end_has_acknowledged_something_since() {
        let mut trips = RoundTrips::new(Span::from_millis(5_000));
        trips.take([(1, 100, 10), (2, 200, 20)].into_iter(), at(1_000));
        assert_eq!(trips.summary(at(1_000)), None, "nobody knows when that was");
        // One goes on, one rests, one is new, one has no round trip yet.
        trips.take([(1, 150, 11), (2, 200, 20), (3, 900, 5), (4, 0, 0)].into_iter(), at(2_000));
        let summary = trips.summary(at(2_500)).unwrap();
        assert_eq!((summary.samples, summary.age), (1, Span::from_millis(500)));
        assert!(matches!(summary.p99, Quantile::Within { estimate, .. }
            if (estimate.as_seconds() - 150e-6).abs() < 1e-6));
        // The counter has 32 bits; a connection that closed is forgotten.
        trips.take([(3, 800, 2), (4, 0, 7)].into_iter(), at(3_000));
        assert_eq!(trips.summary(at(3_000)).unwrap().samples, 2);
        trips.take([(1, 100, 900)].into_iter(), at(3_100));
        assert_eq!(trips.summary(at(3_100)).unwrap().samples, 2);
        // And all are too old some time.
        assert_eq!(trips.summary(at(9_000)), None);
        assert_eq!(trips.summary(at(3_100)).unwrap().origin, Origin::RoundTrips);
    }
}
