//! Limits on how often a machine's knobs are set: a budget of writes, and a dwell time per change.
//!
//! A policy may change its decision with every batch. A real indirection table is written under the
//! kernel's network lock, and each change moves flows. So a machine may name the number of writes
//! per second that it accepts, and how long each knob keeps a new setting. A deferred step is taken
//! as soon as the pace allows, towards the point that the policy wants by then.

use super::knob::Knob;
use wattline_units::{Span, Time};

/// Part of the budget that only steps which add capacity may use, so that capacity can still be
/// added after many steps down.
const KEPT_FOR_CAPACITY: f64 = 0.5;

/// Writes that a machine accepts, as a token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Average rate; above zero.
    pub writes_per_second: f64,
    /// Largest number at once; at least 1. A step that costs more waits until the bucket is full.
    pub burst_writes: f64,
}

/// The pace of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// `None`: writes are not limited.
    pub budget: Option<Budget>,
    /// Time for which a knob keeps a new setting, by [`Knob`]. It counts for each core, queue or
    /// port separately.
    pub dwell: [Span; Knob::ALL.len()],
}

impl Pace {
    /// No limits.
    pub const FREE: Self = Self { budget: None, dwell: [Span::ZERO; Knob::ALL.len()] };

    /// Returns the time for which a knob keeps a new setting.
    pub const fn dwell(&self, knob: Knob) -> Span {
        self.dwell[knob as usize]
    }
}

/// The token bucket of a [`Budget`]: the writes that are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteBudget {
    budget: Option<Budget>,
    left: f64,
    at: Time,
}

impl WriteBudget {
    pub fn new(budget: Option<Budget>) -> Self {
        // Budgets may come from a file. Within these bounds no wait is zero or endless.
        let budget = budget.map(|budget| Budget {
            writes_per_second: budget.writes_per_second.clamp(1e-3, 1e12),
            burst_writes: budget.burst_writes.clamp(1.0, 1e12),
        });
        Self { budget, left: budget.map_or(0.0, |budget| budget.burst_writes), at: Time::ZERO }
    }

    /// Spends the writes of a step, or returns when there will be enough.
    pub fn spend(&mut self, now: Time, writes: u32, adds_capacity: bool) -> Result<(), Time> {
        let Some(budget) = self.budget else { return Ok(()) };
        let refilled = now.since(self.at).as_seconds() * budget.writes_per_second;
        self.left = (self.left + refilled).min(budget.burst_writes);
        self.at = self.at.max(now);
        let kept = if adds_capacity { 0.0 } else { budget.burst_writes * KEPT_FOR_CAPACITY };
        let cost = f64::from(writes);
        // A step that costs more than the bucket holds takes all of it.
        let needed = (cost + kept).min(budget.burst_writes);
        if self.left + 1e-9 >= needed {
            self.left = (self.left - cost).max(0.0);
            return Ok(());
        }
        let wait = Span::from_seconds((needed - self.left) / budget.writes_per_second);
        Err(now + wait.max(Span::from_nanos(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_budget_is_kept_in_the_long_run_and_half_of_it_for_more_capacity() {
        let budget = Budget { writes_per_second: 100.0, burst_writes: 10.0 };
        let mut bucket = WriteBudget::new(Some(budget));
        let down = (0..20).filter(|_| bucket.spend(at(0), 1, false).is_ok()).count();
        let up = (0..20).filter(|_| bucket.spend(at(0), 1, true).is_ok()).count();
        assert_eq!((down, up), (5, 5));
        let due = bucket.spend(at(0), 1, true).unwrap_err();
        assert_eq!(due, at(10), "one write takes 10 ms to refill");
        assert!(bucket.spend(due, 1, true).is_ok());
        let many =
            (0..10_000).filter(|milli| bucket.spend(at(10 + milli), 1, true).is_ok()).count();
        assert!((990..=1_011).contains(&many), "{many} in ten seconds");
    }

    #[test]
    fn a_step_above_the_whole_budget_takes_all_of_it_and_invalid_rates_do_no_harm() {
        let budget = Budget { writes_per_second: 100.0, burst_writes: 10.0 };
        let mut bucket = WriteBudget::new(Some(budget));
        assert!(bucket.spend(at(0), 1_000, true).is_ok());
        assert_eq!(bucket.spend(at(0), 1_000, true), Err(at(100)));
        for rate in [0.0, -1.0, f64::INFINITY] {
            let mut bucket =
                WriteBudget::new(Some(Budget { writes_per_second: rate, burst_writes: rate }));
            let _ = bucket.spend(at(0), u32::MAX, true);
            if let Err(due) = bucket.spend(at(0), u32::MAX, false) {
                assert!(due > at(0));
            }
        }
        assert!(WriteBudget::new(None).spend(at(0), u32::MAX, false).is_ok());
    }
}
