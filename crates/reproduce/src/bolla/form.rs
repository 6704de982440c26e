//! Figure 7 and equation 4: the form function chi.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::printed::{numbers_of, printed_at, text_of};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::bolla::{Chi, PRINTED_COEFFICIENTS};

const STEPS: usize = 200;

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let (printed, corrected) = (Chi::printed(), Chi::printed().corrected());
    let grid = || (0..=STEPS).map(|step| step as f64 / STEPS as f64);
    let mut table = Table::new(["load", "chi_printed", "chi_corrected"]);
    for t in grid() {
        table.numbers([t, printed.value(t), corrected.value(t)]);
    }
    let chart = Chart::new(
        "Figure 7: the normalised form function",
        Axis::new("throughput over its maximum").range(0.0, 1.0),
        Axis::new("power between idle and active").range(0.0, 1.1),
    )
    .series("chi, printed coefficients", Mark::Line, grid().map(|t| (t, printed.value(t))))
    .series(
        "chi, corrected: over its maximum, never falling",
        Mark::Line,
        grid().map(|t| (t, corrected.value(t))),
    )
    .series("power in proportion to load", Mark::Line, [(0.0, 0.0), (1.0, 1.0)])
    .series("computed from the printed coefficients", Mark::Published, listed());
    Ok(vec![Figure {
        id: "fig7",
        title: "Figure 7 and equation 4: the form function".into(),
        about: "The measured samples below the curve are lost; the polynomial is printed. It \
                falls between 0.83 and 0.93 and ends above 1: both forms are shown."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: checks(&printed, &corrected)?,
    }])
}

/// Returns the arguments and values of chi listed in claims.csv, computed from the printed
/// coefficients.
pub(super) fn listed() -> impl Iterator<Item = (f64, f64)> {
    numbers_of("BO-068").chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

fn checks(chi: &Chi, corrected: &Chi) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Bolla)?;
    let error = listed().map(|(t, listed)| (chi.value(t) - listed).abs()).fold(0.0, f64::max);
    let (top, bottom) = turning_points(chi);
    let difference = chi.correction_difference();
    let most = chi.value(1.0);
    // The mean over [0, 1] follows the words that name it.
    let mean_printed = text_of("BO-069")
        .split("mean over [0,1] ")
        .nth(1)
        .and_then(|rest| rest.split(';').next()?.parse().ok())
        .unwrap_or(f64::NAN);
    let mut checks = vec![
        plan.check("largest-error-21", &[error])?,
        plan.check("chi-1", &[most])?,
        plan.check("dip-chi", &[top.1 - bottom.1])?.note(format!(
            "from {:.5} at {:.4} to {:.5} at {:.4}; the corrected form stays level there and \
             differs from the printed one by at most {:.4}",
            top.1, top.0, bottom.1, bottom.0, difference.largest
        )),
        plan.check("mean-chi", &[mean(chi), mean_printed])?,
        plan.check("chi-beyond-1", &[chi.value(printed_at("BO-070", 4)) / most])?,
        plan.holds(
            "corrected-form-never",
            (0..10_000).all(|i| {
                corrected.value(f64::from(i) / 1e4) <= corrected.value(f64::from(i + 1) / 1e4)
            }),
            "rises or stays level at 10,000 steps",
        )?,
    ];
    const IDS: [&str; 8] =
        ["BO-058", "BO-059", "BO-060", "BO-061", "BO-062", "BO-063", "BO-064", "BO-065"];
    for (index, (id, ours)) in IDS.into_iter().zip(PRINTED_COEFFICIENTS).enumerate() {
        checks.push(plan.each("coefficients", id, &format!("a{index}"), ours)?);
    }
    Ok(checks)
}

/// Returns the local maximum and the next minimum, each as (t, chi).
fn turning_points(chi: &Chi) -> ((f64, f64), (f64, f64)) {
    let at = |step: usize| (step as f64 / 1e5, chi.value(step as f64 / 1e5));
    let pick = |range: std::ops::Range<usize>, sign: f64| {
        range.map(at).max_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1))).unwrap_or((0.0, 0.0))
    };
    (pick(80_000..88_000, 1.0), pick(88_000..96_000, -1.0))
}

fn mean(chi: &Chi) -> f64 {
    let steps = 100_000;
    (0..steps).map(|i| chi.value((f64::from(i) + 0.5) / f64::from(steps))).sum::<f64>()
        / f64::from(steps)
}
