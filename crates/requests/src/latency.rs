//! Histograms of times and their quantiles.

use crate::clock::{Nanos, seconds};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest recorded time, one hour; longer times are recorded as this.
const LONGEST: Nanos = 3_600_000_000_000;
/// Significant digits of a recorded time.
const DIGITS: u8 = 3;
/// Steps in each half of the remaining distribution: the 50th and 95th percentiles are among the
/// steps, the 99th within 0.04 %.
const STEPS: u32 = 20;

/// Counts of times of 1 ns to 1 h, each known to one part in a thousand (HdrHistogram).
#[derive(Debug, Clone, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// Creates an empty histogram.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Self(histogram.expect("constant bounds that a histogram may have"))
    }

    /// Counts a time.
    pub fn record(&mut self, nanos: Nanos) {
        self.0.saturating_record(nanos);
    }

    /// Counts a time that occurred `count` times.
    pub fn record_n(&mut self, nanos: Nanos, count: u64) {
        self.0.saturating_record_n(nanos, count);
    }

    /// Adds the times of another histogram.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("histograms of the same bounds");
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the mean; `None` if the histogram is empty.
    pub fn mean_seconds(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean() / 1e9)
    }

    /// Returns the longest time; `None` if the histogram is empty.
    pub fn max(&self) -> Option<Nanos> {
        (self.count() > 0).then(|| self.0.max())
    }

    /// Returns the shortest time; `None` if the histogram is empty.
    pub fn min(&self) -> Option<Nanos> {
        (self.count() > 0).then(|| self.0.min())
    }

    /// Returns the time that a fraction `quantile` of all requests does not exceed. `unanswered`
    /// requests in addition to the counted ones took longer than any of them. `None` if the
    /// quantile falls on one of these, or if there is no request.
    pub fn quantile(&self, quantile: f64, unanswered: u64) -> Option<Nanos> {
        let answered = self.count();
        let all = answered + unanswered;
        // A product such as 0.999 * 1000 must not reach the next rank by its rounding.
        let rank = ((quantile * all as f64 * (1.0 - 1e-12)).ceil() as u64).max(1);
        if rank > answered {
            return None;
        }
        let among_answered = rank as f64 / answered as f64;
        Some(self.0.value_at_quantile(among_answered).min(self.0.max()))
    }

    /// Returns the number of times that may be longer than `nanos`, as times are known to one part
    /// in a thousand.
    pub fn longer_than(&self, nanos: Nanos) -> u64 {
        let nanos = nanos.min(LONGEST);
        // All times below the bound's bucket are surely shorter.
        let surely = self.0.lowest_equivalent(nanos);
        let shorter = if surely > 0 { self.0.count_between(0, surely - 1) } else { 0 };
        let equal =
            if self.0.highest_equivalent(nanos) == nanos { self.0.count_at(nanos) } else { 0 };
        self.count().saturating_sub(shorter).saturating_sub(equal)
    }

    /// Returns the curve of the distribution for drawing, denser towards the tail.
    pub fn curve(&self, unanswered: u64) -> Vec<CurvePoint> {
        let all = (self.count() + unanswered) as f64;
        let point = |step: hdrhistogram::iterators::IterationValue<u64>| CurvePoint {
            quantile: step.quantile() * self.count() as f64 / all,
            latency_seconds: seconds(step.value_iterated_to().min(self.0.max())),
        };
        self.0.iter_quantiles(5).map(point).collect()
    }

    /// Returns the distribution in a few hundred steps, denser towards the tail. Each has a time in
    /// seconds and the number of requests between the previous step and this time.
    pub fn steps(&self) -> impl Iterator<Item = (f64, u64)> {
        let step = |step: hdrhistogram::iterators::IterationValue<u64>| {
            let nanos = step.value_iterated_to().min(self.0.max());
            (seconds(nanos), step.count_since_last_iteration())
        };
        self.0.iter_quantiles(STEPS).map(step)
    }

    /// Returns the figures that a report shows.
    pub fn summary(&self, unanswered: u64) -> TimesSummary {
        let at = |quantile| self.quantile(quantile, unanswered).map(seconds);
        TimesSummary {
            min_seconds: self.min().map(seconds),
            mean_of_answered_seconds: self.mean_seconds(),
            p50_seconds: at(0.50),
            p90_seconds: at(0.90),
            p95_seconds: at(0.95),
            p99_seconds: at(0.99),
            p999_seconds: at(0.999),
            p9999_seconds: at(0.9999),
            max_seconds: if unanswered == 0 { self.max().map(seconds) } else { None },
        }
    }
}

/// Quantiles of a set of times. A quantile is `None` if it falls on a request that was never
/// answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimesSummary {
    /// Shortest time.
    pub min_seconds: Option<f64>,
    /// Mean over answered requests; unanswered ones have no time.
    pub mean_of_answered_seconds: Option<f64>,
    /// Median.
    pub p50_seconds: Option<f64>,
    /// 90 % took no longer.
    pub p90_seconds: Option<f64>,
    /// 95 % took no longer.
    pub p95_seconds: Option<f64>,
    /// 99 % took no longer.
    pub p99_seconds: Option<f64>,
    /// 99.9 % took no longer.
    pub p999_seconds: Option<f64>,
    /// 99.99 % took no longer.
    pub p9999_seconds: Option<f64>,
    /// Longest time; `None` if a request was never answered.
    pub max_seconds: Option<f64>,
}

/// A point of the distribution's curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// This fraction of all requests
    pub quantile: f64,
    /// was answered within this time.
    pub latency_seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(count: u64) -> Times {
        let mut times = Times::new();
        (1..=count).for_each(|millis| times.record(millis * 1_000_000));
        times
    }

    #[test]
    fn quantiles_are_exact_to_a_thousandth() {
        let times = one_to(1_000);
        for (quantile, millis) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1_000.0)] {
            let found = times.quantile(quantile, 0).unwrap() as f64 / 1e6;
            assert!((found / millis - 1.0).abs() <= 1e-3, "{quantile}: {found}");
        }
        assert_eq!(Times::new().quantile(0.5, 0), None);
    }

    #[test]
    fn unanswered_requests_are_later_than_all_answered_ones() {
        let times = one_to(980);
        // With 980 of 1,000 answered, the 98th percentile is the last answer.
        let found = times.quantile(0.98, 20).unwrap() as f64 / 1e6;
        assert!((found / 980.0 - 1.0).abs() <= 1e-3, "{found}");
        assert_eq!(times.quantile(0.981, 20), None);
        let summary = times.summary(20);
        assert_eq!((summary.p99_seconds, summary.max_seconds), (None, None));
        assert!(summary.p95_seconds.is_some_and(|p95| (p95 - 0.95).abs() < 1e-3));
        assert!(times.curve(20).iter().all(|point| point.quantile <= 0.98));
    }

    #[test]
    fn times_above_a_bound_are_counted_to_a_thousandth() {
        let times = one_to(1_000);
        for bound in [1, 499, 990, 1_000] {
            let longer = times.longer_than(bound * 1_000_000);
            let exact = 1_000 - bound;
            assert!((exact..=exact + 1).contains(&longer), "{bound}: {longer}");
        }
        assert_eq!(times.longer_than(0), 1_000);
        assert_eq!(times.longer_than(u64::MAX), 0);
        // Times below 2,048 ns are known exactly.
        let mut exact = Times::new();
        (1..=2_000).for_each(|nanos| exact.record(nanos));
        assert_eq!(exact.longer_than(500), 1_500);
    }

    #[test]
    fn times_beyond_an_hour_count_as_an_hour() {
        let mut times = Times::new();
        times.record(u64::MAX);
        assert!(times.max().unwrap() >= LONGEST);
    }
}
