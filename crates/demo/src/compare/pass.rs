//! Result of one traffic through one forwarder, independent of the method of measurement.

use serde::Serialize;
use wattline_testbed::probe::Outcome;
use wattline_testbed::replay::Crossing;

/// Figures of one pass that the demonstration shows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PassFigures {
    /// Packets sent.
    pub offered_packets: u64,
    /// Packets that arrived.
    pub forwarded_packets: u64,
    /// Packets per second actually offered.
    pub offered_rate_pps: f64,
    /// Median time from sending to arrival, in seconds.
    pub latency_p50_seconds: f64,
    /// 99th percentile of the time from sending to arrival, in seconds.
    pub latency_p99_seconds: f64,
}

impl From<&Outcome> for PassFigures {
    fn from(outcome: &Outcome) -> Self {
        Self {
            offered_packets: outcome.offered_packets,
            forwarded_packets: outcome.received_packets,
            offered_rate_pps: outcome.offered_rate_pps,
            latency_p50_seconds: outcome.latency_p50_seconds,
            latency_p99_seconds: outcome.latency_p99_seconds,
        }
    }
}

impl PassFigures {
    /// Computes figures from the frames found behind the router.
    pub fn frame_counts(frames: &[Vec<u8>], crossing: &Crossing) -> Self {
        let mut latencies = crossing.latencies(frames);
        latencies.sort_unstable();
        let at = |percent: usize| {
            let rank = (latencies.len() * percent).div_ceil(100);
            latencies.get(rank.saturating_sub(1)).map_or(0.0, |nanos| *nanos as f64 * 1e-9)
        };
        let sent: Vec<u64> = crossing.sent_nanos.iter().flatten().copied().collect();
        let span = sent.last().zip(sent.first()).map_or(0, |(last, first)| last - first);
        // There is one interval fewer than packets.
        let intervals = sent.len().saturating_sub(1) as f64;
        Self {
            offered_packets: sent.len() as u64,
            forwarded_packets: latencies.len() as u64,
            offered_rate_pps: if span > 0 { intervals / (span as f64 * 1e-9) } else { 0.0 },
            latency_p50_seconds: at(50),
            latency_p99_seconds: at(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::raw::Received;

    #[test]
    fn figures_cover_the_frames_that_arrived() {
        let frames: Vec<Vec<u8>> = (0..4).map(|number| vec![number; 60]).collect();
        let crossing = Crossing {
            sent_nanos: vec![Some(0), Some(1_000_000), Some(2_000_000), None],
            to_sink: [(0, 5_000), (2, 2_007_000)]
                .map(|(number, nanos)| Received { nanos, frame: vec![number; 60] })
                .into(),
            to_source: vec![],
        };
        let figures = PassFigures::frame_counts(&frames, &crossing);
        assert_eq!((figures.offered_packets, figures.forwarded_packets), (3, 2));
        assert!((figures.offered_rate_pps - 1_000.0).abs() < 1e-6);
        assert!((figures.latency_p50_seconds - 5e-6).abs() < 1e-12);
        assert!((figures.latency_p99_seconds - 7e-6).abs() < 1e-12);
    }
}
