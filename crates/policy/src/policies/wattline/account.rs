//! How many packets may still be late: what a leap of load may cost.

use super::choose::LATE;

/// The account reaches back so far, in seconds: the budget is to be kept in every second.
const REACH: f64 = 1.0;
/// Share of what is left that one leap may cost where leaps come, so that a second one right after
/// it is paid for, too.
const OF_ONE_LEAP: f64 = 0.5;

/// One packet of a hundred that left in time pays for one that did not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account {
    left: f64,
}

impl Account {
    /// So many packets left, so many of them late; `rate` is packets per second.
    pub fn book(&mut self, packets: u64, late: u64, rate: f64) {
        let most = LATE * rate * REACH;
        let left = self.left + LATE * packets as f64 - late as f64;
        self.left = left.clamp(-most, most);
    }

    /// Packets that a leap may make late; below zero after more were late than are allowed. Where
    /// none ever came (`leaps`), the first may cost all.
    pub fn allows(&self, leaps: bool) -> f64 {
        if leaps { OF_ONE_LEAP * self.left } else { self.left }
    }

    /// More were late than are allowed.
    pub fn is_overdrawn(&self) -> bool {
        self.left < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_in_time_pay_for_one_late_and_no_more_is_saved_than_of_a_second() {
        let mut account = Account::default();
        assert!(account.allows(true) == 0.0 && !account.is_overdrawn(), "nothing is known");
        account.book(10_000, 40, 1e6);
        assert_eq!((account.allows(true), account.allows(false)), (30.0, 60.0));
        account.book(10_000_000, 0, 1e6);
        assert_eq!(account.allows(true), 5_000.0);
        account.book(1_000, 10_050, 1e6);
        assert!(account.is_overdrawn() && account.allows(true) == -20.0);
    }
}
