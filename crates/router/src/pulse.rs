//! Detection of workers that hang.

use std::time::{Duration, Instant};

/// Time between two checks of a worker's round counter. A worker blocks for a tenth of a second at
/// most ([`wattline_dataplane::worker::Worker::run`]).
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Number of consecutive checks without a round after which a worker hangs. A number rather than a
/// time, because a stalled machine also stalls the checks.
const CHECKS: u32 = 3;

/// Change of a worker's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It hangs: it has made no round for seconds.
    Hangs,
    /// It makes rounds again.
    GoesOn,
}

/// The rounds of one worker at the last check.
#[derive(Debug)]
pub(super) struct Pulse {
    rounds: u64,
    /// Consecutive checks that saw the same number.
    unchanged: u32,
    next_check: Option<Instant>,
}

impl Pulse {
    pub fn new() -> Self {
        Self { rounds: 0, unchanged: 0, next_check: None }
    }

    /// Returns true if it hung at the last check.
    pub fn hangs(&self) -> bool {
        self.unchanged >= CHECKS
    }

    /// Checks its round counter, if a check is due.
    pub fn check(&mut self, rounds: u64, now: Instant) -> Option<Change> {
        if self.next_check.is_some_and(|due| now < due) {
            return None;
        }
        self.next_check = Some(now + CHECK_EVERY);
        let before = self.hangs();
        self.unchanged = if rounds == self.rounds { self.unchanged.saturating_add(1) } else { 0 };
        self.rounds = rounds;
        match (before, self.hangs()) {
            (false, true) => Some(Change::Hangs),
            (true, false) => Some(Change::GoesOn),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_hangs_after_some_checks_without_a_round_until_the_next_round() {
        let start = Instant::now();
        let mut pulse = Pulse::new();
        let mut check = |second: u64, rounds| {
            let now = start + Duration::from_secs(second);
            let change = pulse.check(rounds, now);
            // Earlier calls have no effect.
            assert_eq!(pulse.check(rounds, now + CHECK_EVERY / 2), None);
            (change, pulse.hangs())
        };
        assert_eq!(check(0, 5), (None, false));
        assert_eq!(check(1, 5), (None, false));
        assert_eq!(check(2, 5), (None, false));
        assert_eq!(check(3, 5), (Some(Change::Hangs), true));
        assert_eq!(check(4, 5), (None, true), "reported once");
        assert_eq!(check(5, 6), (Some(Change::GoesOn), false));
        assert_eq!(check(6, 6), (None, false));
    }

    #[test]
    fn pause_of_the_whole_machine_counts_as_one_check() {
        let start = Instant::now();
        let mut pulse = Pulse::new();
        assert_eq!(pulse.check(1, start), None);
        assert_eq!(pulse.check(1, start + Duration::from_secs(3600)), None);
        assert!(!pulse.hangs());
    }
}
