//! Fits Bolla's model to measurements of a machine.
//!
//! Rows of (frequency, cores, throughput, power) give Φ_idle(f), Φ_active(f), r_max(f), gamma(n),
//! the platform's power if the number of cores varies, and χ as the polynomial of the lowest order
//! whose error stays within a bound. The powers are fitted together with the richest χ that the
//! rows support, so that their intervals hold whatever order is chosen later. The fit then takes
//! the simplest χ that departs from the richest by no more than the bound, or whose departures the
//! rows' noise explains. χ rises with load, like power. Errors on rows left out show the accuracy
//! of the model: large errors are reported, larger ones refused.

mod complete;
mod error;
mod estimate;
mod form;
mod groups;
mod held_out;
mod linear;
mod options;
mod output;
mod power;
pub mod routers;
pub mod rows;
mod saturation;
pub mod spec;
mod spec_file;

pub use complete::{Completed, Lender};
pub use error::FitError;
pub use estimate::{CONFIDENCE, Estimate};
pub use held_out::HeldOutError;
pub use options::FitOptions;
pub use rows::Row;

use form::Richest;
use groups::Groups;
use power::{Base, PowerFit, Sample};
use serde::Serialize;

/// Results for one frequency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FrequencyFit {
    /// The frequency in Hz.
    pub frequency_hertz: f64,
    /// Φ_idle in W.
    pub idle_watts: Estimate,
    /// Φ_active in W.
    pub active_watts: Estimate,
    /// r_max in packets per second.
    pub max_rate_pps: Estimate,
}

/// Result for one number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GammaFit {
    /// Number of forwarding cores.
    pub cores: usize,
    /// Rate of this number of cores divided by the rate of one core.
    pub gamma: Estimate,
}

/// The chosen form function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChiFit {
    /// Order of the polynomial.
    pub order: usize,
    /// Order of the richest polynomial that the rows support.
    pub richest_order: usize,
    /// Coefficients, constant first; they sum to 1.
    pub coefficients: Vec<f64>,
    /// Largest departure from the richest polynomial at a measured load.
    pub departure: f64,
    /// Bound on the departure.
    pub error_bound: f64,
}

/// Measured and predicted power of one row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Residual {
    /// Line number in the file.
    pub line: usize,
    /// Frequency in Hz.
    pub frequency_hertz: f64,
    /// Number of forwarding cores.
    pub cores: usize,
    /// Forwarded packets per second.
    pub throughput_pps: f64,
    /// Throughput divided by the fitted capacity, at most 1.
    pub load: f64,
    /// Measured power in W.
    pub measured_watts: f64,
    /// Power of the fitted model in W.
    pub predicted_watts: f64,
}

/// A fitted model and its quality.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Number of rows.
    pub rows: usize,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Power of the platform without cores; 0 if it is part of Φ.
    pub base_watts: Estimate,
    /// Results by frequency, ascending.
    pub frequencies: Vec<FrequencyFit>,
    /// Results by number of cores, ascending from one core.
    pub gamma: Vec<GammaFit>,
    /// The form function.
    pub chi: ChiFit,
    /// Error on rows left out; `None` if there are too few rows to leave some out.
    pub held_out: Option<HeldOutError>,
    /// Residual of each row, in the order of the file.
    pub residuals: Vec<Residual>,
    /// Remarks on the fit.
    pub notes: Vec<String>,
}

/// Fits the model to checked rows ([`rows::load`]).
pub fn fit(rows: &[Row], options: &FitOptions) -> Result<Fit, FitError> {
    check(options)?;
    let groups = Groups::from_rows(rows);
    if groups.cores.first() != Some(&1) {
        let why = "no row has one core, but r_max(f) is what one core alone forwards";
        return Err(FitError::Unidentified(why.into()));
    }
    let mut notes = Vec::new();
    let saturation = saturation::fit(rows, &groups)?;
    if !saturation.saturated.contains(&true) {
        notes.push(
            "no row shows by its offered_pps that more was offered than forwarded: r_max is taken \
             from the highest throughputs, which must have been saturated"
                .to_string(),
        );
    }
    let samples: Vec<Sample> = rows
        .iter()
        .zip(&groups.of_row)
        .zip(&saturation.saturated)
        .map(|((row, &(frequency, cores)), &saturated)| {
            let capacity = saturation.max_rate[frequency].value * saturation.gamma[cores].value;
            let load = (row.throughput_pps / capacity).min(1.0);
            Sample {
                frequency,
                cores: row.cores as f64,
                load: if saturated { 1.0 } else { load },
                power: row.power_watts,
            }
        })
        .collect();

    let (richest, base) = fit_with_base(&samples, &groups, options, &mut notes)?;
    let fitted = &richest.fitted;
    check_rise(fitted, &groups)?;
    let (shape, departure) = form::simplest(&samples, &richest, options.error_bound);
    let held_out = held_out::error(&samples, groups.frequencies.len(), options, base);
    notes.extend(trust(held_out.as_ref())?);

    let residuals = rows.iter().zip(&samples).map(|(row, sample)| Residual {
        line: row.line,
        frequency_hertz: row.frequency_hertz,
        cores: row.cores,
        throughput_pps: row.throughput_pps,
        load: sample.load,
        measured_watts: row.power_watts,
        predicted_watts: fitted.predict(sample, &shape),
    });
    let by_frequency =
        groups.frequencies.iter().enumerate().map(|(index, frequency)| FrequencyFit {
            frequency_hertz: *frequency,
            idle_watts: fitted.idle[index],
            active_watts: fitted.active[index],
            max_rate_pps: saturation.max_rate[index],
        });
    let by_cores = groups.cores.iter().zip(&saturation.gamma);
    let mut fit = Fit {
        rows: rows.len(),
        confidence: CONFIDENCE,
        base_watts: fitted.base,
        frequencies: by_frequency.collect(),
        gamma: by_cores.map(|(&cores, &gamma)| GammaFit { cores, gamma }).collect(),
        chi: ChiFit {
            order: shape.len() + 1,
            richest_order: fitted.shape.len() + 1,
            coefficients: form::coefficients(&shape),
            departure,
            error_bound: options.error_bound,
        },
        held_out,
        residuals: residuals.collect(),
        notes,
    };
    let between = fit.interpolated_cores();
    if !between.is_empty() {
        fit.notes.push(interpolated(&between));
    }
    Ok(fit)
}

fn check(options: &FitOptions) -> Result<(), FitError> {
    let bad = |field, value: String, allowed| Err(FitError::BadOption { field, value, allowed });
    if !(1..=12).contains(&options.order_max) {
        return bad("order-max", options.order_max.to_string(), "1 to 12");
    }
    if !(1e-6..=1.0).contains(&options.error_bound) {
        return bad("error-bound", options.error_bound.to_string(), "0.000001 to 1");
    }
    match options.base_watts {
        Some(watts) if !(0.0..=1e5).contains(&watts) => {
            bad("base-watts", watts.to_string(), "0 to 100000")
        }
        _ => Ok(()),
    }
}

/// Also fits the platform's power if the number of cores varies, unless it cannot be distinguished
/// from zero.
fn fit_with_base(
    samples: &[Sample],
    groups: &Groups,
    options: &FitOptions,
    notes: &mut Vec<String>,
) -> Result<(Richest, Base), FitError> {
    let frequencies = groups.frequencies.len();
    let base = match options.base_watts {
        Some(watts) => Base::Fixed(watts),
        None if groups.cores.len() > 1 => Base::Free,
        None => Base::Fixed(0.0),
    };
    if base == Base::Fixed(0.0) && options.base_watts.is_none() {
        notes.push(
            "all rows have the same number of cores: the platform's power is part of idle_watts \
             and active_watts, so do not use them for several cores"
                .to_string(),
        );
    }
    let richest = form::richest(samples, frequencies, options.order_max, base)?;
    if base == Base::Free && richest.fitted.base.contains(0.0) {
        notes.push(
            "the platform's power cannot be distinguished from 0 W and is taken as 0 W".to_string(),
        );
        let base = Base::Fixed(0.0);
        return Ok((form::richest(samples, frequencies, options.order_max, base)?, base));
    }
    Ok((richest, base))
}

/// Mean error on rows left out above which the fit has a remark.
const DOUBTFUL: f64 = 0.05;
/// Mean error on rows left out above which the fit fails.
const USELESS: f64 = 0.2;

/// Returns a remark if the model predicts unseen rows badly, or cannot be tested.
///
/// # Errors
/// Fails if the predictions are useless.
fn trust(held_out: Option<&HeldOutError>) -> Result<Option<String>, FitError> {
    let Some(error) = held_out else {
        return Ok(Some(
            "too few rows to leave some out, so nothing shows how far the model can be trusted"
                .to_string(),
        ));
    };
    let percent = 100.0 * error.mean;
    // NaN is useless, too.
    let is_useful = error.mean <= USELESS;
    if !is_useful {
        return Err(FitError::Unidentified(format!(
            "power of rows left out of the fit is missed by {percent:.0} % on average (at most \
             {:.0} %): measure more loads between idle and saturated, at every frequency",
            100.0 * USELESS
        )));
    }
    Ok((error.mean > DOUBTFUL).then(|| {
        format!(
            "power of rows left out of the fit is missed by {percent:.1} % on average: measure more \
             loads before you trust the model between the measured ones"
        )
    }))
}

/// Refuses a model whose power does not rise with load.
fn check_rise(fitted: &PowerFit, groups: &Groups) -> Result<(), FitError> {
    let swings = fitted.idle.iter().zip(&fitted.active).zip(&groups.frequencies);
    let flat: Vec<String> = swings
        .filter(|((idle, active), _)| {
            // Written so that NaN fails as well.
            let rises = active.value > idle.value && (active.value - idle.value).is_finite();
            !rises
        })
        .map(|(_, frequency)| format!("{frequency} Hz"))
        .collect();
    if flat.is_empty() {
        return Ok(());
    }
    let why = format!(
        "power does not rise with throughput at {}: is power_watts of the machine that forwarded?",
        flat.join(", ")
    );
    Err(FitError::Unidentified(why))
}

/// Returns the remark on numbers of cores without rows.
fn interpolated(cores: &[usize]) -> String {
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    format!(
        "not measured at {} cores: gamma is interpolated there on a straight line between its \
         measured neighbours",
        cores.join(", ")
    )
}
