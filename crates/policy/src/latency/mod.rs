//! Latency of forwarded packets.

mod histogram;

use crate::LatencyView;
use histogram::Histogram;
use wattline_units::Span;

/// Latencies of an interval: exact minimum, maximum and mean in picoseconds, the distribution in
/// nanoseconds with three significant digits.
#[derive(Debug, Clone)]
pub struct Latency {
    /// Distribution of the latencies in nanoseconds.
    histogram: Histogram,
    /// Sum of the latencies. 64 bits would last two days at ten million packets per second of 10
    /// us.
    picos: u128,
    packets: u64,
    shortest: u64,
    longest: u64,
    /// Number of packets that took longer than `late_after` picoseconds.
    late: u64,
    late_after: u64,
    /// Further bounds: picoseconds, and the number of packets above them.
    further: Vec<(u64, u64)>,
    /// True if the next packet is taken as a sample; `None` if all packets are recorded.
    sample: Option<bool>,
}

impl Latency {
    /// Creates latencies without packets.
    pub fn new() -> Self {
        Self {
            histogram: Histogram::new(),
            picos: 0,
            packets: 0,
            shortest: u64::MAX,
            longest: 0,
            late: 0,
            late_after: u64::MAX,
            further: Vec::new(),
            sample: None,
        }
    }

    /// Creates latencies of samples: of one packet after each [`Self::take_sample`].
    pub fn sampled() -> Self {
        Self { sample: Some(false), ..Self::new() }
    }

    /// Takes the next packet as a sample.
    pub fn take_sample(&mut self) {
        self.sample = self.sample.map(|_| true);
    }

    /// Creates latencies that also count the packets above a bound.
    pub fn with_bound(bound: Option<Span>) -> Self {
        let late_after = bound.map_or(u64::MAX, Span::as_picos);
        Self { late_after, ..Self::new() }
    }

    /// Creates latencies that count the packets above each of several bounds, so that one run can
    /// be judged by all of them.
    pub fn with_bounds(bounds: &[Span]) -> Self {
        let further = bounds.iter().skip(1).map(|bound| (bound.as_picos(), 0)).collect();
        Self { further, ..Self::with_bound(bounds.first().copied()) }
    }

    /// Records one packet's latency in picoseconds.
    #[inline]
    pub fn record(&mut self, picos: u64) {
        self.record_all(&[picos]);
    }

    /// Records the latencies of several packets, each in picoseconds.
    pub fn record_all(&mut self, latencies: &[u64]) {
        let latencies = match (&mut self.sample, latencies) {
            (None, all) => all,
            (Some(due @ true), [first, ..]) => {
                *due = false;
                std::slice::from_ref(first)
            }
            (Some(_), _) => return,
        };
        // Local sums: the compiler cannot know that the buckets are not among the fields.
        let (mut picos, mut shortest, mut longest, mut late) =
            (0, self.shortest, self.longest, self.late);
        for &latency in latencies {
            self.histogram.record(latency / 1_000);
            picos += u128::from(latency);
            shortest = shortest.min(latency);
            longest = longest.max(latency);
            late += u64::from(latency > self.late_after);
        }
        self.picos += picos;
        self.packets += latencies.len() as u64;
        (self.shortest, self.longest, self.late) = (shortest, longest, late);
        for (bound, late) in &mut self.further {
            *late += latencies.iter().map(|latency| u64::from(*latency > *bound)).sum::<u64>();
        }
    }

    /// Adds the packets of another interval.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
        self.picos += other.picos;
        self.packets += other.packets;
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
        self.late += other.late;
        for ((_, late), (_, more)) in self.further.iter_mut().zip(&other.further) {
            *late += more;
        }
    }

    /// Returns the latencies and resets them.
    pub fn take(&mut self) -> Self {
        let taken = self.clone();
        self.reset();
        taken
    }

    /// Removes all packets.
    pub fn reset(&mut self) {
        self.histogram.reset();
        (self.picos, self.packets, self.shortest, self.longest) = (0, 0, u64::MAX, 0);
        self.late = 0;
        self.further.iter_mut().for_each(|(_, late)| *late = 0);
    }

    /// Returns the latencies of the packets since the last call, as policies see them.
    pub fn take_view(&mut self) -> LatencyView {
        let span = |seconds: Option<f64>| seconds.map_or(Span::ZERO, Span::from_seconds);
        let view = LatencyView {
            samples: self.packets,
            late: self.late,
            mean: span(self.mean()),
            p95: span(self.quantile(0.95)),
            p99: span(self.quantile(0.99)),
            age: Span::ZERO,
            window: Span::ZERO,
            part: false,
        };
        if self.packets > 0 {
            self.reset();
        }
        view
    }

    /// Returns the number of packets above the bound; zero without a bound.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of packets above each bound after the first, in the order of
    /// [`Self::with_bounds`].
    pub fn late_further(&self) -> impl Iterator<Item = u64> + '_ {
        self.further.iter().map(|(_, late)| *late)
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }
    /// Returns the number of packets of at most this many nanoseconds, with an accuracy of a
    /// thousandth.
    pub fn at_most(&self, nanos: u64) -> u64 {
        self.histogram.at_most(nanos)
    }
    /// Returns the sum of the latencies in seconds.
    pub fn sum(&self) -> f64 {
        self.picos as f64 * 1e-12
    }
    /// Returns the shortest latency in seconds; `None` without packets, like the values below.
    pub fn min(&self) -> Option<f64> {
        (self.packets > 0).then_some(self.shortest as f64 * 1e-12)
    }
    /// Returns the longest latency in seconds.
    pub fn max(&self) -> Option<f64> {
        (self.packets > 0).then_some(self.longest as f64 * 1e-12)
    }
    /// Returns the mean latency in seconds.
    pub fn mean(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.picos as f64 * 1e-12 / self.packets as f64)
    }
    /// Returns the latency in seconds that this fraction of the packets does not exceed.
    pub fn quantile(&self, fraction: f64) -> Option<f64> {
        (self.packets > 0).then(|| self.histogram.quantile(fraction, self.packets) as f64 * 1e-9)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_within_a_thousandth() {
        let mut latency = Latency::new();
        assert_eq!(latency.mean(), None);
        (1..=100_000u64).for_each(|nanos| latency.record(nanos * 1_000));
        let near = |a: Option<f64>, b: f64| (a.unwrap() / b - 1.0).abs() < 2e-3;
        assert!(near(latency.quantile(0.5), 50e-6) && near(latency.quantile(0.99), 99e-6));
        assert!(near(latency.mean(), 50.0005e-6));
        let mut both = latency.clone();
        both.add(&latency);
        assert!(near(both.min(), 1e-9) && near(both.max(), 100e-6));
        let view = both.take_view();
        assert_eq!((view.samples, view.late), (200_000, 0));
        assert!(
            near(Some(view.p95.as_seconds()), 95e-6) && near(Some(view.p99.as_seconds()), 99e-6)
        );
        assert_eq!(latency.packets(), 100_000);
        assert!(near(Some(latency.sum()), 50.0005e-6 * 1e5));
        assert!(near(Some(latency.at_most(20_000) as f64), 20_000.0));
        assert_eq!((latency.at_most(0), latency.at_most(u64::MAX)), (0, 100_000));
        assert_eq!(both.take_view(), LatencyView::default(), "nothing has left since");
        let mut bounded = Latency::with_bound(Some(Span::from_micros(90)));
        (1..=100_000u64).for_each(|nanos| bounded.record(nanos * 1_000));
        assert_eq!(bounded.take_view().late, 10_000, "those beyond 90 us");
    }

    #[test]
    fn several_bounds_are_counted_in_one_run() {
        let mut latency = Latency::with_bounds(&[90, 50, 99].map(Span::from_micros));
        (1..=100_000u64).for_each(|nanos| latency.record(nanos * 1_000));
        let mut both = latency.clone();
        both.add(&latency);
        let late =
            |of: &Latency| [of.late()].into_iter().chain(of.late_further()).collect::<Vec<_>>();
        assert_eq!(late(&latency), [10_000, 50_000, 1_000]);
        assert_eq!(late(&both), [20_000, 100_000, 2_000]);
        both.reset();
        assert_eq!(late(&both), [0, 0, 0]);
        assert_eq!(late(&Latency::with_bounds(&[])), [0]);
    }
}
