//! Price of a late packet, in joules: with it, parts of a schedule are compared one by one.

use super::player::Outcome;
use wattline_sim::Tally;

/// A dropped packet costs as much as so many late ones.
const DROPPED: f64 = 50.0;
/// A late packet beyond the allowance costs a run so many times the price.
const PENALTY: f64 = 4.0;
/// Prices that are looked at, in joules.
const RANGE: (f64, f64) = (1e-8, 1e-2);
/// Halvings of that range, by its logarithm.
const HALVINGS: usize = 14;

/// The price of a late packet in joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Price(pub f64);

impl Price {
    /// Energy of a slot and what its late packets cost.
    pub fn of(self, tally: &Tally) -> f64 {
        tally.joules + self.0 * late(tally)
    }

    /// Energy of a run, and a penalty where more packets are late than allowed.
    pub fn merit(self, outcome: &Outcome, allowed: f64) -> f64 {
        let late: f64 = outcome.tallies.iter().map(late).sum();
        outcome.played.energy_joules + PENALTY * self.0 * (late - allowed).max(0.0)
    }

    /// The least price at which no more packets are late than allowed, given how many are at a price.
    pub fn least(allowed: f64, mut late_at: impl FnMut(Self) -> f64) -> Self {
        let (mut low, mut high) = (RANGE.0.ln(), RANGE.1.ln());
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if late_at(Self(middle.exp())) <= allowed {
                high = middle;
            } else {
                low = middle;
            }
        }
        Self(high.exp())
    }
}

/// Late packets, and the dropped ones as if they were many.
pub(super) fn late(tally: &Tally) -> f64 {
    tally.late as f64 + DROPPED * tally.dropped as f64
}
