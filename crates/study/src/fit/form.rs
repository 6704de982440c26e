//! Order of χ: as high as the rows determine, then as low as the bound allows.

use super::power::{self, Base, PowerFit, Sample};
use super::{FitError, linear};
use nalgebra::{DMatrix, DVector};

/// Highest order that the distinct loads between idle and saturated determine.
pub(super) fn richest_order(samples: &[Sample], order_max: usize) -> usize {
    const SAME_LOAD: f64 = 0.02;
    let mut loads: Vec<f64> = samples.iter().map(|sample| sample.load).collect();
    loads.retain(|load| (SAME_LOAD..=1.0 - SAME_LOAD).contains(load));
    loads.sort_by(f64::total_cmp);
    let mut distinct = 0;
    let mut last = f64::NEG_INFINITY;
    for load in loads {
        if load - last > SAME_LOAD {
            distinct += 1;
            last = load;
        }
    }
    order_max.min(distinct + 1)
}

/// Order above which the rows do not tell terms of χ from noise: the least of Bayes's information
/// criterion over fits of every order. The richest fit follows the noise too, so it is no measure
/// of a simpler one.
pub(super) fn order_above_noise(
    samples: &[Sample],
    frequencies: usize,
    richest: usize,
    base: Base,
) -> usize {
    let count = samples.len() as f64;
    let criterion = |order: usize| {
        let fitted = power::fit(samples, frequencies, order, base).ok()?;
        let error =
            |sample: &Sample| (fitted.predict(sample, &fitted.shape) - sample.power) / sample.power;
        // Errors below the digits of a file are none, whatever the order.
        let squares = samples.iter().map(|sample| error(sample).powi(2)).sum::<f64>().max(1e-18);
        Some(count * (squares / count).ln() + order as f64 * count.ln())
    };
    let orders = (1..=richest).filter_map(|order| Some((order, criterion(order)?)));
    orders.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(richest, |(order, _)| order)
}

/// χ of the lowest order whose departure from the fitted, richest one is within the bound at every
/// measured load, or of the order that the rows tell from noise; also returns the departure.
pub(super) fn simplest(
    samples: &[Sample],
    fitted: &PowerFit,
    error_bound: f64,
    above_noise: usize,
) -> Result<(Vec<f64>, f64), FitError> {
    for order in 1..=fitted.shape.len() {
        let Some(shape) = fit_shape(samples, fitted, order) else { continue };
        let departure = samples
            .iter()
            .map(|sample| power::chi(&shape, sample.load) - power::chi(&fitted.shape, sample.load))
            .fold(0.0, |largest: f64, departure| largest.max(departure.abs()));
        if departure <= error_bound || order >= above_noise {
            return Ok((shape, departure));
        }
    }
    Ok((fitted.shape.clone(), 0.0))
}

/// Least squares for the shape of χ alone, with the fitted powers.
pub(super) fn fit_shape(samples: &[Sample], fitted: &PowerFit, order: usize) -> Option<Vec<f64>> {
    if order == 1 {
        return Some(Vec::new());
    }
    let mut design = DMatrix::zeros(samples.len(), order - 1);
    let mut target = DVector::zeros(samples.len());
    for (line, sample) in samples.iter().enumerate() {
        let idle = fitted.idle[sample.frequency].value;
        let swing = sample.cores * (fitted.active[sample.frequency].value - idle);
        let straight = fitted.predict(sample, &[]);
        target[line] = (sample.power - straight) / sample.power;
        for column in 0..order - 1 {
            let term = sample.load.powi(column as i32 + 2) - sample.load;
            design[(line, column)] = swing * term / sample.power;
        }
    }
    let solution = linear::solve(&design, &target)?;
    Some(solution.estimates.into_iter().map(|estimate| estimate.value).collect())
}

/// Coefficients of t + Σ b_j (t^j - t), constant first.
pub(super) fn coefficients(shape: &[f64]) -> Vec<f64> {
    let linear = 1.0 - shape.iter().sum::<f64>();
    [0.0, linear].into_iter().chain(shape.iter().copied()).collect()
}
