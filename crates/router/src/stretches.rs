//! What several governors of one router have counted, one after the other: each begins at 0 while the
//! workers count on, and the sums must never fall.

use wattline_governor::account::Totals;

/// Sums over all governors.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    /// Of those that have ended.
    before: Option<Totals>,
    /// What the present one found when it began.
    begun: Option<Totals>,
    /// The last sum.
    last: Option<Totals>,
}

impl Stretches {
    /// Everything, from what the present governor has counted.
    pub fn sum(&mut self, now: Totals) -> Totals {
        let begun = self.begun.get_or_insert_with(|| now.clone());
        let sum = match &self.before {
            None => now,
            Some(before) => before.and(begun, &now),
        };
        self.last = Some(sum.clone());
        sum
    }

    /// The present governor has ended; its last sum is kept.
    pub fn end(&mut self) {
        self.before = self.last.clone();
        self.begun = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_governor::account::{LoopTotals, MachineTotals};
    use wattline_governor::energy::Energy;
    use wattline_units::{Joules, Provenance, Span, Time};

    fn totals(seconds: u64, offered: u64, joules: Option<f64>) -> Totals {
        let energy = joules.map(|it| Energy::new(Joules(it), [], Provenance::EMULATED));
        let energy = energy.unwrap_or_default();
        let own = LoopTotals { decisions: seconds, ..LoopTotals::default() };
        let machine = MachineTotals { offered, energy, ..MachineTotals::default() };
        Totals { at: Time::ZERO + Span::from_millis(1000 * seconds), own, machine }
    }

    #[test]
    fn sums_go_on_where_a_governor_begins_at_nothing_and_workers_do_not() {
        let mut stretches = Stretches::default();
        assert_eq!(stretches.sum(totals(0, 100, Some(0.0))), totals(0, 100, Some(0.0)));
        assert_eq!(stretches.sum(totals(5, 300, Some(50.0))), totals(5, 300, Some(50.0)));
        stretches.end();
        // A port was removed, and its packets with it.
        assert_eq!(stretches.sum(totals(0, 200, Some(0.0))), totals(5, 300, Some(50.0)));
        assert_eq!(stretches.sum(totals(2, 210, Some(20.0))), totals(7, 310, Some(70.0)));
        stretches.end();
        // One that ended before anybody asked it changes nothing.
        stretches.end();
        assert_eq!(stretches.sum(totals(1, 210, None)).machine.energy.whole, Some(Joules(70.0)));
        assert_eq!(stretches.sum(totals(2, 211, Some(1.0))), totals(8, 311, Some(71.0)));
    }
}
