//! Fits platform, Φ_idle, Φ_active and χ to all rows at once.
//!
//! The model P = base + n [Φ_idle(f) (1 - χ(t)) + Φ_active(f) χ(t)] has products of unknowns, so it
//! is solved by the Levenberg-Marquardt method. χ is written as t + Σ b_j (t^j - t), so that χ(0) =
//! 0 and χ(1) = 1 for any b_j. Residuals are relative, like the errors of power meters.

use super::linear;
use super::{Estimate, FitError};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

/// One row in the form that the power model needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Index of its frequency.
    pub(super) frequency: usize,
    /// Number of cores.
    pub(super) cores: f64,
    /// Throughput divided by capacity, 0 to 1.
    pub(super) load: f64,
    /// Measured power.
    pub(super) power: f64,
}

/// Power of the platform: given by the user, fitted, or part of the cores' power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Base {
    Fixed(f64),
    Free,
}

/// A fitted power model.
#[derive(Debug, Clone)]
pub(super) struct PowerFit {
    pub(super) base: Estimate,
    pub(super) idle: Vec<Estimate>,
    pub(super) active: Vec<Estimate>,
    /// Coefficients b_2, b_3, … of χ.
    pub(super) shape: Vec<f64>,
}

impl PowerFit {
    /// Predicts the power with another shape of χ.
    pub(super) fn predict(&self, sample: &Sample, shape: &[f64]) -> f64 {
        let chi = chi(shape, sample.load);
        let idle = self.idle[sample.frequency].value;
        let active = self.active[sample.frequency].value;
        self.base.value + sample.cores * (idle * (1.0 - chi) + active * chi)
    }
}

/// χ(t) = t + Σ b_j (t^j - t).
pub(super) fn chi(shape: &[f64], t: f64) -> f64 {
    shape.iter().zip(2..).fold(t, |sum, (b, order)| sum + b * (t.powi(order) - t))
}

/// Fits the model with a χ of the given order.
pub(super) fn fit(
    samples: &[Sample],
    frequencies: usize,
    order: usize,
    base: Base,
) -> Result<PowerFit, FitError> {
    let problem = Problem::start(samples, frequencies, order, base);
    let parameters = problem.values.len();
    if samples.len() <= parameters {
        return Err(FitError::Unidentified(format!(
            "{} rows cannot fix {parameters} parameters; measure more loads or fewer frequencies",
            samples.len()
        )));
    }
    let (solved, report) = LevenbergMarquardt::new().minimize(problem);
    if !report.termination.was_successful() {
        let why = format!("the power model did not converge ({:?})", report.termination);
        return Err(FitError::Unidentified(why));
    }
    let freedom = samples.len() - parameters;
    let squares = 2.0 * report.objective_function;
    let deviations =
        linear::deviations(&solved.derivatives(), squares, freedom).ok_or_else(|| {
            FitError::Unidentified(
            "the rows cannot distinguish idle from active power: measure every frequency without load, \
             in between and saturated"
                .into(),
        )
        })?;
    let estimate = |index: usize| Estimate::new(solved.values[index], deviations[index], freedom);
    Ok(PowerFit {
        base: match base {
            Base::Fixed(watts) => Estimate::exact(watts),
            Base::Free => estimate(2 * frequencies),
        },
        idle: (0..frequencies).map(estimate).collect(),
        active: (frequencies..2 * frequencies).map(estimate).collect(),
        shape: solved.shape().to_vec(),
    })
}

/// Problem with the parameters in this order: idle and active power of each frequency, base if
/// free, shape.
struct Problem<'s> {
    samples: &'s [Sample],
    frequencies: usize,
    base: Base,
    values: DVector<f64>,
}

impl<'s> Problem<'s> {
    fn start(samples: &'s [Sample], frequencies: usize, order: usize, base: Base) -> Self {
        let free = usize::from(base == Base::Free);
        let mut values = DVector::zeros(2 * frequencies + free + order.saturating_sub(1));
        let platform = match base {
            Base::Fixed(watts) => watts,
            Base::Free => 0.0,
        };
        for sample in samples {
            // The lowest and the highest power at a frequency are good starting values.
            let per_core = (sample.power - platform) / sample.cores;
            let (idle, active) = (sample.frequency, frequencies + sample.frequency);
            if values[idle] == 0.0 || per_core < values[idle] {
                values[idle] = per_core;
            }
            values[active] = f64::max(values[active], per_core);
        }
        Self { samples, frequencies, base, values }
    }

    fn base_watts(&self) -> f64 {
        match self.base {
            Base::Fixed(watts) => watts,
            Base::Free => self.values[2 * self.frequencies],
        }
    }

    fn first_shape(&self) -> usize {
        2 * self.frequencies + usize::from(self.base == Base::Free)
    }

    fn shape(&self) -> &[f64] {
        &self.values.as_slice()[self.first_shape()..]
    }

    fn derivatives(&self) -> DMatrix<f64> {
        let mut matrix = DMatrix::zeros(self.samples.len(), self.values.len());
        for (line, sample) in self.samples.iter().enumerate() {
            let chi = chi(self.shape(), sample.load);
            let weight = 1.0 / sample.power;
            let (idle, active) = (sample.frequency, self.frequencies + sample.frequency);
            matrix[(line, idle)] = weight * sample.cores * (1.0 - chi);
            matrix[(line, active)] = weight * sample.cores * chi;
            if self.base == Base::Free {
                matrix[(line, 2 * self.frequencies)] = weight;
            }
            let swing = sample.cores * (self.values[active] - self.values[idle]);
            for (column, order) in (self.first_shape()..self.values.len()).zip(2..) {
                let term = sample.load.powi(order) - sample.load;
                matrix[(line, column)] = weight * swing * term;
            }
        }
        matrix
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, values: &DVector<f64>) {
        self.values.copy_from(values);
    }

    fn params(&self) -> DVector<f64> {
        self.values.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let base = self.base_watts();
        let residual = |sample: &Sample| {
            let chi = chi(self.shape(), sample.load);
            let idle = self.values[sample.frequency];
            let active = self.values[self.frequencies + sample.frequency];
            let power = base + sample.cores * (idle * (1.0 - chi) + active * chi);
            (power - sample.power) / sample.power
        };
        let residuals = self.samples.iter().map(residual);
        Some(DVector::from_iterator(self.samples.len(), residuals))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        Some(self.derivatives())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use levenberg_marquardt::differentiate_numerically;

    #[test]
    fn derivatives_match_the_residuals() {
        let samples: Vec<Sample> = (0..20)
            .map(|step| Sample {
                frequency: step % 2,
                cores: f64::from(1 + step as u32 % 3),
                load: f64::from(step as u32) / 19.0,
                power: 50.0 + f64::from(step as u32),
            })
            .collect();
        let mut problem = Problem::start(&samples, 2, 4, Base::Free);
        let values = DVector::from_row_slice(&[10.0, 12.0, 30.0, 40.0, 25.0, 0.5, -0.2, 0.1]);
        problem.set_params(&values);
        let analytic = problem.jacobian().unwrap();
        let numeric = differentiate_numerically(&mut problem).unwrap();
        assert!((analytic - numeric).abs().max() < 1e-6);
    }
}
