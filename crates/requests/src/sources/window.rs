//! Samples in a sliding time window.

use super::{LatencySummary, Origin, Quantile};
use crate::latency::Times;
use wattline_units::{Span, Time};

/// Parts of a window; whole parts expire.
const PARTS: u64 = 8;

/// Latencies of a time window of nominal length, or up to an eighth less.
#[derive(Debug)]
pub(super) struct Window {
    part: Span,
    parts: Vec<Part>,
    newest: Time,
}

#[derive(Debug)]
struct Part {
    /// Number of the part since the beginning of time.
    number: u64,
    times: Times,
    failed: u64,
}

impl Window {
    /// Creates a window of a length, at least a microsecond.
    pub fn new(length: Span) -> Self {
        let part = (length / PARTS).max(Span::from_nanos(125));
        Self { part, parts: Vec::new(), newest: Time::ZERO }
    }

    /// Returns the length of the window.
    pub fn length(&self) -> Span {
        self.part * PARTS
    }

    fn number(&self, at: Time) -> u64 {
        at.since(Time::ZERO).times(self.part)
    }

    /// Returns the part of a time; drops parts that have expired by then.
    fn part(&mut self, at: Time) -> &mut Part {
        let number = self.number(at);
        self.newest = self.newest.max(at);
        let first = self.number(self.newest).saturating_sub(PARTS - 1);
        let index = match self.parts.iter().position(|part| part.number == number) {
            Some(index) => index,
            None => match self.parts.iter().position(|part| part.number < first) {
                Some(index) => {
                    let part = &mut self.parts[index];
                    part.number = number;
                    part.times.clear();
                    part.failed = 0;
                    index
                }
                None => {
                    self.parts.push(Part { number, times: Times::new(), failed: 0 });
                    self.parts.len() - 1
                }
            },
        };
        &mut self.parts[index]
    }

    /// Adds a latency that occurred `count` times, at a time within the window.
    pub fn record(&mut self, latency: Span, count: u64, at: Time) {
        self.part(at).times.record_n(latency.as_picos() / 1_000, count);
    }

    /// Adds requests that were not answered.
    pub fn fail(&mut self, count: u64, at: Time) {
        let part = self.part(at);
        part.failed = part.failed.saturating_add(count);
    }

    /// Summarises the window at a time.
    pub fn summary(&self, now: Time, origin: Origin) -> Option<LatencySummary> {
        let (times, failed) = self.known(now);
        let samples = times.count().saturating_add(failed);
        if samples == 0 {
            return None;
        }
        let quantile = |quantile| match times.quantile(quantile, failed) {
            // The histogram returns the bucket's upper end, at most 0.1 % above.
            Some(nanos) => {
                let span = Span::from_nanos(nanos);
                Quantile::Within { estimate: span, upper: span }
            }
            None => Quantile::Beyond(Span::from_nanos(times.max().unwrap_or(0))),
        };
        Some(LatencySummary {
            origin,
            samples,
            age: now.since(self.newest),
            window: self.length(),
            mean: times.mean_seconds().map(Span::from_seconds),
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
        })
    }

    /// Returns the latencies and failed requests in the window at a time.
    fn known(&self, now: Time) -> (Times, u64) {
        let first = self.number(now).saturating_sub(PARTS - 1);
        let (mut times, mut failed) = (Times::new(), 0_u64);
        for part in self.parts.iter().filter(|part| part.number >= first) {
            times.add(&part.times);
            failed = failed.saturating_add(part.failed);
        }
        (times, failed)
    }

    /// Returns the number of samples above `bound` in the window, failed ones included; `None` if
    /// the window is empty.
    pub fn late(&self, now: Time, bound: Span) -> Option<u64> {
        let (times, failed) = self.known(now);
        let samples = times.count().saturating_add(failed);
        let nanos = bound.as_picos() / 1_000;
        (samples > 0).then(|| times.longer_than(nanos).saturating_add(failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn samples_older_than_the_window_are_forgotten() {
        let mut window = Window::new(Span::from_millis(800));
        for millis in 0..10_000 {
            window.record(Span::from_micros(millis), 1, at(millis));
            assert!(window.parts.len() <= PARTS as usize);
        }
        let summary = window.summary(at(9_999), Origin::Clients).unwrap();
        assert_eq!(summary.samples, 800);
        let Quantile::Within { estimate, .. } = summary.p50 else { panic!("{summary:?}") };
        assert!((estimate.as_seconds() - 0.0096).abs() < 2e-5, "{estimate:?}");
        assert_eq!(summary.age, Span::ZERO);
        assert_eq!(window.summary(at(10_200), Origin::Clients).unwrap().age.as_seconds(), 0.201);
        assert_eq!(window.summary(at(11_000), Origin::Clients), None);
    }

    /// A governor runs for years, but 64 bits of picoseconds end after 213 days.
    #[test]
    fn old_samples_expire_after_years() {
        let begin = at(10 * 365 * 86_400_000);
        let mut window = Window::new(Span::from_millis(800));
        window.record(Span::from_micros(10), 1, begin);
        assert_eq!(window.summary(begin, Origin::Clients).unwrap().samples, 1);
        assert_eq!(window.summary(begin + Span::from_millis(900), Origin::Clients), None);
    }

    #[test]
    fn failed_requests_rank_above_all_others() {
        let mut window = Window::new(Span::from_millis(800));
        window.record(Span::from_millis(1), 97, at(5));
        window.fail(3, at(6));
        let summary = window.summary(at(10), Origin::Clients).unwrap();
        assert_eq!(summary.samples, 100);
        assert!(matches!(summary.p95, Quantile::Within { .. }));
        assert!(matches!(summary.p99, Quantile::Beyond(beyond) if beyond.as_seconds() >= 0.00099));
        assert_eq!(window.late(at(10), Span::from_micros(500)), Some(100));
        assert_eq!(window.late(at(10), Span::from_micros(1_500)), Some(3), "the failed ones");
        assert_eq!(window.late(at(2_000), Span::ZERO), None);
    }
}
