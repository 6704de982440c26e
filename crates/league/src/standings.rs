//! Summary of the rows of a league: per kind of traffic, with intervals.

use crate::rows::{Results, Row, by_kind};
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A policy in one kind of traffic, over all seeds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// The server.
    pub server: String,
    /// The traffic.
    pub traffic: String,
    /// The budget.
    pub budget_seconds: f64,
    /// The policy, or the name of a tuned rival ([`Row::contender`]).
    pub policy: String,
    /// The setting that was played.
    pub setting: String,
    /// Number of seeds.
    pub seeds: usize,
    /// Seeds on which the policy kept the budget without loss.
    pub feasible: usize,
    /// Mean gap to the lower bound over the seeds; not a number in a league without bounds.
    pub gap: f64,
    /// Half the width.
    pub gap_within: f64,
    /// Mean gap above the base power.
    pub gap_above_base: f64,
    /// Energy relative to the league's first policy on the same seeds: mean of the paired
    /// differences, as a share of its energy.
    pub beside_first: f64,
    /// Half the width.
    pub beside_first_within: f64,
    /// The largest share of late packets of any seed.
    pub worst_late: f64,
    /// Packets lost over all seeds.
    pub dropped_packets: u64,
    /// Mean changes per second.
    pub changes_per_second: f64,
}

/// Summarises every policy in every kind of traffic. Runs that did not keep the budget count in the
/// figures of their row. `feasible` counts the others: a policy with fewer than `seeds` is not
/// ranked.
pub fn standings(results: &Results) -> Vec<Standing> {
    let mut found = Vec::new();
    for ((server, traffic, nanos), policies) in by_kind(&results.rows) {
        let first: Vec<&Row> = policies.first().map(|(_, rows)| rows.clone()).unwrap_or_default();
        for (policy, rows) in &policies {
            let of = |value: fn(&Row) -> f64| rows.iter().map(|row| value(row)).collect::<Vec<_>>();
            let beside: Vec<f64> = rows
                .iter()
                .zip(&first)
                .map(|(row, first)| row.energy_joules / first.energy_joules - 1.0)
                .collect();
            let (gap, gap_within) =
                mean_within(&of(|row| row.gap_to_lower_bound.unwrap_or(f64::NAN)));
            let (beside_first, beside_first_within) = mean_within(&beside);
            found.push(Standing {
                server: server.clone(),
                traffic: traffic.clone(),
                budget_seconds: nanos as f64 * 1e-9,
                policy: (*policy).to_owned(),
                setting: rows.first().map(|row| row.policy.clone()).unwrap_or_default(),
                seeds: rows.len(),
                feasible: rows.iter().filter(|row| row.feasible).count(),
                gap,
                gap_within,
                gap_above_base: mean_within(&of(|row| row.gap_above_base.unwrap_or(f64::NAN))).0,
                beside_first,
                beside_first_within,
                worst_late: of(|row| row.late_fraction).into_iter().fold(0.0, f64::max),
                dropped_packets: rows.iter().map(|row| row.dropped_packets).sum(),
                changes_per_second: mean_within(&of(|row| row.changes_per_second)).0,
            });
        }
    }
    found
}

/// Returns the mean and half the width of its 95 % interval (Student's t), which is not a number
/// for a single value.
fn mean_within(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, f64::NAN);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    // Degrees of freedom are at least 1, so the distribution exists.
    let factor = StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::NAN, |t| t.inverse_cdf(0.975));
    (mean, factor * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_follows_students_t() {
        // t of 2 degrees at 97.5 % is 4.3027; the standard error of 1, 2, 3 is 1 / sqrt(3).
        let (mean, within) = mean_within(&[1.0, 2.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12 && (within - 4.302_65 / 3f64.sqrt()).abs() < 1e-3);
        assert!(mean_within(&[1.0]).1.is_nan());
    }
}
