//! Options of a load.

use crate::clock::Nanos;
use crate::schedule::Arrivals;
use std::time::Duration;
use thiserror::Error;

const HIGHEST_RATE: f64 = 1e8;
const MOST_CONNECTIONS: usize = 1_000_000;
const MOST_THREADS: usize = 256;
const DEEPEST: usize = 1_024;
const LONGEST: Duration = Duration::from_secs(10 * 86_400);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
/// Limit that keeps all intervals below 100 MB; 10 days have fewer intervals of one second.
const MOST_INTERVALS: u32 = 1_000_000;

/// Options of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Requests a second of all threads together.
    pub rate: f64,
    /// Distribution of requests over time.
    pub arrivals: Arrivals,
    /// Connections of all threads together, assigned to threads and servers in turn.
    pub connections: usize,
    /// Threads, each with an event loop.
    pub threads: usize,
    /// Requests that may be outstanding on a connection.
    pub depth: usize,
    /// Duration of the measurement.
    pub duration: Duration,
    /// Duration of the load before the measurement, which the report leaves out.
    pub warmup: Duration,
    /// Length of the intervals of the live view and the curve.
    pub interval: Duration,
    /// Time after sending at which an unanswered request fails; its connection is opened anew.
    pub timeout: Duration,
    /// Seed of the arrivals.
    pub seed: u64,
    /// Never sleep: sends with microsecond accuracy, but each thread occupies a whole processor.
    pub spin: bool,
}

/// An option outside its range.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{option}: {value} is out of range; allowed: {allowed}")]
pub struct OptionsError {
    /// Name of the option.
    pub option: &'static str,
    /// Its value.
    pub value: String,
    /// The range.
    pub allowed: String,
}

impl LoadOptions {
    /// Describes everything that the latency depends on except the rate. The seed only draws other
    /// arrivals of the same kind, and intervals are only for display.
    pub fn described(&self) -> String {
        let Self { arrivals, connections, threads, depth, duration, warmup, timeout, spin, .. } =
            self;
        let spins = if *spin { ", never asleep" } else { "" };
        format!(
            "{arrivals} arrivals over {connections} connections of depth {depth}, from {threads} \
             threads{spins}, {duration:?} after {warmup:?}, timeout {timeout:?}"
        )
    }

    /// Checks all options.
    ///
    /// # Errors
    /// Returns all options that are outside their range.
    pub fn check(&self) -> Result<(), Vec<OptionsError>> {
        let mut problems = Vec::new();
        let mut check = |good: bool, option, value: String, allowed: String| {
            if !good {
                problems.push(OptionsError { option, value, allowed });
            }
        };
        check(
            self.rate > 0.0 && self.rate <= HIGHEST_RATE,
            "rate",
            self.rate.to_string(),
            format!("above 0, up to {HIGHEST_RATE} requests a second"),
        );
        let counts = [
            ("connections", self.connections, MOST_CONNECTIONS),
            ("threads", self.threads, MOST_THREADS.min(self.connections.max(1))),
            ("depth", self.depth, DEEPEST),
        ];
        for (option, value, most) in counts {
            let allowed = match option {
                "threads" => format!("1 to {most}, no more than connections"),
                _ => format!("1 to {most}"),
            };
            check((1..=most).contains(&value), option, value.to_string(), allowed);
        }
        let shortest = Duration::from_millis(1);
        let spans = [
            ("duration", self.duration, SHORTEST_INTERVAL, LONGEST),
            ("warmup", self.warmup, Duration::ZERO, LONGEST),
            ("interval", self.interval, SHORTEST_INTERVAL, LONGEST),
            ("timeout", self.timeout, shortest, Duration::from_secs(3_600)),
        ];
        for (option, value, least, most) in spans {
            let allowed = format!("{least:?} to {most:?}");
            check((least..=most).contains(&value), option, format!("{value:?}"), allowed);
        }
        let whole = self.warmup.saturating_add(self.duration);
        if self.interval < whole / MOST_INTERVALS && problems.is_empty() {
            problems.push(OptionsError {
                option: "interval",
                value: format!("{:?}", self.interval),
                allowed: format!(
                    "{:?} or longer with this duration and warmup: {MOST_INTERVALS} intervals at most",
                    whole / MOST_INTERVALS
                ),
            });
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// Returns the length of a span whose range was checked.
pub(super) fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_differ_in_latency_have_different_descriptions() {
        let one = LoadOptions {
            rate: 1_000.0,
            arrivals: Arrivals::Poisson,
            connections: 2,
            threads: 1,
            depth: 1,
            duration: Duration::from_millis(300),
            warmup: Duration::from_secs(2),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            seed: 1,
            spin: false,
        };
        let words = "poisson arrivals over 2 connections of depth 1, from 1 threads, 300ms after 2s, \
                     timeout 1s";
        assert_eq!(one.described(), words);
        let long = Duration::from_secs(7);
        for other in [
            LoadOptions { arrivals: Arrivals::Constant, ..one.clone() },
            LoadOptions { connections: 90, ..one.clone() },
            LoadOptions { threads: 2, ..one.clone() },
            LoadOptions { depth: 2, ..one.clone() },
            LoadOptions { duration: long, ..one.clone() },
            LoadOptions { warmup: long, ..one.clone() },
            LoadOptions { timeout: long, ..one.clone() },
            LoadOptions { spin: true, ..one.clone() },
        ] {
            assert_ne!(other.described(), words);
        }
        let alike = LoadOptions { rate: 7.0, seed: 2, interval: long, ..one };
        assert_eq!(alike.described(), words);
    }

    #[test]
    fn all_options_outside_their_range_are_reported_at_once() {
        let good = LoadOptions {
            rate: 1_000.0,
            arrivals: Arrivals::Constant,
            connections: 4,
            threads: 4,
            depth: 1,
            duration: Duration::from_secs(1),
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            seed: 1,
            spin: false,
        };
        assert_eq!(good.check(), Ok(()));
        let bad = LoadOptions {
            rate: f64::NAN,
            threads: 5,
            depth: 0,
            duration: Duration::ZERO,
            ..good.clone()
        };
        let names: Vec<_> = bad.check().unwrap_err().iter().map(|one| one.option).collect();
        assert_eq!(names, ["rate", "threads", "depth", "duration"]);
        // Each interval takes memory.
        let ten_days = LoadOptions { duration: LONGEST, ..good };
        assert_eq!(ten_days.check(), Ok(()));
        let interval = SHORTEST_INTERVAL;
        let problems = LoadOptions { interval, ..ten_days }.check().unwrap_err();
        assert!(problems[0].to_string().starts_with("interval: 10ms"), "{problems:?}");
        assert!(problems[0].allowed.contains("864ms or longer"), "{problems:?}");
    }
}
