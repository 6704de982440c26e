//! Events by interval, for the live line and for curves.

use super::record::{Counts, Ending};
use crate::clock::{Nanos, seconds};
use crate::latency::Times;
use serde::Serialize;
use std::collections::BTreeMap;

/// Events of an interval of time, by the moments of sending and of answers. All intervals of a load
/// are kept, which may last for days: it holds figures, no histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its begin since the begin of the load, warm-up included.
    pub start_seconds: f64,
    /// Its length; the last one may be shorter.
    pub length_seconds: f64,
    /// Whether it lies in the warm-up, wholly or in part.
    pub warmup: bool,
    /// Whether it begins after the end of the load, when answers were waited for and nothing was
    /// due any more. Such an interval is only told if something came.
    pub after_end: bool,
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

/// Part of one thread in an interval.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of the thread.
    pub thread: usize,
    /// Number of the interval.
    pub index: u64,
    /// The interval in which the thread goes on; it will not speak of earlier ones.
    pub next: u64,
    /// When the load of the thread ends, since its begin, as far as it is known by now.
    pub end: Nanos,
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
    /// `end` is when the load ends, by the same count.
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

/// Puts the parts of all threads together.
#[derive(Debug)]
pub(super) struct Collector {
    length: Nanos,
    warmup: Nanos,
    /// When the load of each thread ends: earlier than was asked for where it was stopped.
    ends: Vec<Nanos>,
    /// The first interval that each thread may still speak of.
    progress: Vec<u64>,
    waiting: BTreeMap<u64, (Counts, Times)>,
    told: u64,
}

impl Collector {
    /// For so many threads, intervals of a length, and a load of a length with its warm-up.
    pub fn new(threads: usize, length: Nanos, warmup: Nanos, end: Nanos) -> Self {
        let waiting = BTreeMap::new();
        let (ends, progress) = (vec![end; threads], vec![0; threads]);
        Self { length, warmup, ends, progress, waiting, told: 0 }
    }

    /// Takes a part; the intervals that are complete with it, with their latencies.
    pub fn take(&mut self, part: &Part) -> Vec<(Interval, Times)> {
        self.progress[part.thread] = part.next;
        self.ends[part.thread] = part.end;
        let (counts, latency) = self.waiting.entry(part.index).or_default();
        *counts += part.counts;
        latency.add(&part.latency);
        let complete = self.progress.iter().copied().min().unwrap_or(0);
        (self.told..complete).filter_map(|index| self.tell(index)).collect()
    }

    /// The intervals that are left.
    pub fn finish(mut self) -> Vec<(Interval, Times)> {
        let last = self.waiting.keys().next_back().map_or(self.told, |last| last + 1);
        (self.told..last).filter_map(|index| self.tell(index)).collect()
    }

    /// None of an interval after the end in which nothing happened.
    fn tell(&mut self, index: u64) -> Option<(Interval, Times)> {
        self.told = index + 1;
        let (counts, latency) = self.waiting.remove(&index).unwrap_or_default();
        let start = index * self.length;
        let end = self.ends.iter().copied().max().unwrap_or(0);
        let after_end = start >= end;
        if after_end && counts == Counts::default() {
            return None;
        }
        // While answers are waited for after the end, the last interval is a whole one.
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
    fn an_interval_is_told_once_all_threads_have_passed_it() {
        const END: Nanos = 3 * SECOND;
        let mut collector = Collector::new(2, SECOND, SECOND, END);
        let mut threads = [Open::new(0, SECOND), Open::new(1, SECOND)];
        for thread in &mut threads {
            thread.sent(0, 5);
            thread.ended(Ending::Answer(Outcome::Done), 1_000);
            thread.ended(Ending::Timeout, 1_000);
        }
        assert_eq!(collector.take(&threads[0].turn(SECOND, END)), []);
        // The other one slept through the second interval.
        let told = collector.take(&threads[1].turn(2 * SECOND + 5, END));
        assert_eq!(told.len(), 1);
        let (interval, latency) = &told[0];
        assert_eq!((interval.sent_rate_rps, interval.served_rate_rps), (10.0, 2.0));
        assert_eq!((interval.failed_requests, latency.count()), (2, 2));
        assert!(interval.warmup);
        let told = collector.take(&threads[0].turn(2 * SECOND, END));
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].0.start_seconds, told[0].0.warmup), (1.0, false));
        threads[0].sent(0, 4);
        assert_eq!(collector.take(&threads[0].turn(3 * SECOND, END)), []);
        let rest = collector.finish();
        assert_eq!((rest.len(), rest[0].0.sent_rate_rps), (1, 4.0));
    }

    /// A load of two seconds: the answers to the last requests come in the third one, or do not.
    #[test]
    fn after_the_end_only_an_interval_with_something_in_it_is_told() {
        const END: Nanos = 2 * SECOND;
        for answers in [0, 1] {
            let mut collector = Collector::new(1, SECOND, 0, END);
            let mut thread = Open::new(0, SECOND);
            let mut told = Vec::new();
            for second in 1..=2 {
                thread.sent(0, 7);
                told.extend(collector.take(&thread.turn(second * SECOND, END)));
            }
            for _ in 0..answers {
                thread.ended(Ending::Answer(Outcome::Done), 1_000);
            }
            told.extend(collector.take(&thread.turn(END + 5, END)));
            told.extend(collector.finish());
            assert_eq!(told.len(), 2 + answers);
            assert!(told.iter().take(2).all(|(one, _)| !one.after_end));
            assert!(told.iter().skip(2).all(|(one, _)| one.after_end));
        }
    }

    /// The rate of the interval in which a load was stopped is that until then.
    #[test]
    fn the_last_interval_ends_with_the_load() {
        let mut collector = Collector::new(2, SECOND, 0, 9 * SECOND);
        let mut threads = [Open::new(0, SECOND), Open::new(1, SECOND)];
        threads.iter_mut().for_each(|thread| thread.sent(0, 5));
        let mut told = Vec::new();
        for (thread, stopped) in threads.iter_mut().zip([SECOND / 2 - 9, SECOND / 2]) {
            told.extend(collector.take(&thread.turn(SECOND * 3 / 4, stopped)));
        }
        let last = &told[0].0;
        assert_eq!((told.len(), last.length_seconds, last.sent_rate_rps), (1, 0.5, 20.0));
    }

    /// A histogram is a quarter of a megabyte: with one in each, a load with intervals of 10 ms took
    /// 1.9 GB in 70 s.
    #[test]
    fn kept_interval_is_small() {
        fn owns_nothing<T: Copy>(_: &T) {}
        let mut thread = Open::new(0, SECOND);
        let told = Collector::new(1, SECOND, 0, SECOND).take(&thread.turn(SECOND, SECOND));
        owns_nothing(&told[0].0);
        assert!(size_of::<Interval>() <= 100);
    }
}
