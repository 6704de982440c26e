//! r_max(f) and gamma(n) from the rows in which the cores were saturated.
//!
//! The logarithm of the capacity of n cores is a sum, log r_max(f) + log gamma(n), with gamma(1) =
//! 1.
//! This is a linear least-squares problem over all saturated rows at once.

use super::error::FitError;
use super::estimate::Estimate;
use super::groups::Groups;
use super::linear::{self, Solution};
use super::rows::Row;
use nalgebra::{DMatrix, DVector};

/// Without a column of offered rates, rows above this share of the highest rate at the same
/// frequency and number of cores count as saturated.
const PLATEAU: f64 = 0.95;

/// Results from the saturated rows.
pub(super) struct Saturation {
    /// r_max(f) in packets per second, by frequency.
    pub(super) max_rate: Vec<Estimate>,
    /// gamma(n), by number of cores as in [`Groups::cores`].
    pub(super) gamma: Vec<Estimate>,
    /// True if each row is saturated according to its offered rate.
    pub(super) saturated: Vec<bool>,
}

/// Finds the saturated rows of each (frequency, cores) and fits both factors.
pub(super) fn fit(rows: &[Row], groups: &Groups) -> Result<Saturation, FitError> {
    let (frequencies, core_counts) = (groups.frequencies.len(), groups.cores.len());
    let mut plateau = Vec::new();
    let mut saturated = vec![false; rows.len()];
    for frequency in 0..frequencies {
        for cores in 0..core_counts {
            let members: Vec<usize> =
                (0..rows.len()).filter(|&row| groups.of_row[row] == (frequency, cores)).collect();
            if members.is_empty() {
                continue;
            }
            let (top, offered_known) = saturated_members(rows, &members);
            for &row in &top {
                saturated[row] = offered_known;
            }
            plateau.extend(top);
        }
    }
    // Columns: log r_max of each frequency, then log gamma of each number of cores above one.
    let columns = frequencies + core_counts - 1;
    let mut design = DMatrix::zeros(plateau.len(), columns);
    let mut target = DVector::zeros(plateau.len());
    for (line, &row) in plateau.iter().enumerate() {
        let (frequency, cores) = groups.of_row[row];
        design[(line, frequency)] = 1.0;
        if cores > 0 {
            design[(line, frequencies + cores - 1)] = 1.0;
        }
        target[line] = rows[row].throughput_pps.ln();
    }
    let Solution { estimates, .. } = linear::solve(&design, &target).ok_or_else(|| {
        FitError::Unidentified(
            "r_max(f) and gamma(n) cannot be told apart: measure more of the frequencies with \
             one core"
                .into(),
        )
    })?;
    let mut factors = estimates.into_iter().map(Estimate::exponential);
    let max_rate: Vec<Estimate> = factors.by_ref().take(frequencies).collect();
    let gamma = std::iter::once(Estimate::exact(1.0)).chain(factors).collect();
    Ok(Saturation { max_rate, gamma, saturated })
}

/// Returns the saturated rows of one (frequency, cores), at least one, and true if offered rates
/// prove the saturation.
fn saturated_members(rows: &[Row], members: &[usize]) -> (Vec<usize>, bool) {
    let offered: Option<Vec<f64>> = members.iter().map(|&row| rows[row].offered_pps).collect();
    if let Some(offered) = offered {
        let top = by_offered_rate(rows, members, &offered);
        if !top.is_empty() {
            return (top, true);
        }
    }
    let most = members.iter().map(|&row| rows[row].throughput_pps).fold(0.0, f64::max);
    let near = |row: &usize| rows[*row].throughput_pps >= PLATEAU * most && most > 0.0;
    (members.iter().copied().filter(near).collect(), false)
}

/// Returns the rows with an offered rate above R, for the R that fits log min(offered, R) best by
/// least squares. Empty if no row was offered more than it forwarded.
fn by_offered_rate(rows: &[Row], members: &[usize], offered: &[f64]) -> Vec<usize> {
    let mut sorted: Vec<(f64, usize)> = offered
        .iter()
        .copied()
        .zip(members.iter().copied())
        .filter(|&(offered, row)| offered > 0.0 && rows[row].throughput_pps > 0.0)
        .collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let log = |row: usize| rows[row].throughput_pps.ln();
    let mut best = (f64::INFINITY, 0);
    for count in 0..=sorted.len() {
        let (top, rest) = sorted.split_at(count);
        let mean = top.iter().map(|&(_, row)| log(row)).sum::<f64>() / count.max(1) as f64;
        // R must lie between the offered rates of saturated and other rows.
        let possible = top.iter().all(|(offered, _)| offered.ln() >= mean);
        if !possible {
            continue;
        }
        let above: f64 = top.iter().map(|&(_, row)| (log(row) - mean).powi(2)).sum();
        let below: f64 = rest.iter().map(|&(offered, row)| (log(row) - offered.ln()).powi(2)).sum();
        if above + below < best.0 {
            best = (above + below, count);
        }
    }
    sorted[..best.1].iter().map(|&(_, row)| row).collect()
}
