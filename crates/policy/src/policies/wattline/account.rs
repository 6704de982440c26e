//! Counts how many packets a leap of load may make late.

use super::choose::LATE;

/// Seconds that the account reaches back: the budget holds for every second.
const REACH: f64 = 1.0;
/// Share of the account that one leap may use where leaps come, so that enough is left for a second
/// one right after it.
const OF_ONE_LEAP: f64 = 0.5;

/// Share of the allowed late packets that is spent: where leaps come, all that is paid in is spent, and a
/// last leap may cost more than planned.
const SPENT: f64 = 0.97;

/// Share of the most that is saved, above which there is enough for leaps that are expected.
const RICH: f64 = 0.5;

/// An account of late packets: a hundred packets in time pay for one late packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account {
    left: f64,
    /// The most that is saved.
    most: f64,
}

impl Account {
    /// Books packets that left, and how many of them were late; `rate` is packets per second.
    pub fn book(&mut self, packets: u64, late: u64, rate: f64) {
        let most = LATE * rate * REACH;
        let left = self.left + SPENT * LATE * packets as f64 - late as f64;
        (self.left, self.most) = (left.clamp(-most, most), most);
    }

    /// Packets that a leap may make late; below zero after more were late than are allowed. The very
    /// first leap (`leaps` is false) may use the whole account.
    pub fn allows(&self, leaps: bool) -> f64 {
        if leaps { OF_ONE_LEAP * self.left } else { self.left }
    }

    /// Whether so much is saved that leaps which are expected may cost some of it, or nobody measures
    /// what they cost.
    pub fn needs_no_more(&self) -> bool {
        self.most == 0.0 || self.left > RICH * self.most
    }

    /// Whether more packets were late than are allowed.
    pub fn is_overdrawn(&self) -> bool {
        self.left < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_in_time_pay_for_nearly_one_late_and_no_more_is_saved_than_of_a_second() {
        let mut account = Account::default();
        assert!(account.allows(true) == 0.0 && !account.is_overdrawn(), "nothing is known");
        assert!(account.needs_no_more(), "nobody measures");
        account.book(10_000, 40, 1e6);
        assert_eq!((account.allows(true), account.allows(false)), (28.5, 57.0));
        assert!(!account.needs_no_more());
        account.book(10_000_000, 0, 1e6);
        assert!(account.needs_no_more());
        assert_eq!(account.allows(true), 5_000.0);
        account.book(1_000, 10_049, 1e6);
        assert!(account.is_overdrawn() && (account.allows(true) + 19.65).abs() < 1e-9);
    }
}
