//! Order of χ: as high as the rows support above noise, then as low as the bound allows.

use super::power::{self, Base, PowerFit, Sample};
use super::{FitError, linear};
use nalgebra::{DMatrix, DVector};

/// Returns the highest order determined by the distinct loads between idle and saturated.
fn richest_order(samples: &[Sample], order_max: usize) -> usize {
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

/// The reference fit for the departure of other χ, and the sufficient order.
pub(super) struct Richest {
    /// The fit of least AICc.
    pub(super) fitted: PowerFit,
    /// Order of the fit of least BIC: higher terms are indistinguishable from noise.
    pub(super) above_noise: usize,
}

/// Fits all orders and returns the richest that the rows support: the fit with rising χ and the
/// least AICc (Hurvich and Tsai, Biometrika 76, 1989), which is stricter for few rows.
pub(super) fn richest(
    samples: &[Sample],
    frequencies: usize,
    order_max: usize,
    base: Base,
) -> Result<Richest, FitError> {
    let highest = richest_order(samples, order_max);
    // If the rows cannot determine this order, they are too few for a choice.
    let last = power::fit(samples, frequencies, highest, base)?;
    let lower = (1..highest).filter_map(|order| power::fit(samples, frequencies, order, base).ok());
    let count = samples.len() as f64;
    let scored = lower.chain([last]).filter(|fitted| rises(&fitted.shape)).map(|fitted| {
        let error =
            |sample: &Sample| (fitted.predict(sample, &fitted.shape) - sample.power) / sample.power;
        // Errors below the precision of a file count as zero for any order.
        let squares = samples.iter().map(|sample| error(sample).powi(2)).sum::<f64>().max(1e-18);
        // Powers of each frequency, platform, shape, and the variance.
        let free = usize::from(base == Base::Free);
        let parameters = (2 * frequencies + free + fitted.shape.len() + 1) as f64;
        let fit = count * (squares / count).ln();
        let few = (count - parameters - 1.0).max(1e-9);
        let akaike = fit + 2.0 * parameters * (1.0 + (parameters + 1.0) / few);
        (akaike, fit + parameters * count.ln(), fitted)
    });
    let scored: Vec<_> = scored.collect();
    let simple = scored.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|it| it.2.shape.len() + 1);
    let best = scored.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    match (best, simple) {
        (Some((.., fitted)), Some(above_noise)) => Ok(Richest { fitted, above_noise }),
        // A fit of order 1 always rises.
        _ => Err(FitError::Unidentified("no form function that rises fits the rows".into())),
    }
}

/// Largest fall of χ explained by noise; the printed χ also falls by some hundredths.
const FALL: f64 = 0.1;

/// Returns true if χ rises with load, as power does.
fn rises(shape: &[f64]) -> bool {
    let mut highest = 0.0;
    (0..=200).map(|step| power::chi(shape, f64::from(step) / 200.0)).all(|chi| {
        highest = f64::max(highest, chi);
        chi >= highest - FALL
    })
}

/// Returns χ of the lowest order whose departure from the richest χ is within the bound at every
/// measured load, or of the highest order above noise, with the departure.
pub(super) fn simplest(samples: &[Sample], richest: &Richest, error_bound: f64) -> (Vec<f64>, f64) {
    let Richest { fitted, above_noise } = richest;
    for order in 1..=fitted.shape.len() {
        let shape = fit_shape(samples, fitted, order).filter(|shape| rises(shape));
        let Some(shape) = shape else { continue };
        let departure = samples
            .iter()
            .map(|sample| power::chi(&shape, sample.load) - power::chi(&fitted.shape, sample.load))
            .fold(0.0, |largest: f64, departure| largest.max(departure.abs()));
        if departure <= error_bound || order >= *above_noise {
            return (shape, departure);
        }
    }
    (fitted.shape.clone(), 0.0)
}

/// Fits the shape of χ alone by least squares, with the fitted powers.
fn fit_shape(samples: &[Sample], fitted: &PowerFit, order: usize) -> Option<Vec<f64>> {
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

/// Returns the coefficients of t + Σ b_j (t^j - t), constant first.
pub(super) fn coefficients(shape: &[f64]) -> Vec<f64> {
    let linear = 1.0 - shape.iter().sum::<f64>();
    [0.0, linear].into_iter().chain(shape.iter().copied()).collect()
}
