//! Price of a late packet, in joules, by which parts of a schedule are compared.

use super::player::Outcome;
use wattline_sim::Tally;

/// Price of a dropped packet, in late packets.
const DROPPED: f64 = 50.0;
/// Factor on the price of late packets beyond the allowance.
const PENALTY: f64 = 4.0;
/// Range of prices, in joules.
const RANGE: (f64, f64) = (1e-8, 1e-2);
/// Halvings of that range, by its logarithm.
const HALVINGS: usize = 14;

/// The price of a late packet in joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Price(pub f64);

impl Price {
    /// Returns the energy of a slot plus the price of its late packets.
    pub fn of(self, tally: &Tally) -> f64 {
        tally.joules + self.0 * late(tally)
    }

    /// Returns the energy of a run, plus a penalty if more packets are late than allowed.
    pub fn merit(self, outcome: &Outcome, allowed: f64) -> f64 {
        let late: f64 = outcome.tallies.iter().map(late).sum();
        outcome.played.energy_joules + PENALTY * self.0 * (late - allowed).max(0.0)
    }

    /// Returns the least price at which no more packets are late than allowed; `late_at` counts the
    /// late packets at a price.
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

/// Returns the late packets, with each dropped packet counted as many.
pub(super) fn late(tally: &Tally) -> f64 {
    tally.late as f64 + DROPPED * tally.dropped as f64
}
