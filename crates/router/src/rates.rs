//! Bits per second of ports: means over the last five to ten seconds.

use crate::stats::Stats;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// Received and transmitted bytes by port.
#[derive(Debug)]
struct Sample {
    at: Instant,
    bytes: HashMap<String, (u64, u64)>,
}

/// The last two samples.
#[derive(Debug)]
pub(super) struct RecentRates {
    older: Sample,
    newer: Option<Sample>,
}

impl RecentRates {
    /// Begins with zero counts.
    pub fn new(now: Instant) -> Self {
        Self { older: Sample { at: now, bytes: HashMap::new() }, newer: None }
    }

    /// Returns true if it is time for another sample.
    pub fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.newer.as_ref().unwrap_or(&self.older).at) >= EVERY
    }

    /// Takes a sample.
    pub fn note(&mut self, stats: &Stats, now: Instant) {
        let bytes = stats.ports.iter().map(|port| {
            let counters = &port.counters;
            (port.name.clone(), (counters.received_bytes, counters.transmitted_bytes))
        });
        let sample = Sample { at: now, bytes: bytes.collect() };
        if let Some(newer) = self.newer.replace(sample) {
            self.older = newer;
        }
    }

    /// Adds the rates to the present statistics.
    pub fn add_to(&self, stats: &mut Stats, now: Instant) {
        let elapsed = now.saturating_duration_since(self.older.at);
        if elapsed.is_zero() {
            return;
        }
        let rate = |bytes: u64, before: u64| {
            Some(8.0 * bytes.saturating_sub(before) as f64 / elapsed.as_secs_f64())
        };
        for port in &mut stats.ports {
            // A port that was added since then begins at 0.
            let before = self.older.bytes.get(&port.name).copied().unwrap_or_default();
            port.received_bits_per_second = rate(port.counters.received_bytes, before.0);
            port.transmitted_bits_per_second = rate(port.counters.transmitted_bytes, before.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::{PortCounters, PortStats};

    fn stats(received_bytes: u64, transmitted_bytes: u64) -> Stats {
        let counters =
            PortCounters { received_bytes, transmitted_bytes, ..PortCounters::default() };
        let port = PortStats { name: "a".to_owned(), counters, ..PortStats::default() };
        Stats { ports: vec![port], ..Stats::default() }
    }

    #[test]
    fn bits_per_second_are_of_the_last_seconds() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut rates = RecentRates::new(start);
        let shown = |rates: &RecentRates, bytes: (u64, u64), now: Instant| {
            let mut stats = stats(bytes.0, bytes.1);
            rates.add_to(&mut stats, now);
            let port = &stats.ports[0];
            (port.received_bits_per_second, port.transmitted_bits_per_second)
        };
        assert_eq!(shown(&rates, (0, 0), start), (None, None), "at the start");
        assert_eq!(shown(&rates, (1000, 500), at(2)), (Some(4000.0), Some(2000.0)));
        assert!(!rates.is_due(at(4)) && rates.is_due(at(5)));
        rates.note(&stats(2500, 0), at(5));
        assert!(!rates.is_due(at(9)));
        rates.note(&stats(2500, 0), at(10));
        // Silence since the fifth second: older bytes do not count.
        assert_eq!(shown(&rates, (2500, 0), at(12)), (Some(0.0), Some(0.0)));
        rates.note(&stats(2500, 0), at(15));
        assert_eq!(shown(&rates, (4000, 0), at(16)), (Some(8.0 * 1500.0 / 6.0), Some(0.0)));
        // Another port of the same name.
        assert_eq!(shown(&rates, (10, 0), at(16)).0, Some(0.0));
    }
}
