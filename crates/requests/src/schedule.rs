//! Intended time of each request.
//!
//! The times depend only on the arrivals, the rate and the seed, never on the server: the load is
//! an open loop. A request that cannot be sent on time is sent later, and its latency still counts
//! from the intended time.

use crate::clock::{Nanos, SECOND};
use crate::random::{Random, Stream, random};
use rand_distr::{Distribution as _, Exp1};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Distribution of the requests of all threads over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// One every 1/rate seconds.
    Constant,
    /// A Poisson process: independent exponential gaps.
    Poisson,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        })
    }
}

impl FromStr for Arrivals {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "constant" => Ok(Self::Constant),
            "poisson" => Ok(Self::Poisson),
            _ => Err("expected constant or poisson".into()),
        }
    }
}

/// Intended times of one thread's requests, in nanoseconds since the start of the run.
///
/// The schedules of all threads add up to the requested process: constant arrivals are assigned to
/// the threads in turn, and a sum of independent Poisson processes is one.
#[derive(Debug, Clone)]
pub struct Schedule {
    next: f64,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Constant { rate: f64, threads: f64, index: f64 },
    Poisson { mean_gap: f64, random: Box<Random> },
}

impl Schedule {
    /// Creates the schedule of `thread` (from 0) of `threads`; `rate` is the requests per second of
    /// all threads together.
    ///
    /// # Panics
    /// Panics if `rate` is not a finite number above zero, or `thread` is not below `threads`.
    pub fn new(arrivals: Arrivals, rate: f64, thread: usize, threads: usize, seed: u64) -> Self {
        assert!(rate.is_finite() && rate > 0.0, "a rate of {rate} requests a second");
        assert!(thread < threads, "thread {thread} of {threads}");
        let gap = SECOND as f64 / rate;
        match arrivals {
            Arrivals::Constant => Self {
                next: gap * thread as f64,
                state: State::Constant { rate, threads: threads as f64, index: thread as f64 },
            },
            Arrivals::Poisson => {
                let random = Box::new(random(seed, Stream::Arrivals(thread)));
                let state = State::Poisson { mean_gap: gap * threads as f64, random };
                let mut schedule = Self { next: 0.0, state };
                schedule.advance();
                schedule
            }
        }
    }

    /// Returns the time of the next request.
    pub fn peek(&self) -> Nanos {
        self.next as Nanos
    }

    /// Advances to the request after it.
    pub fn advance(&mut self) {
        match &mut self.state {
            // Computed from the index, not from the last time, so that rounding errors do not
            // accumulate. Doubles are exact to a nanosecond for the first 104 days.
            State::Constant { rate, threads, index } => {
                *index += *threads;
                self.next = *index * SECOND as f64 / *rate;
            }
            State::Poisson { mean_gap, random } => {
                let gap: f64 = Exp1.sample(random.as_mut());
                self.next += gap * *mean_gap;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut schedule: Schedule, until: Nanos) -> Vec<Nanos> {
        std::iter::from_fn(|| {
            let due = schedule.peek();
            schedule.advance();
            (due < until).then_some(due)
        })
        .collect()
    }

    #[test]
    fn constant_arrivals_of_all_threads_are_evenly_spaced_without_drift() {
        let mut all: Vec<Nanos> = (0..3)
            .flat_map(|thread| {
                times(Schedule::new(Arrivals::Constant, 3_000.0, thread, 3, 1), 10 * SECOND)
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all.len(), 30_000);
        for (index, due) in all.iter().enumerate() {
            assert!(due.abs_diff(index as u64 * SECOND / 3_000) <= 1, "request {index}: {due}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_exponential_gaps() {
        let all = times(Schedule::new(Arrivals::Poisson, 20_000.0, 1, 2, 7), 20 * SECOND);
        // One of two threads: 10,000 a second, 200,000 in all with a standard deviation of 447.
        assert!((all.len() as f64 - 200_000.0).abs() < 5.0 * 447.0, "{}", all.len());
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // An exponential distribution has a coefficient of variation of 1.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{mean} {variance}");
        let beyond = gaps.iter().filter(|gap| **gap > 3.0 * mean).count() as f64;
        assert!((beyond / gaps.len() as f64 - (-3.0_f64).exp()).abs() < 0.003);
    }

    #[test]
    fn seed_and_thread_determine_the_times() {
        let poisson = |thread, seed| {
            times(Schedule::new(Arrivals::Poisson, 1_000.0, thread, 2, seed), SECOND)
        };
        assert_eq!(poisson(0, 5), poisson(0, 5));
        assert_ne!(poisson(0, 5), poisson(1, 5));
        assert_ne!(poisson(0, 5), poisson(0, 6));
    }
}
