//! Round-trip times that TCP itself measures on a server's connections.
//!
//! Connections are read periodically. If the peer has acknowledged a segment since the last
//! reading, the connection's smoothed round-trip time (RFC 6298) is a sample. It covers the path to
//! the peer and back, and the receive path of both kernels, including interrupt moderation and idle
//! states on this side. It covers neither the time that a request waits for the application nor its
//! processing. Each sample is a mean over some ten segments, so the percentiles describe
//! connections, not packets.

use super::window::Window;
use super::{LatencySource, LatencySummary, Origin, Refused, latency};
use std::collections::HashMap;
use wattline_units::{Span, Time};

/// Round trips in a time window.
#[derive(Debug)]
pub struct RoundTrips {
    window: Window,
    /// Acknowledged segments at the last reading, by connection.
    delivered: HashMap<u64, u32>,
    refused: Refused,
}

impl RoundTrips {
    /// Creates a source with a window of this length.
    pub fn new(window: Span) -> Self {
        Self { window: Window::new(window), delivered: HashMap::new(), refused: Refused::default() }
    }

    /// Takes a reading of all present connections: an id, the smoothed round-trip time in
    /// microseconds, and the number of segments acknowledged so far.
    pub fn take(&mut self, connections: impl Iterator<Item = (u64, u32, u32)>, now: Time) {
        let mut delivered = HashMap::with_capacity(self.delivered.len());
        for (id, smoothed_micros, count) in connections {
            let before = self.delivered.get(&id).copied();
            delivered.insert(id, count);
            // The segments of a new connection may have been acknowledged long ago.
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
    fn connection_with_new_acknowledgements_is_sampled() {
        let mut trips = RoundTrips::new(Span::from_millis(5_000));
        trips.take([(1, 100, 10), (2, 200, 20)].into_iter(), at(1_000));
        assert_eq!(trips.summary(at(1_000)), None, "the time of those acknowledgements is unknown");
        // The first continues, the second is idle, the third is new, the fourth has no round trip
        // yet.
        trips.take([(1, 150, 11), (2, 200, 20), (3, 900, 5), (4, 0, 0)].into_iter(), at(2_000));
        let summary = trips.summary(at(2_500)).unwrap();
        assert_eq!((summary.samples, summary.age), (1, Span::from_millis(500)));
        assert!(matches!(summary.p99, Quantile::Within { estimate, .. }
            if (estimate.as_seconds() - 150e-6).abs() < 1e-6));
        // The 32-bit counter may wrap; a closed connection is forgotten.
        trips.take([(3, 800, 2), (4, 0, 7)].into_iter(), at(3_000));
        assert_eq!(trips.summary(at(3_000)).unwrap().samples, 2);
        trips.take([(1, 100, 900)].into_iter(), at(3_100));
        assert_eq!(trips.summary(at(3_100)).unwrap().samples, 2);
        // In the end all samples have left the window.
        assert_eq!(trips.summary(at(9_000)), None);
        assert_eq!(trips.summary(at(3_100)).unwrap().origin, Origin::RoundTrips);
    }
}
