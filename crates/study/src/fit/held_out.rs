//! Prediction error of the model on rows to which it was not fitted.

use super::form;
use super::options::FitOptions;
use super::power::{Base, Sample};
use serde::Serialize;

/// Number of parts of the rows; each is left out in turn.
const FOLDS: usize = 5;

/// Relative errors of predicted power on rows left out of the fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldOutError {
    /// Number of parts left out in turn.
    pub folds: usize,
    /// Mean absolute relative error.
    pub mean: f64,
    /// Root of the mean squared relative error.
    pub root_mean_square: f64,
    /// The largest absolute relative error.
    pub largest: f64,
}

/// Repeats the fit, with its choice of an order, without every fifth row and predicts these rows;
/// r_max and gamma are kept.
pub(super) fn error(
    samples: &[Sample],
    frequencies: usize,
    options: &FitOptions,
    base: Base,
) -> Option<HeldOutError> {
    // Sorting gives every part rows of all frequencies and loads.
    let mut sorted = samples.to_vec();
    let key = |sample: &Sample| (sample.frequency, sample.cores, sample.load);
    sorted.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    let mut errors = Vec::with_capacity(samples.len());
    for fold in 0..FOLDS {
        let part = |keep: bool| -> Vec<Sample> {
            let rows = sorted.iter().enumerate();
            rows.filter(|(index, _)| (index % FOLDS == fold) != keep).map(|(_, row)| *row).collect()
        };
        let (seen, unseen) = (part(true), part(false));
        let richest = form::richest(&seen, frequencies, options.order_max, base).ok()?;
        let (shape, _) = form::simplest(&seen, &richest, options.error_bound);
        let error = |row: &Sample| (richest.fitted.predict(row, &shape) - row.power) / row.power;
        errors.extend(unseen.iter().map(error));
    }
    let count = errors.len() as f64;
    Some(HeldOutError {
        folds: FOLDS,
        mean: errors.iter().map(|error| error.abs()).sum::<f64>() / count,
        root_mean_square: (errors.iter().map(|error| error * error).sum::<f64>() / count).sqrt(),
        largest: errors.iter().fold(0.0, |largest, error| largest.max(error.abs())),
    })
}
