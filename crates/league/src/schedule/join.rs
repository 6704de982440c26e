//! Joins several played schedules into one, with the best of them in each slot.

use super::player::{Outcome, Player};
use super::price::{Price, late};
use crate::point::FixedPoint;

/// A played schedule.
pub(super) struct Donor {
    pub points: Vec<FixedPoint>,
    pub outcome: Outcome,
}

/// Returns the cheapest schedule that takes each slot from one of the donors, and the price of a
/// late packet at which it has as many as are allowed. Late packets are taken from the donor's run,
/// so they are an estimate: the backlog from the slot before may differ.
pub(super) fn join(player: &Player<'_>, donors: &[Donor]) -> (Price, Vec<FixedPoint>) {
    let server = player.case.server;
    let fastest = server.processor.highest_frequency();
    let exit = server.extra_exit_latency(server.deepest_idle_state()).as_seconds();
    // A change costs as much as waking half a core, since queues are not empty at its beginning.
    let wake = exit * server.awake_core_power(fastest).0;
    let change = |from: &FixedPoint, to: &FixedPoint| {
        let more = to.cores.saturating_sub(from.cores) as f64;
        if from == to { 0.0 } else { wake * (0.5 + more) }
    };
    let through = |price: Price| -> Vec<usize> {
        let slots = player.slots;
        let cost = |donor: &Donor, slot: usize| price.of(&donor.outcome.tallies[slot]);
        let mut rest = vec![0.0; donors.len()];
        let mut next = vec![vec![0usize; donors.len()]; slots];
        for slot in (0..slots).rev() {
            let here: Vec<f64> =
                donors.iter().zip(&rest).map(|(donor, rest)| cost(donor, slot) + rest).collect();
            for (before, donor) in donors.iter().enumerate() {
                let from = &donor.points[slot.saturating_sub(1)];
                let of = |to: usize| {
                    let change =
                        if to == before { 0.0 } else { change(from, &donors[to].points[slot]) };
                    (here[to] + change, to)
                };
                let best = (0..donors.len()).map(of).min_by(|a, b| a.0.total_cmp(&b.0));
                if let Some((least, to)) = best {
                    (rest[before], next[slot][before]) = (least, to);
                }
            }
        }
        let first = (0..donors.len()).min_by(|a, b| rest[*a].total_cmp(&rest[*b])).unwrap_or(0);
        let mut at = first;
        (0..slots)
            .map(|slot| {
                at = next[slot][at];
                at
            })
            .collect()
    };
    let late_on = |path: &[usize]| -> f64 {
        path.iter().enumerate().map(|(slot, of)| late(&donors[*of].outcome.tallies[slot])).sum()
    };
    let price = Price::least(player.allowed(), |price| late_on(&through(price)));
    let path = through(price);
    (price, path.iter().enumerate().map(|(slot, of)| donors[*of].points[slot]).collect())
}
