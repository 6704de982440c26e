//! Counts and latencies per interval, for the live line and for curves.

use super::record::{Counts, Ending};
use crate::clock::{Nanos, seconds};
use crate::latency::Times;
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures of an interval of time; requests count when they are sent, answers when they arrive. All
/// intervals of a load, which may last for days, are kept, so this has no histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Start of the interval since the start of the load, warm-up included.
    pub start_seconds: f64,
    /// Length of the interval; the last one may be shorter.
    pub length_seconds: f64,
    /// True if the interval overlaps the warm-up.
    pub warmup: bool,
    /// True if the interval begins after the end of the load, when the generator only waits for
    /// answers. Such an interval is reported only if something happened in it.
    pub after_end: bool,
    /// Requests sent.
    pub sent_rate_rps: f64,
    /// Requests served.
    pub served_rate_rps: f64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Latency from the intended times, of the requests served in this interval.
    pub latency_p50_seconds: Option<f64>,
    /// 99th percentile of the same latency.
    pub latency_p99_seconds: Option<f64>,
    /// Longest such latency.
    pub latency_max_seconds: Option<f64>,
}

/// A thread's contribution to an interval.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of the thread.
    pub thread: usize,
    /// Number of the interval.
    pub index: u64,
    /// Next interval that the thread contributes to; it is done with all earlier ones.
    pub next: u64,
    /// Presently known end of the thread's load, since its start.
    pub end: Nanos,
    counts: Counts,
    latency: Times,
}

/// Collects a thread's contribution to the present interval.
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

    /// Returns the end of the present interval, since the start of the run.
    pub fn end(&self) -> Nanos {
        (self.index + 1).saturating_mul(self.length)
    }

    /// Returns the part and begins a new one at `now`. Both times count from the start of the run;
    /// `end` is the end of the load.
    pub fn turn(&mut self, now: Nanos, end: Nanos) -> Part {
        let (index, next) = (self.index, (now / self.length).max(self.index + 1));
        self.index = next;
        Part {
            thread: self.thread,
            index,
            next,
            end,
            counts: std::mem::take(&mut self.counts),
            latency: std::mem::take(&mut self.latency),
        }
    }
}

/// Merges the parts of all threads.
#[derive(Debug)]
pub(super) struct Collector {
    length: Nanos,
    warmup: Nanos,
    /// End of each thread's load; earlier than requested if the load was stopped.
    ends: Vec<Nanos>,
    /// First interval that each thread may still contribute to.
    progress: Vec<u64>,
    waiting: BTreeMap<u64, (Counts, Times)>,
    emitted: u64,
}

impl Collector {
    /// Creates a collector; `end` includes the warm-up.
    pub fn new(threads: usize, length: Nanos, warmup: Nanos, end: Nanos) -> Self {
        let waiting = BTreeMap::new();
        let (ends, progress) = (vec![end; threads], vec![0; threads]);
        Self { length, warmup, ends, progress, waiting, emitted: 0 }
    }

    /// Adds a part and returns the intervals that it completes, with their latencies.
    pub fn take(&mut self, part: &Part) -> Vec<(Interval, Times)> {
        self.progress[part.thread] = part.next;
        self.ends[part.thread] = part.end;
        let (counts, latency) = self.waiting.entry(part.index).or_default();
        *counts += part.counts;
        latency.add(&part.latency);
        let complete = self.progress.iter().copied().min().unwrap_or(0);
        (self.emitted..complete).filter_map(|index| self.emit(index)).collect()
    }

    /// Returns the remaining intervals.
    pub fn finish(mut self) -> Vec<(Interval, Times)> {
        let last = self.waiting.keys().next_back().map_or(self.emitted, |last| last + 1);
        (self.emitted..last).filter_map(|index| self.emit(index)).collect()
    }

    /// Removes an interval; `None` if it lies after the end and nothing happened in it.
    fn emit(&mut self, index: u64) -> Option<(Interval, Times)> {
        self.emitted = index + 1;
        let (counts, latency) = self.waiting.remove(&index).unwrap_or_default();
        let start = index * self.length;
        let end = self.ends.iter().copied().max().unwrap_or(0);
        let after_end = start >= end;
        if after_end && counts == Counts::default() {
            return None;
        }
        // After the end, the generator waits for answers in whole intervals.
        let length = if after_end { self.length } else { self.length.min(end - start) };
        let rate = |count: u64| count as f64 / seconds(length);
        let interval = Interval {
            start_seconds: seconds(start),
            length_seconds: seconds(length),
            warmup: start < self.warmup,
            after_end,
            sent_rate_rps: rate(counts.sent_total()),
            served_rate_rps: rate(counts.served),
            failed_requests: counts.failures.total(),
            latency_p50_seconds: latency.quantile(0.5, 0).map(seconds),
            latency_p99_seconds: latency.quantile(0.99, 0).map(seconds),
            latency_max_seconds: latency.max().map(seconds),
        };
        Some((interval, latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::protocol::Outcome;

    #[test]
    fn interval_is_emitted_once_all_threads_have_passed_it() {
        const END: Nanos = 3 * SECOND;
        let mut collector = Collector::new(2, SECOND, SECOND, END);
        let mut threads = [Open::new(0, SECOND), Open::new(1, SECOND)];
        for thread in &mut threads {
            thread.sent(0, 5);
            thread.ended(Ending::Answer(Outcome::Done), 1_000);
            thread.ended(Ending::Timeout, 1_000);
        }
        assert_eq!(collector.take(&threads[0].turn(SECOND, END)), []);
        // The other thread slept through the second interval.
        let emitted = collector.take(&threads[1].turn(2 * SECOND + 5, END));
        assert_eq!(emitted.len(), 1);
        let (interval, latency) = &emitted[0];
        assert_eq!((interval.sent_rate_rps, interval.served_rate_rps), (10.0, 2.0));
        assert_eq!((interval.failed_requests, latency.count()), (2, 2));
        assert!(interval.warmup);
        let emitted = collector.take(&threads[0].turn(2 * SECOND, END));
        assert_eq!(emitted.len(), 1);
        assert_eq!((emitted[0].0.start_seconds, emitted[0].0.warmup), (1.0, false));
        threads[0].sent(0, 4);
        assert_eq!(collector.take(&threads[0].turn(3 * SECOND, END)), []);
        let rest = collector.finish();
        assert_eq!((rest.len(), rest[0].0.sent_rate_rps), (1, 4.0));
    }

    /// In a load of two seconds, the answers to the last requests arrive in the third one, if at
    /// all.
    #[test]
    fn empty_interval_after_the_end_is_not_emitted() {
        const END: Nanos = 2 * SECOND;
        for answers in [0, 1] {
            let mut collector = Collector::new(1, SECOND, 0, END);
            let mut thread = Open::new(0, SECOND);
            let mut emitted = Vec::new();
            for second in 1..=2 {
                thread.sent(0, 7);
                emitted.extend(collector.take(&thread.turn(second * SECOND, END)));
            }
            for _ in 0..answers {
                thread.ended(Ending::Answer(Outcome::Done), 1_000);
            }
            emitted.extend(collector.take(&thread.turn(END + 5, END)));
            emitted.extend(collector.finish());
            assert_eq!(emitted.len(), 2 + answers);
            assert!(emitted.iter().take(2).all(|(one, _)| !one.after_end));
            assert!(emitted.iter().skip(2).all(|(one, _)| one.after_end));
        }
    }

    /// If a load is stopped, the rate of its last interval counts until then.
    #[test]
    fn last_interval_ends_with_the_load() {
        let mut collector = Collector::new(2, SECOND, 0, 9 * SECOND);
        let mut threads = [Open::new(0, SECOND), Open::new(1, SECOND)];
        threads.iter_mut().for_each(|thread| thread.sent(0, 5));
        let mut emitted = Vec::new();
        for (thread, stopped) in threads.iter_mut().zip([SECOND / 2 - 9, SECOND / 2]) {
            emitted.extend(collector.take(&thread.turn(SECOND * 3 / 4, stopped)));
        }
        let last = &emitted[0].0;
        assert_eq!((emitted.len(), last.length_seconds, last.sent_rate_rps), (1, 0.5, 20.0));
    }

    /// A histogram takes a quarter of a megabyte: with one per interval, a load with intervals of
    /// 10 ms took 1.9 GB in 70 s.
    #[test]
    fn kept_interval_is_small() {
        fn owns_nothing<T: Copy>(_: &T) {}
        let mut thread = Open::new(0, SECOND);
        let emitted = Collector::new(1, SECOND, 0, SECOND).take(&thread.turn(SECOND, SECOND));
        owns_nothing(&emitted[0].0);
        assert!(size_of::<Interval>() <= 100);
    }
}
