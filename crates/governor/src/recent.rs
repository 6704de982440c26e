//! Means of a governor's power and latency over the last five seconds, the same for all readers. A
//! tick each second moves the window; readers change nothing.

use super::account::{Interval, LatencySummary, Totals};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use wattline_policy::Latency;
use wattline_status::LatencyHistogram;

/// Time between two ticks.
const TICK: Duration = Duration::from_secs(1);
/// Length of the window in ticks.
const KEPT: usize = 5;
/// Upper ends of the buckets of latency, in nanoseconds: from a poll to a timeout.
const BUCKETS: [u64; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// Counts at the last ticks, and the latencies since.
#[derive(Debug, Default)]
pub(super) struct Recent {
    first: Option<Totals>,
    ticks: VecDeque<Slot>,
    /// All latencies since the start; `None` if they are not measured.
    all: Option<Latency>,
    next: Option<Instant>,
}

/// Time from one tick to the next, or to now.
#[derive(Debug)]
struct Slot {
    before: Totals,
    latency: Option<Latency>,
}

impl Recent {
    /// Returns the time of the next tick; `None` before the first.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Records the counts up to a tick; `None` without an answer.
    pub fn tick(&mut self, now: Instant, totals: Option<Totals>) {
        self.next = Some(now + TICK);
        let Some(before) = totals else { return };
        self.first.get_or_insert_with(|| before.clone());
        self.ticks.push_back(Slot { before, latency: None });
        if self.ticks.len() > KEPT {
            self.ticks.pop_front();
        }
    }

    /// Restarts the window: counts before a pause do not belong to the last seconds after it.
    pub fn restart(&mut self) {
        self.ticks.clear();
    }

    /// Adds latencies not yet added.
    pub fn add(&mut self, latency: Option<&Latency>) {
        let Some(latency) = latency else { return };
        let slot = self.ticks.back_mut().map(|slot| &mut slot.latency);
        for sum in slot.into_iter().chain([&mut self.all]) {
            match sum {
                Some(sum) => sum.add(latency),
                None => *sum = Some(latency.clone()),
            }
        }
    }

    /// Returns the figures of the window up to now.
    pub fn interval(&self, totals: &Totals) -> Interval {
        let before = self.ticks.front().map_or(totals, |slot| &slot.before);
        let mut latencies = self.ticks.iter().filter_map(|slot| slot.latency.as_ref());
        let sum = latencies.next().cloned().map(|first| {
            latencies.fold(first, |mut sum, latency| {
                sum.add(latency);
                sum
            })
        });
        let latency = sum.as_ref().and_then(summary);
        Interval { latency, ..Interval::between(before, totals) }
    }

    /// Returns the figures of the whole run.
    pub fn whole(&self, totals: &Totals) -> Interval {
        let latency = self.all.as_ref().and_then(summary);
        Interval { latency, ..Interval::between(self.first.as_ref().unwrap_or(totals), totals) }
    }

    /// Returns all latencies since the start.
    pub fn histogram(&self) -> Option<LatencyHistogram> {
        let all = self.all.as_ref()?;
        let bucket = |nanos: u64| (nanos as f64 / 1e9, all.at_most(nanos));
        Some(LatencyHistogram {
            packets: all.packets(),
            sum_seconds: all.sum(),
            buckets: BUCKETS.map(bucket).to_vec(),
        })
    }
}

fn summary(latency: &Latency) -> Option<LatencySummary> {
    LatencySummary::new(latency.mean(), |fraction| latency.quantile(fraction), latency.max())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{LoopTotals, MachineTotals};
    use crate::energy::Energy;
    use wattline_units::{Joules, Provenance, Span, Time};

    fn totals(seconds: f64, joules: f64) -> Totals {
        let energy = Energy::new(Joules(joules), [], Provenance::EMULATED);
        let machine = MachineTotals { energy, ..MachineTotals::default() };
        Totals { at: Time::ZERO + Span::from_seconds(seconds), own: LoopTotals::default(), machine }
    }

    fn latency(micros: u64, packets: usize) -> Latency {
        let mut latency = Latency::new();
        (0..packets).for_each(|_| latency.record(micros * 1_000_000));
        latency
    }

    /// Returns the energy at 100 W for twenty seconds, then 200 W.
    fn joules(seconds: f64) -> f64 {
        seconds * 100.0 + (seconds - 20.0).max(0.0) * 100.0
    }

    #[test]
    fn every_reader_gets_the_mean_of_the_last_seconds() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        for second in 0..30u32 {
            let now = start + Duration::from_secs(second.into());
            recent.tick(now, Some(totals(second.into(), joules(second.into()))));
            assert_eq!(recent.due(), Some(now + TICK));
            // One reader asks all the time, another rarely: neither affects the other's figures.
            for _ in 0..10 {
                recent.interval(&totals(f64::from(second) + 0.5, joules(f64::from(second) + 0.5)));
            }
        }
        let power = |at: f64| recent.interval(&totals(at, joules(at))).power_watts.unwrap();
        assert_eq!((power(29.5), power(29.5), power(29.75)), (200.0, 200.0, 200.0));
        let whole = recent.whole(&totals(30.0, joules(30.0)));
        assert!((whole.power_watts.unwrap() - 4000.0 / 30.0).abs() < 1e-9);
    }

    #[test]
    fn pause_restarts_the_window_but_not_the_whole_run() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        recent.tick(start, Some(totals(0.0, 0.0)));
        recent.tick(start, Some(totals(1.0, 100.0)));
        recent.restart();
        recent.tick(start, Some(totals(1.0, 100.0)));
        assert_eq!(recent.interval(&totals(2.0, 600.0)).power_watts, Some(500.0));
        assert_eq!(recent.whole(&totals(2.0, 600.0)).power_watts, Some(300.0));
    }

    #[test]
    fn latencies_are_kept_for_the_next_reader_and_counted_once() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        assert!(recent.histogram().is_none(), "not measured is not zero");
        recent.tick(start, Some(totals(0.0, 0.0)));
        recent.add(Some(&latency(10, 3)));
        recent.add(None);
        recent.add(Some(&latency(3_000, 1)));
        for _ in 0..2 {
            let seen = recent.interval(&totals(0.5, 1.0)).latency.unwrap();
            assert!((seen.latency_max_seconds - 3e-3).abs() < 1e-9, "{seen:?}");
            let histogram = recent.histogram().unwrap();
            assert_eq!(histogram.packets, 4);
            assert!((histogram.sum_seconds - 3.03e-3).abs() < 1e-9);
            let counts: Vec<u64> = histogram.buckets.iter().map(|(_, count)| *count).collect();
            assert_eq!(counts[..4], [0, 0, 0, 3]);
            assert_eq!(counts[10..12], [3, 4], "cumulative");
            assert_eq!(counts.last(), Some(&4));
        }
        // Later they are no longer recent, but still counted.
        for second in 1..=5 {
            recent.tick(start, Some(totals(f64::from(second), 1.0)));
        }
        assert_eq!(recent.interval(&totals(6.0, 1.0)).latency, None);
        assert_eq!(recent.histogram().unwrap().packets, 4);
        assert_eq!(recent.whole(&totals(6.0, 1.0)).latency.unwrap().latency_max_seconds, 3e-3);
    }
}
