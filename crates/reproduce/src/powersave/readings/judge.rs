//! Judges readings by the planned checks, and selects the Pareto set: readings whose met checks are
//! not a proper subset of another reading's.

use super::Reading;
use super::measure::{Figures, greatest};
use crate::error::ReproduceError;
use crate::planned;
use std::collections::BTreeSet;
use wattline_report::{Check, Verdict};

/// A reading with its figures and the results of the checks.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The reading.
    pub reading: Reading,
    /// Its figures.
    pub figures: Figures,
    /// Ids of the checks that the reading meets.
    pub met: BTreeSet<&'static str>,
    /// All checks, in the order of the plan.
    pub checks: Vec<Check>,
}

/// Ids of the plan's checks, in its order.
const CHECKS: [&str; 13] = [
    "from-above",
    "from-below",
    "low-load",
    "saving-click",
    "saving-napi",
    "lowest",
    "mean",
    "added",
    "peak",
    "peak-over-mean",
    "order",
    "losses",
    "bursts",
];

/// Compares the figures of a reading with the plan.
///
/// # Errors
/// When the plan lacks a check.
pub fn judge(reading: &Reading, figures: &Figures) -> Result<Judged, ReproduceError> {
    let plan = planned::powersave_readings()?;
    let (mut checks, mut met) = (Vec::new(), BTreeSet::new());
    for id in CHECKS {
        let of = match id {
            "from-above" => figures.worst_above(),
            "from-below" => greatest(&figures.below_watts),
            "low-load" => figures.low_load,
            "saving-click" => figures.saving_click,
            "saving-napi" => figures.saving_napi,
            "mean" => figures.mean_micros,
            "added" => figures.added_micros,
            "peak" => figures.peak_micros,
            "peak-over-mean" => figures.peak_over_mean,
            "order" => figures.reordered as f64,
            "losses" => figures.lost as f64,
            "bursts" => figures.burst_range,
            _ => figures.intervals_above_napi as f64,
        };
        let check = if id == "lowest" {
            plan.holds(id, of == 0.0, format!("not in {of} intervals"))?
        } else {
            plan.check(id, &[of])?
        };
        if check.verdict == Verdict::Meets {
            met.insert(id);
        }
        checks.push(check);
    }
    Ok(Judged { reading: reading.clone(), figures: figures.clone(), met, checks })
}

impl Judged {
    /// Combines two measurements of one reading: takes the worse figure of each pair, and a check
    /// is met only if both meet it.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.met.retain(|id| other.met.contains(id));
        for (own, other) in self.checks.iter_mut().zip(&other.checks) {
            if own.verdict == Verdict::Meets && other.verdict != Verdict::Meets {
                own.clone_from(other);
            }
        }
        let (own, other) = (&mut self.figures, &other.figures);
        for (own, other) in own.above_watts.iter_mut().zip(other.above_watts) {
            *own = own.max(other);
        }
        own.changes_per_second = own.changes_per_second.max(other.changes_per_second);
        self
    }

    /// Returns true if this reading is better than the shipped one by the rule of the plan.
    pub fn better_than(&self, shipped: &Self) -> bool {
        self.met.len() > shipped.met.len() && self.met.contains("losses")
    }

    /// Orders readings by the plan's preference, best first.
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        let changes = |it: &Self| it.figures.changes_per_second;
        let more = other.met.len().cmp(&self.met.len());
        more.then(self.figures.worst_above().total_cmp(&other.figures.worst_above()))
            .then(changes(self).total_cmp(&changes(other)))
            .then(self.reading.cmp(&other.reading))
    }
}

/// Returns the Pareto set: readings whose met checks are not a proper subset of another reading's.
/// Readings that meet the same checks are represented by the first in [`Judged::order`].
pub fn maximal(of: &[Judged]) -> Vec<&Judged> {
    let mut sorted: Vec<&Judged> = of.iter().collect();
    sorted.sort_by(|a, b| a.order(b));
    let mut kept: Vec<&Judged> = Vec::new();
    for one in sorted {
        if !kept.iter().any(|better| one.met.is_subset(&better.met)) {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(above: f64, peak: f64) -> Figures {
        Figures {
            above_watts: [0.0, above, 1.0, 2.0],
            below_watts: [1.0; 4],
            low_load: 0.5,
            saving_click: 45.0,
            saving_napi: 30.0,
            intervals_above_napi: 0,
            mean_micros: 16.0,
            added_micros: 5.0,
            peak_micros: peak,
            peak_over_mean: 3.0,
            reordered: 0,
            lost: 0,
            burst_range: 4.0,
            changes_per_second: 10.0,
            reaction_micros: 80.0,
        }
    }

    fn judged(c_down: u64, above: f64, peak: f64) -> Judged {
        let reading =
            Reading { read: "after".into(), reset: "all".into(), batch: 32, c_up: 0, c_down };
        judge(&reading, &figures(above, peak)).unwrap()
    }

    #[test]
    fn every_planned_check_is_made_and_can_fail() {
        let plan = planned::powersave_readings().unwrap();
        let ids: Vec<&str> = plan.checks.iter().map(|check| check.id.as_str()).collect();
        assert_eq!(ids, CHECKS);
        let good = judged(20, 4.9, 59.0);
        assert_eq!(good.met.len(), 12, "all but the saving over NAPI-Click: {:?}", good.met);
        let mut bad = figures(60.0, 61.0);
        bad.below_watts[3] = 5.1;
        (bad.low_load, bad.saving_click, bad.intervals_above_napi) = (0.56, 52.1, 1);
        (bad.mean_micros, bad.added_micros, bad.peak_over_mean) = (12.9, 9.1, 4.1);
        (bad.reordered, bad.lost, bad.burst_range) = (1, 1, 5.1);
        let bad = judge(&good.reading, &bad).unwrap();
        assert!(bad.met.is_empty(), "{:?}", bad.met);
    }

    #[test]
    fn pareto_set_has_no_subset_of_another() {
        let all = [
            judged(1, 60.0, 50.0),
            judged(2, 4.0, 90.0),
            judged(3, 30.0, 90.0),
            judged(4, 3.0, 95.0),
        ];
        let kept: Vec<u64> = maximal(&all).iter().map(|it| it.reading.c_down).collect();
        // The third meets less than the first; the fourth the same as the second, nearer.
        assert_eq!(kept, [4, 1]);
        let both = judged(5, 1.0, 20.0);
        assert!(both.better_than(&all[0]) && !all[1].better_than(&all[0]));
        assert_eq!(both.with(&all[1]).met, all[1].met);
    }
}
