//! Figures 8 to 11: shares of time in each V/F state and at each interrupt rate.

use super::runs::{Case, LOADS, POLICIES, cases, loads_missing};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use wattline_report::plot::{Axis, Bars};
use wattline_report::{Check, Table};
use wattline_traffic::requests::Workload;

/// Upper bounds of the bins of moderation periods, in microseconds.
const BINS: [f64; 7] = [10.0, 20.0, 50.0, 84.0, 200.0, 500.0, 1_022.0];

pub(super) fn memcached(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let cases = cases(inputs, Workload::Memcached)?;
    let [low, medium, high, ..] = cases.as_slice() else { return Err(loads_missing()) };
    let states: Vec<Check> = vec![
        plan.check("fig8-ondemand-p0", &[high.share(1, 0)])?.note(WHY_NOT_P0),
        plan.check("fig8-copi-p2", &[high.share(2, 2)])?.note(WHY_NOT_P2),
        plan.check("fig8-low-copi", &[low.state(2)])?.note(WHY_NOT_P4),
        plan.check("fig8-low-ondemand", &[low.state(1)])?.note(WHY_NOT_P4),
        plan.check("fig8-medium", &[medium.state(2) - medium.state(1)])?,
    ];
    let ratios = [low, medium, high].map(|case| case.period(2) / case.period(1));
    let least = ratios.into_iter().fold(f64::INFINITY, f64::min);
    let periods = vec![plan.check("fig9", &[least])?.note(WHY_NOT_LONGER)];
    Ok(vec![
        by_state("fig8", "Figure 8: time in each V/F state, memcached", &cases, states),
        by_period("fig9", "Figure 9: time with each interrupt rate, memcached", &cases, periods),
    ])
}

const WHY_NOT_P0: &str = "ondemand goes to P0 above 95 % of a 10 ms period; how often that happens \
                          depends on how arrivals are bunched over 10 ms, which is not printed";
const WHY_NOT_P4: &str = "which state is the cheapest that keeps the target follows from modelled \
                          latencies, whose bunching of requests is assumed";
const WHY_NOT_LONGER: &str = "at the low load the rule of the paper's driver is led to longer periods \
                              by ondemand's low states, whose interrupts bring more";
const WHY_NOT_P2: &str = "at the fitted cost of an interrupt P2 is just slower than P0 with the \
                          driver's default";

pub(super) fn nginx(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let cases = cases(inputs, Workload::Nginx)?;
    let [low, medium, high, ..] = cases.as_slice() else { return Err(loads_missing()) };
    let states: Vec<Check> = vec![
        plan.check("fig10-ondemand", &[low.state(1)])?,
        plan.check("fig10-copi", &[low.state(2)])?,
        plan.check("fig10-same", &[(high.state(2) - medium.state(2)).abs()])?,
    ];
    let periods = vec![plan.check("fig11-same", &[high.period(2) / medium.period(2)])?];
    Ok(vec![
        by_state("fig10", "Figure 10: time in each V/F state, nginx", &cases, states),
        by_period("fig11", "Figure 11: time with each interrupt rate, nginx", &cases, periods),
    ])
}

fn groups(cases: &[Case]) -> Vec<String> {
    let published = cases.iter().zip(LOADS);
    published
        .flat_map(|(case, _)| {
            POLICIES.map(|policy| {
                let name = policy.split('+').next().unwrap_or(policy);
                format!("{name} {:.0}", case.rate / 1e3)
            })
        })
        .collect()
}

fn figure(
    (id, title): (&'static str, &str),
    table: Table,
    bars: Bars,
    checks: Vec<Check>,
) -> Figure {
    Figure {
        id,
        title: title.into(),
        about: "Three seeds that nothing was fitted on, 2 s each after 350 ms; performance and \
                ondemand with the driver's adaptive rule."
            .into(),
        table,
        plots: vec![bars.svg()],
        checks,
    }
}

fn by_state(id: &'static str, title: &str, cases: &[Case], checks: Vec<Check>) -> Figure {
    let mut table = Table::new(["rate_krps", "policy", "state", "share_percent"]);
    for case in cases {
        for (index, policy) in POLICIES.into_iter().enumerate() {
            for state in 0..11 {
                table.row([
                    (case.rate / 1e3).to_string(),
                    policy.into(),
                    format!("P{state}"),
                    format!("{:.2}", case.share(index, state)),
                ]);
            }
        }
    }
    let add = |bars: Bars, state: usize| {
        let published = cases.iter().take(LOADS.len());
        let values = published
            .flat_map(|case| (0..POLICIES.len()).map(move |policy| case.share(policy, state)));
        bars.series(format!("P{state}"), values)
    };
    figure((id, title), table, (0..11).fold(bars(title, cases), add), checks)
}

/// Plots one bar per policy and load, divided into shares of time.
fn bars(title: &str, cases: &[Case]) -> Bars {
    Bars::new(title, "policy and load (KRPS)", Axis::new("time (%)"), groups(cases))
        .stacked([])
        .ordered()
}

fn by_period(id: &'static str, title: &str, cases: &[Case], checks: Vec<Check>) -> Figure {
    let mut table = Table::new(["rate_krps", "policy", "up_to_us", "share_percent"]);
    let share = |case: &Case, policy: usize, bin: usize| {
        let from = bin.checked_sub(1).map_or(0.0, |before| BINS[before]);
        case.mean(policy, |report| {
            let within = report.periods.iter().filter(|period| {
                let micros = period.period_seconds * 1e6;
                micros > from + 1e-6 && micros <= BINS[bin] + 1e-6
            });
            within.map(|period| period.share * 100.0).sum()
        })
    };
    for case in cases {
        for (index, policy) in POLICIES.into_iter().enumerate() {
            for (bin, most) in BINS.into_iter().enumerate() {
                table.row([
                    (case.rate / 1e3).to_string(),
                    policy.into(),
                    most.to_string(),
                    format!("{:.2}", share(case, index, bin)),
                ]);
            }
        }
    }
    let add = |bars: Bars, (bin, most): (usize, f64)| {
        let published = cases.iter().take(LOADS.len());
        let values = published
            .flat_map(|case| (0..POLICIES.len()).map(move |policy| share(case, policy, bin)));
        bars.series(format!("to {most} us (ITR {})", most * 4.0), values)
    };
    let bars = BINS.into_iter().enumerate().fold(bars(title, cases), add);
    figure((id, title), table, bars, checks)
}
