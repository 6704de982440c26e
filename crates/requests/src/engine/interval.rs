//! What happened interval by interval, for the live line and for curves.

use super::record::{Counts, Ending};
use crate::clock::{Nanos, seconds};
use crate::latency::Times;
use serde::Serialize;
use std::collections::BTreeMap;

/// What happened in an interval of time, by the moments of sending and of answers. All intervals of
/// a load are kept, which may last for days: it holds figures, no histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its begin since the begin of the load, warm-up included.
    pub start_seconds: f64,
    /// Its length; the last one may be shorter.
    pub length_seconds: f64,
    /// Whether it lies in the warm-up, wholly or in part.
    pub warmup: bool,
    /// Requests sent.
    pub sent_rate_rps: f64,
    /// Requests served.
    pub served_rate_rps: f64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Latency from the intended times, of the requests served in this interval.
    pub latency_p50_seconds: Option<f64>,
    /// The same, 99 %.
    pub latency_p99_seconds: Option<f64>,
    /// The same, the longest.
    pub latency_max_seconds: Option<f64>,
}

/// What one thread did in an interval.
#[derive(Debug)]
pub(super) struct Part {
    /// Which thread.
    pub thread: usize,
    /// Number of the interval.
    pub index: u64,
    /// The interval in which the thread goes on; it will not speak of earlier ones.
    pub next: u64,
    counts: Counts,
    latency: Times,
}

/// Collects a thread's part of the present interval.
#[derive(Debug)]
pub(super) struct Open {
    thread: usize,
    length: Nanos,
    index: u64,
    counts: Counts,
    latency: Times,
}

impl Open {
    pub fn new(thread: usize, length: Nanos) -> Self {
        let (counts, latency) = Default::default();
        Self { thread, length, index: 0, counts, latency }
    }

    pub fn sent(&mut self, operation: usize, count: u64) {
        self.counts.sent[operation] += count;
    }

    pub fn ended(&mut self, ending: Ending, latency: Nanos) {
        self.counts.ended(ending);
        if ending.served() {
            self.latency.record(latency);
        }
    }

    /// When the present interval ends, since the begin of the run.
    pub fn end(&self) -> Nanos {
        (self.index + 1).saturating_mul(self.length)
    }

    /// Hands the part over and begins a new one at a time since the begin of the run.
    pub fn turn(&mut self, now: Nanos) -> Part {
        let (index, next) = (self.index, (now / self.length).max(self.index + 1));
        self.index = next;
        Part {
            thread: self.thread,
            index,
            next,
            counts: std::mem::take(&mut self.counts),
            latency: std::mem::take(&mut self.latency),
        }
    }
}

/// Puts the parts of all threads together.
#[derive(Debug)]
pub(super) struct Collector {
    length: Nanos,
    warmup: Nanos,
    end: Nanos,
    /// The first interval that each thread may still speak of.
    progress: Vec<u64>,
    waiting: BTreeMap<u64, (Counts, Times)>,
    told: u64,
}

impl Collector {
    /// For so many threads, intervals of a length, and a load of a length with its warm-up.
    pub fn new(threads: usize, length: Nanos, warmup: Nanos, end: Nanos) -> Self {
        let waiting = BTreeMap::new();
        Self { length, warmup, end, progress: vec![0; threads], waiting, told: 0 }
    }

    /// Takes a part; the intervals that are complete with it, with their latencies.
    pub fn take(&mut self, part: &Part) -> Vec<(Interval, Times)> {
        self.progress[part.thread] = part.next;
        let (counts, latency) = self.waiting.entry(part.index).or_default();
        *counts += part.counts;
        latency.add(&part.latency);
        let complete = self.progress.iter().copied().min().unwrap_or(0);
        (self.told..complete).map(|index| self.tell(index)).collect()
    }

    /// The intervals that are left.
    pub fn finish(mut self) -> Vec<(Interval, Times)> {
        let last = self.waiting.keys().next_back().map_or(self.told, |last| last + 1);
        (self.told..last).map(|index| self.tell(index)).collect()
    }

    fn tell(&mut self, index: u64) -> (Interval, Times) {
        self.told = index + 1;
        let (counts, latency) = self.waiting.remove(&index).unwrap_or_default();
        let start = index * self.length;
        // While answers are waited for after the end, the last interval is a whole one.
        let length = if start < self.end { self.length.min(self.end - start) } else { self.length };
        let rate = |count: u64| count as f64 / seconds(length);
        let interval = Interval {
            start_seconds: seconds(start),
            length_seconds: seconds(length),
            warmup: start < self.warmup,
            sent_rate_rps: rate(counts.sent_total()),
            served_rate_rps: rate(counts.served),
            failed_requests: counts.failures.total(),
            latency_p50_seconds: latency.quantile(0.5, 0).map(seconds),
            latency_p99_seconds: latency.quantile(0.99, 0).map(seconds),
            latency_max_seconds: latency.max().map(seconds),
        };
        (interval, latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::protocol::Outcome;

    #[test]
    fn an_interval_is_told_once_all_threads_have_passed_it() {
        let mut collector = Collector::new(2, SECOND, SECOND, 3 * SECOND);
        let mut threads = [Open::new(0, SECOND), Open::new(1, SECOND)];
        for thread in &mut threads {
            thread.sent(0, 5);
            thread.ended(Ending::Answer(Outcome::Done), 1_000);
            thread.ended(Ending::Timeout, 1_000);
        }
        assert_eq!(collector.take(&threads[0].turn(SECOND)), []);
        // The other one slept through the second interval.
        let told = collector.take(&threads[1].turn(2 * SECOND + 5));
        assert_eq!(told.len(), 1);
        let (interval, latency) = &told[0];
        assert_eq!((interval.sent_rate_rps, interval.served_rate_rps), (10.0, 2.0));
        assert_eq!((interval.failed_requests, latency.count()), (2, 2));
        assert!(interval.warmup);
        let told = collector.take(&threads[0].turn(2 * SECOND));
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].0.start_seconds, told[0].0.warmup), (1.0, false));
        threads[0].sent(0, 4);
        assert_eq!(collector.take(&threads[0].turn(3 * SECOND)), []);
        let rest = collector.finish();
        assert_eq!((rest.len(), rest[0].0.sent_rate_rps), (1, 4.0));
    }

    /// A histogram is a quarter of a megabyte: with one in each, a load with intervals of 10 ms took
    /// 1.9 GB in 70 s.
    #[test]
    fn what_is_kept_of_an_interval_is_small() {
        fn owns_nothing<T: Copy>(_: &T) {}
        let mut thread = Open::new(0, SECOND);
        let told = Collector::new(1, SECOND, 0, SECOND).take(&thread.turn(SECOND));
        owns_nothing(&told[0].0);
        assert!(size_of::<Interval>() <= 100);
    }
}
