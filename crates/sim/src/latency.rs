//! Latency of forwarded packets.

use crate::error::SimError;
use hdrhistogram::Histogram;

/// Latencies of an interval: exact minimum, maximum and mean in picoseconds, the
/// distribution in nanoseconds with three significant digits.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    picos: u64,
    packets: u64,
    shortest: u64,
    longest: u64,
}

/// Longer latencies than 100 s are counted as 100 s by the histogram.
const LONGEST_NANOS: u64 = 100_000_000_000;

impl Latency {
    /// No packet yet.
    ///
    /// # Errors
    /// When there is no memory for the histogram.
    pub fn new() -> Result<Self, SimError> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NANOS, 3)
            .map_err(|error| SimError::Histogram(error.to_string()))?;
        Ok(Self { histogram, picos: 0, packets: 0, shortest: u64::MAX, longest: 0 })
    }

    /// Records one packet's latency in picoseconds.
    #[inline]
    pub fn record(&mut self, picos: u64) {
        self.histogram.saturating_record(picos / 1_000);
        self.picos += picos;
        self.packets += 1;
        self.shortest = self.shortest.min(picos);
        self.longest = self.longest.max(picos);
    }

    /// Adds another's packets.
    ///
    /// # Errors
    /// Never: all have the same bounds.
    pub fn add(&mut self, other: &Self) -> Result<(), SimError> {
        self.histogram.add(&other.histogram).map_err(|e| SimError::Histogram(e.to_string()))?;
        self.picos += other.picos;
        self.packets += other.packets;
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
        Ok(())
    }

    /// Gives all packets away and forgets them.
    pub fn take(&mut self) -> Self {
        let taken = self.clone();
        self.reset();
        taken
    }

    /// Forgets all packets.
    pub(crate) fn reset(&mut self) {
        self.histogram.reset();
        (self.picos, self.packets, self.shortest, self.longest) = (0, 0, u64::MAX, 0);
    }

    /// Shortest, in seconds; `None` without packets, as all of these.
    pub fn min(&self) -> Option<f64> {
        (self.packets > 0).then_some(self.shortest as f64 * 1e-12)
    }
    /// Longest, in seconds.
    pub fn max(&self) -> Option<f64> {
        (self.packets > 0).then_some(self.longest as f64 * 1e-12)
    }
    /// Mean, in seconds.
    pub fn mean(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.picos as f64 * 1e-12 / self.packets as f64)
    }
    /// The latency that a fraction of the packets does not exceed, in seconds.
    pub fn quantile(&self, fraction: f64) -> Option<f64> {
        (self.packets > 0).then(|| self.histogram.value_at_quantile(fraction) as f64 * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_within_a_thousandth() {
        let mut latency = Latency::new().unwrap();
        assert_eq!(latency.mean(), None);
        (1..=100_000u64).for_each(|nanos| latency.record(nanos * 1_000));
        let near = |a: Option<f64>, b: f64| (a.unwrap() / b - 1.0).abs() < 2e-3;
        assert!(near(latency.quantile(0.5), 50e-6) && near(latency.quantile(0.99), 99e-6));
        assert!(near(latency.mean(), 50.0005e-6));
        let mut both = latency.clone();
        both.add(&latency).unwrap();
        assert!(near(both.min(), 1e-9) && near(both.max(), 100e-6));
    }
}
