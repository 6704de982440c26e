//! Equations 1 to 3 and 5 to 10, and the cases of gamma.

use super::known::arbitrary;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::printed::printed;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::bolla::equations::{idle_probability, mean_power};
use wattline_server::bolla::{BollaModel, CoreLoad};
use wattline_units::{PacketsPerSecond, Span, Watts};

/// Claims of the gain by a second core: Opteron and Xeon.
const GAINS: [&str; 2] = ["BO-077", "BO-078"];

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let [opteron, xeon] = GAINS.map(|id| arbitrary(vec![1.0, printed(id) / 100.0]));
    let most = opteron.frequencies[1].max_rate.0;
    let loads = || (0..=100).map(|i| f64::from(i) * 0.025 * most);
    let carried = |model: &BollaModel, cores: usize, load: f64| {
        let share = CoreLoad { frequency: 1, offered: PacketsPerSecond(load / cores as f64) };
        model.throughput(&vec![share; cores]).0 / most
    };
    let mut table =
        Table::new(["load_over_max", "one_core", "two_cores_gamma_1.5", "two_cores_gamma_2.0"]);
    for load in loads() {
        table.numbers([
            load / most,
            carried(&opteron, 1, load),
            carried(&opteron, 2, load),
            carried(&xeon, 2, load),
        ]);
    }
    let line = |model: &BollaModel, cores: usize| {
        loads().map(|load| (load / most, carried(model, cores, load))).collect::<Vec<_>>()
    };
    let chart = Chart::new(
        "Equation 10: throughput of one and of two cores",
        Axis::new("offered load over one core's maximum").range(0.0, 2.5),
        Axis::new("throughput over one core's maximum").range(0.0, 2.2),
    )
    .series("one core", Mark::Line, line(&opteron, 1))
    .series("two Opteron cores, gamma 1.5", Mark::Line, line(&opteron, 2))
    .series("two Xeon cores, gamma 2.0", Mark::Line, line(&xeon, 2))
    .series("printed", Mark::Published, GAINS.map(|id| (2.5, printed(id) / 100.0)));
    let mut checks = one_core(&opteron)?;
    checks.extend(several_cores(&opteron, &xeon)?);
    Ok(vec![Figure {
        id: "equations",
        title: "Equations 1 to 10 and gamma".into(),
        about: "Identities and limits of the equations as reconstructed from the garbled text, on \
                a core of arbitrary figures."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks,
    }])
}

fn one_core(model: &BollaModel) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Bolla)?;
    // Power of the machine outside its cores, which the equations omit, must count once.
    let base = Watts(5.0);
    let model = &BollaModel { base, ..model.clone() };
    let point = model.frequencies[1];
    let (idle, active) = (Watts(10.0), Watts(30.0));
    let limits = mean_power(0.0, idle, active) == active && mean_power(1.0, idle, active) == idle;
    let clamped = [0.0, 50.0, 100.0, 150.0].map(|load| idle_probability(load, 100.0));
    // Rates of unequal durations: equations 7 and 8 weight by time.
    let parts = [(0.0, 0.4), (0.2, 0.1), (0.6, 0.3), (1.0, 0.2)];
    let of_part = |(share, time): (f64, f64)| {
        time * (model.core_power(&point, point.max_rate * share) - base).0
    };
    let by_parts: f64 = parts.map(of_part).into_iter().sum();
    let trace: Vec<(Span, PacketsPerSecond)> =
        parts.map(|(share, time)| (Span::from_seconds(time), point.max_rate * share)).to_vec();
    let by_integral = (model.mean_power(&point, &trace).unwrap_or_default() - base).0;
    let idle_share = model.idle_probability(&point, &trace).unwrap_or_default();
    let by_probability = mean_power(idle_share, point.idle, point.active).0;
    let most = model.core_throughput(&point, point.max_rate * 2.0) == point.max_rate;
    let same = model.even_power(1, 1, point.max_rate * 0.4).0;
    let single = model.core_power(&point, point.max_rate * 0.4).0;
    Ok(vec![
        plan.holds("equations-1-2", limits, "Φ_active, Φ_idle")?,
        plan.holds("equation-3-loads", clamped == [1.0, 0.5, 0.0, 0.0], format!("{clamped:?}"))?,
        plan.check(
            "equation-5-idle",
            &[(model.core_power(&point, PacketsPerSecond(0.0)) - base).0, point.idle.0],
        )?,
        plan.check(
            "equation-5-maximum",
            &[(model.core_power(&point, point.max_rate) - base) / point.active],
        )?,
        plan.holds("equation-6-beyond", most, "r_max")?,
        plan.check("equation-7", &[by_integral, by_probability])?,
        plan.check("equation-7-parts", &[by_integral, by_parts])?,
        plan.check("equation-9-with", &[same, single])?,
    ])
}

fn several_cores(opteron: &BollaModel, xeon: &BollaModel) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Bolla)?;
    let point = opteron.frequencies[1];
    let gain = |model: &BollaModel| model.even_capacity(2, 1).0 / point.max_rate.0;
    let saturated = |model: &BollaModel| {
        model.throughput(&[CoreLoad { frequency: 1, offered: point.max_rate * 9.0 }; 2]).0
    };
    // Only one of the two cores has load: it saturates at gamma / 2.
    let alone = opteron
        .throughput(&[
            CoreLoad { frequency: 1, offered: point.max_rate * 9.0 },
            CoreLoad { frequency: 1, offered: PacketsPerSecond(0.0) },
        ])
        .0;
    let full = opteron.even_power(2, 1, opteron.even_capacity(2, 1)).0;
    Ok(vec![
        plan.check("throughput-two-opteron", &[100.0 * gain(opteron)])?,
        plan.check("throughput-two-xeon", &[100.0 * gain(xeon)])?,
        plan.holds(
            "gamma",
            opteron.gamma(1) == 1.0 && (1.0..=2.0).contains(&opteron.gamma(2)),
            format!("{}, {}", opteron.gamma(1), opteron.gamma(2)),
        )?,
        plan.check("equation-9-full", &[full / (2.0 * point.active.0)])?,
        plan.check(
            "equation-10-both",
            &[saturated(opteron) / (opteron.gamma(2) * point.max_rate.0)],
        )?,
        plan.check("one-core-saturates", &[alone / point.max_rate.0])?,
    ])
}
