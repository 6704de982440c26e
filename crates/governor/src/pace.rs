//! How often a machine's knobs may be turned: a budget of writes, and rests between changes.
//!
//! A policy may change its mind at every batch. A real table is written through the kernel's
//! network lock, and each of its changes moves flows; so a machine may say how many writes a
//! second it bears, and how long each knob stays as it was set. What is put off is done as soon
//! as the pace allows, and then as the policy wants it by then.

use super::knob::Knob;
use wattline_units::{Span, Time};

/// Steps that take capacity away leave this part of the budget to those that add some: a
/// controller that came down too often can still climb.
const KEPT_FOR_CAPACITY: f64 = 0.5;

/// Writes that a machine bears: so many at once, and so many a second in the long run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// In the long run; above zero.
    pub writes_per_second: f64,
    /// At once, after a while without any; at least 1. A step that costs more waits for a full
    /// budget.
    pub burst_writes: f64,
}

/// The pace of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// `None`: as many writes as anyone wants.
    pub budget: Option<Budget>,
    /// After a step, its knob stays for so long, by [`Knob`]; at each of its places by itself.
    pub dwell: [Span; Knob::ALL.len()],
}

impl Pace {
    /// As often as anyone wants.
    pub const FREE: Self = Self { budget: None, dwell: [Span::ZERO; Knob::ALL.len()] };

    /// How long a knob stays as it was set.
    pub const fn dwell(&self, knob: Knob) -> Span {
        self.dwell[knob as usize]
    }
}

/// What is left of a budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purse {
    budget: Option<Budget>,
    left: f64,
    at: Time,
}

impl Purse {
    pub fn new(budget: Option<Budget>) -> Self {
        // Rates from outside may be anything; with these, time still goes on.
        let budget = budget.map(|budget| Budget {
            writes_per_second: budget.writes_per_second.clamp(1e-3, 1e12),
            burst_writes: budget.burst_writes.clamp(1.0, 1e12),
        });
        Self { budget, left: budget.map_or(0.0, |budget| budget.burst_writes), at: Time::ZERO }
    }

    /// Pays for a step of so many writes, or says when it can be paid for.
    pub fn pay(&mut self, now: Time, writes: u32, adds_capacity: bool) -> Result<(), Time> {
        let Some(budget) = self.budget else { return Ok(()) };
        let earned = now.since(self.at).as_seconds() * budget.writes_per_second;
        self.left = (self.left + earned).min(budget.burst_writes);
        self.at = self.at.max(now);
        let kept = if adds_capacity { 0.0 } else { budget.burst_writes * KEPT_FOR_CAPACITY };
        let price = f64::from(writes);
        // One that costs more than there ever is takes all.
        let needed = (price + kept).min(budget.burst_writes);
        if self.left + 1e-9 >= needed {
            self.left = (self.left - price).max(0.0);
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
        let mut purse = Purse::new(Some(budget));
        let down = (0..20).filter(|_| purse.pay(at(0), 1, false).is_ok()).count();
        let up = (0..20).filter(|_| purse.pay(at(0), 1, true).is_ok()).count();
        assert_eq!((down, up), (5, 5));
        let due = purse.pay(at(0), 1, true).unwrap_err();
        assert_eq!(due, at(10), "one write takes 10 ms to earn");
        assert!(purse.pay(due, 1, true).is_ok());
        let many = (0..10_000).filter(|milli| purse.pay(at(10 + milli), 1, true).is_ok()).count();
        assert!((990..=1_011).contains(&many), "{many} in ten seconds");
    }

    #[test]
    fn a_step_that_costs_more_than_there_ever_is_takes_all_and_strange_budgets_do_no_harm() {
        let budget = Budget { writes_per_second: 100.0, burst_writes: 10.0 };
        let mut purse = Purse::new(Some(budget));
        assert!(purse.pay(at(0), 1_000, true).is_ok());
        assert_eq!(purse.pay(at(0), 1_000, true), Err(at(100)));
        for rate in [0.0, -1.0, f64::INFINITY] {
            let mut purse =
                Purse::new(Some(Budget { writes_per_second: rate, burst_writes: rate }));
            let _ = purse.pay(at(0), u32::MAX, true);
            if let Err(due) = purse.pay(at(0), u32::MAX, false) {
                assert!(due > at(0));
            }
        }
        assert!(Purse::new(None).pay(at(0), u32::MAX, false).is_ok());
    }
}
