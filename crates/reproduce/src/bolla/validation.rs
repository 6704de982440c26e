//! Figure 8 and the future work: fit, held-out error, and the optimiser.

use super::known::arbitrary;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, Normal};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::bolla::BollaModel;
use wattline_study::fit::{Fit, FitOptions, Row, fit};
use wattline_study::optimise::{cheapest, choices};
use wattline_units::PacketsPerSecond;

/// Relative standard deviation of the noise on the synthetic powers.
const NOISE: f64 = 0.02;

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let truth = arbitrary(vec![1.0, 1.5]);
    let rows = measurements(&truth)?;
    let fit = fit(&rows, &FitOptions { base_watts: Some(0.0), ..FitOptions::default() })?;
    let mut table = Table::new([
        "frequency_hertz",
        "cores",
        "throughput_pps",
        "load",
        "measured_watts",
        "predicted_watts",
    ]);
    for row in &fit.residuals {
        table.numbers([
            row.frequency_hertz,
            row.cores as f64,
            row.throughput_pps,
            row.load,
            row.measured_watts,
            row.predicted_watts,
        ]);
    }
    let percent = |measured: f64, predicted: f64| 100.0 * (predicted / measured - 1.0);
    let series = |cores: usize| {
        fit.residuals
            .iter()
            .filter(|row| row.cores == cores)
            .map(|row| (row.load, percent(row.measured_watts, row.predicted_watts)))
            .collect::<Vec<_>>()
    };
    let chart = Chart::new(
        "Figure 8, ours: error of the fitted model",
        Axis::new("throughput over its maximum").range(0.0, 1.02),
        Axis::new("predicted over measured power (%)"),
    )
    .series("one core", Mark::Points, series(1))
    .series("two cores", Mark::Points, series(2))
    .band("one deviation of the noise", -100.0 * NOISE, 100.0 * NOISE);
    Ok(vec![Figure {
        id: "fig8",
        title: "Figure 8: error of the model".into(),
        about: format!(
            "The paper's maximum errors by platform are lost. Ours: {} synthetic measurements of a \
             machine of known parameters (chi as printed, gamma 1.5) with {} % noise, fitted, and \
             predicted from fits that had not seen them.",
            fit.rows,
            100.0 * NOISE
        ),
        table,
        plots: vec![chart.svg()],
        checks: checks(&truth, &fit)?,
    }])
}

/// Synthetic measurements with Gaussian noise on the power.
fn measurements(truth: &BollaModel) -> Result<Vec<Row>, ReproduceError> {
    let noise = Normal::new(1.0, NOISE)
        .map_err(|error| ReproduceError::Model(format!("noise of {NOISE}: {error}")))?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    let mut rows = Vec::new();
    for cores in [1, 2] {
        for (index, point) in truth.frequencies.iter().enumerate() {
            for step in 0..=40 {
                let rate = truth.even_capacity(cores, index) * (f64::from(step) / 40.0);
                let power = truth.even_power(cores, index, rate).0 * noise.sample(&mut random);
                rows.push(Row {
                    line: rows.len() + 2,
                    frequency_hertz: point.frequency.0,
                    cores,
                    throughput_pps: rate.0,
                    power_watts: power,
                    offered_pps: None,
                });
            }
        }
    }
    Ok(rows)
}

fn checks(truth: &BollaModel, fit: &Fit) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Bolla)?;
    let held_out = fit.held_out.as_ref();
    let largest = held_out.map_or(f64::NAN, |error| error.largest);
    let mean = held_out.map_or(f64::NAN, |error| error.mean);
    let mut checks = vec![
        plan.check("mean-held-out", &[mean])?
            .note(format!("largest {largest:.3}, with {NOISE} of noise in the reference")),
    ];
    for (found, known) in fit.frequencies.iter().zip(&truth.frequencies) {
        let at = format!("{} GHz", known.frequency.gigahertz());
        let inside = |quantity: &str, estimate: &wattline_study::fit::Estimate, value: f64| {
            let ours = match (estimate.low, estimate.high) {
                (Some(low), Some(high)) => format!("{:.3} ({low:.3} to {high:.3})", estimate.value),
                _ => format!("{:.3}", estimate.value),
            };
            let check = plan.holds("fitted-parameter", estimate.contains(value), ours)?;
            let check = check.of(&format!("{quantity} at {at}"));
            Ok::<_, ReproduceError>(Check { published: value.to_string(), ..check })
        };
        checks.push(inside("Φ_idle (W)", &found.idle_watts, known.idle.0)?);
        checks.push(inside(
            "Φ_active (W)",
            &found.active_watts,
            truth.core_power(known, known.max_rate).0,
        )?);
    }
    // At any rate the optimiser must find the same point as an exhaustive search.
    let capacity = truth.even_capacity(2, 1).0;
    let rates = (0..=200).map(|i| PacketsPerSecond(capacity * f64::from(i) / 200.0));
    let mut equal = true;
    for rate in rates {
        let best = choices(truth, rate)
            .into_iter()
            .filter(|choice| choice.capacity >= rate)
            .map(|choice| choice.power.0)
            .fold(f64::INFINITY, f64::min);
        let found = cheapest(truth, rate, None)
            .map_err(|error| ReproduceError::Model(error.to_string()))?;
        equal &= found.power.0 == best && found.capacity >= rate;
    }
    checks.push(plan.holds("cheapest-frequency-number", equal, "equal at 201 rates")?);
    Ok(checks)
}
