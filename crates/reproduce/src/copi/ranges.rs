//! Figures 3 and 4: P95 and energy of each V/F state as functions of the interrupt rate.

use super::runs::{LOADS, PROFILE_SEED, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::printed_pair;
use crate::sets::extremes;
use wattline_policies::POLICIES;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::RequestServer;
use wattline_sim::requests::{RequestReport, RequestSetting, sweep_requests};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

const SECONDS: f64 = 1.0;
/// Step of the register and the only state at the medium load, in runs that only compare verdicts.
const BRIEF: (usize, usize) = (800, 4);

/// One load: P95 (ms) and power (W) by state, fastest first, and by ITR; `None` where the load is
/// not sustained.
pub(super) struct Load {
    pub rate: f64,
    pub points: Vec<Vec<Option<(f64, f64)>>>,
}

impl Load {
    fn sustained(&self, state: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points[state].iter().flatten().copied()
    }
    fn range(&self, state: usize, of: fn((f64, f64)) -> f64) -> Option<(f64, f64)> {
        extremes(self.sustained(state).map(of))
    }
    pub fn p95(&self, state: usize) -> Option<(f64, f64)> {
        self.range(state, |(p95, _)| p95)
    }
    /// Returns the least and greatest change of P95 by period of any state.
    pub fn spread(&self) -> [f64; 2] {
        let states = (0..self.points.len()).filter_map(|state| self.p95(state));
        extremes(states.map(|(least, most)| most - least)).map_or([f64::NAN; 2], Into::into)
    }
    /// Returns the mean range of power over periods, relative to the range of its means over
    /// states, without P0 and P1.
    pub fn period_over_state(&self) -> f64 {
        let states = || (2..self.points.len()).filter(|state| self.p95(*state).is_some());
        let range = |state| self.range(state, |(_, watts)| watts).map(|(low, high)| high - low);
        let ranges = states().filter_map(range).sum::<f64>() / states().count() as f64;
        let mean = |state| {
            let watts = self.sustained(state).map(|(_, watts)| watts).sum::<f64>();
            watts / self.sustained(state).count() as f64
        };
        let span = extremes(states().map(mean)).map_or(f64::NAN, |(least, most)| most - least);
        ranges / span
    }
    /// Returns an axis of the states, with margins.
    fn states(&self) -> Axis {
        let last = self.points.len().saturating_sub(1) as f64;
        Axis::new("V/F state (0: P0)").range(-0.5, last + 0.5).ticks_every(1.0)
    }
    /// Returns a vertical line for each state, from the least to the greatest value.
    fn ranges(&self, of: impl Fn(usize) -> Option<(f64, f64)>) -> Vec<(f64, f64)> {
        let range = |state: usize| Some((state as f64, of(state)?));
        (0..self.points.len())
            .filter_map(range)
            // NaN ends the line.
            .flat_map(|(x, (least, most))| [(x, least), (x, most), (x, f64::NAN)])
            .collect()
    }
    /// Returns the states that fail in some settings but not in all, in all, and in none.
    fn kinds(&self) -> [Vec<usize>; 3] {
        let mut kinds = [const { Vec::new() }; 3];
        for state in 0..self.points.len() {
            let sustained = self.sustained(state).count();
            let kind = match sustained {
                0 => 1,
                all if all == self.points[state].len() => 2,
                _ => 0,
            };
            kinds[kind].push(state);
        }
        kinds
    }
}

/// Returns every hundredth value of the register that users may set, or fewer for a `brief` run.
fn itrs(brief: bool) -> Vec<u32> {
    let (low, high) = printed_pair("CP-004");
    (low as u32..=high as u32).step_by(if brief { BRIEF.0 } else { 100 }).collect()
}

fn loads(inputs: &Inputs, server: &RequestServer) -> Result<Vec<Load>, ReproduceError> {
    let itrs = itrs(inputs.brief);
    let mut states: Vec<f64> = server.processor.frequencies.iter().map(|f| f.gigahertz()).collect();
    states.reverse();
    let mut all = Vec::new();
    for (rate, load) in Workload::Memcached.published_loads().into_iter().zip(LOADS) {
        let counts = |state| !inputs.brief || (load, state) == (LOADS[1], BRIEF.1);
        let mut settings = Vec::new();
        for (_, ghz) in states.iter().enumerate().filter(|(state, _)| counts(*state)) {
            for itr in &itrs {
                let requests = inputs.requests(Workload::Memcached, rate)?;
                settings.push(setting(server, requests, *ghz, f64::from(*itr) / 4.0)?);
            }
        }
        let mut made =
            sweep_requests(&settings)?.iter().map(outcome).collect::<Vec<_>>().into_iter();
        let points = (0..states.len()).map(|state| match counts(state) {
            true => made.by_ref().take(itrs.len()).collect(),
            false => vec![None; itrs.len()],
        });
        all.push(Load { rate, points: points.collect() });
    }
    Ok(all)
}

/// Returns the setting of a fixed V/F state and period.
pub(super) fn setting(
    server: &RequestServer,
    requests: RequestSpec,
    ghz: f64,
    micros: f64,
) -> Result<RequestSetting<'_>, ReproduceError> {
    let policy = format!("napi:frequency_ghz={ghz},idle=deepest,moderation={micros}us");
    Ok(RequestSetting {
        server,
        requests,
        policy: POLICIES.parse(&policy)?,
        duration: Span::from_seconds(SECONDS),
        warmup: Span::from_millis(100),
        seed: PROFILE_SEED,
        // All cores have the same setting, so the simulation has one core.
        cores: Some(1),
    })
}

/// Returns P95 (ms) and power (W) if the load is sustained.
pub(super) fn outcome(report: &RequestReport) -> Option<(f64, f64)> {
    let p95 = report.latency_p95_seconds.filter(|_| report.sustained)?;
    Some((p95 * 1e3, report.power_watts))
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    figures_for(inputs, &server(inputs)?)
}

/// Makes both figures for a server with other watts.
pub(super) fn figures_for(
    inputs: &Inputs,
    server: &RequestServer,
) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let loads = loads(inputs, server)?;
    Ok(vec![latency(plan, &loads)?, energy(plan, &loads)?])
}

fn latency(plan: &'static Plan, loads: &[Load]) -> Result<Figure, ReproduceError> {
    let mut table =
        Table::new(["rate_krps", "state", "sustained_settings", "p95_least_ms", "p95_most_ms"]);
    let mut plots = Vec::new();
    for (load, name) in loads.iter().zip(LOADS) {
        let states = 0..load.points.len();
        let range = |state: usize| load.p95(state);
        for state in states.clone() {
            let (least, most) = range(state).unwrap_or((f64::NAN, f64::NAN));
            let sustained = load.sustained(state).count() as f64;
            table.numbers([load.rate / 1e3, state as f64, sustained, least, most]);
        }
        let mut chart = Chart::new(
            format!("{name} load: range of P95 by ITR"),
            load.states(),
            Axis::new("P95 (ms)").logarithmic(),
        )
        .series("ITRs that sustain the load", Mark::LineAndPoints, load.ranges(range));
        // A P95 that grows with the run has no place on the axis, so its marks are drawn above all
        // others.
        let above = 2.0 * states.filter_map(range).map(|(_, most)| most).fold(0.0, f64::max);
        let [some, every, _] = load.kinds();
        for (words, states) in
            [("some ITRs do not sustain it", some), ("no ITR sustains it", every)]
        {
            if !states.is_empty() {
                let signs = states.into_iter().map(|state| (state as f64, above));
                chart = chart.series(words, Mark::Points, signs);
            }
        }
        plots.push(chart.svg());
    }
    let [low, medium, high] = loads else {
        return Err(ReproduceError::Model("three loads".into()));
    };
    let (p4_least, p4_most) = medium.p95(4).unwrap_or((f64::INFINITY, f64::INFINITY));
    let [some, every, _] = medium.kinds();
    let [some_high, _, none_high] = high.kinds();
    let names = |states: &[usize]| {
        states.iter().map(|state| format!("P{state}")).collect::<Vec<_>>().join(", ")
    };
    let overlap = |load: &Load| {
        let ranges: Vec<(f64, f64)> =
            (0..load.points.len()).filter_map(|state| load.p95(state)).collect();
        let pairs = ranges.iter().enumerate().flat_map(|(index, a)| {
            ranges[index + 1..].iter().map(move |b| a.0 <= b.1 && b.0 <= a.1)
        });
        let pairs: Vec<bool> = pairs.collect();
        (pairs.iter().filter(|overlap| **overlap).count(), pairs.len())
    };
    let overlaps = [low, medium, high].map(overlap);
    let overlapping = overlaps[0].0 == overlaps[0].1 && overlaps[1].0 > 0 && overlaps[2].0 > 0;
    let checks: Vec<Check> = vec![
        plan.check("fig3-low", &low.spread())?.note(
            "how requests are bunched is assumed; single requests bring about 1 ms, but then other \
             claims of this figure fail",
        ),
        plan.check("fig3-several", &[(some.len() + some_high.len()) as f64])?
            .note("in an open loop the latency of a load that is not sustained grows with the run"),
        plan.check("fig3-p4-least", &[p4_least])?,
        plan.check("fig3-p4-most", &[p4_most])?
            .note("P4 with ITR 24 is busy for 98 % of the time: a run of another second differs"),
        plan.holds("fig3-medium-some", some == [5, 6, 7], names(&some))?,
        plan.holds("fig3-medium-all", every == [8, 9, 10], names(&every))?,
        plan.holds("fig3-high", none_high == [0], names(&none_high))?,
        plan.holds(
            "fig3-overlap",
            overlapping,
            overlaps.map(|(n, of)| format!("{n} of {of} pairs")).join(", "),
        )?,
    ];
    Ok(Figure {
        id: "fig3",
        title: "Figure 3: range of P95 by ITR for each V/F state, memcached".into(),
        about: format!(
            "ITR 24 to 4024 in steps of 100; {SECONDS} s of one core at each of 1353 points, a load \
             counts as sustained when 99 % of its requests are answered in that time."
        ),
        table,
        plots,
        checks,
    })
}

fn energy(plan: &'static Plan, loads: &[Load]) -> Result<Figure, ReproduceError> {
    let mut table = Table::new(["rate_krps", "state", "energy_least", "energy_most"]);
    let mut plots = Vec::new();
    let mut by_itr: Vec<(f64, usize, usize)> = Vec::new();
    let mut by_state = 0.0_f64;
    for (index, (load, name)) in loads.iter().zip(LOADS).enumerate() {
        let states = 0..load.points.len();
        let watts = |state: usize| load.range(state, |(_, watts)| watts);
        let worst = states.clone().filter_map(watts).map(|(_, most)| most).fold(0.0, f64::max);
        let chart = Chart::new(
            format!("{name} load: range of energy by ITR"),
            load.states(),
            Axis::new("energy, of the worst"),
        )
        .series(
            "ITRs that sustain the load",
            Mark::LineAndPoints,
            load.ranges(|state| watts(state).map(|(least, most)| (least / worst, most / worst))),
        );
        for state in states.clone() {
            let Some((least, most)) = watts(state) else { continue };
            by_itr.push(((most - least) / worst * 100.0, state, index));
            table.numbers([load.rate / 1e3, state as f64, least / worst, most / worst]);
        }
        plots.push(chart.svg());
        // Compares, at each ITR, the states with the highest and the lowest power.
        for setting in 0..load.points.first().map_or(0, Vec::len) {
            let column = states.clone().filter_map(|state| load.points[state][setting]);
            let watts: Vec<f64> = column.map(|(_, watts)| watts).collect();
            let most = watts.iter().copied().fold(0.0, f64::max);
            let least = watts.iter().copied().fold(f64::INFINITY, f64::min);
            if most > 0.0 {
                by_state = by_state.max((1.0 - least / most) * 100.0);
            }
        }
    }
    let at_p0 = by_itr.iter().find(|(_, state, load)| (*state, *load) == (0, 2));
    let at_p0 = at_p0.map_or(0.0, |(range, ..)| *range);
    let most = by_itr.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
    let (most, state, load) = most.unwrap_or((0.0, 0, 0));
    let checks: Vec<Check> = vec![
        plan.check("fig4-vf", &[by_state])?,
        plan.check("fig4-itr", &[at_p0])?,
        plan.holds(
            "fig4-itr-most",
            (state, load) == (0, 2),
            format!("P{state} at the {} load, {most:.2} %", LOADS[load]),
        )?,
        plan.check("fig4-low", &[loads[0].period_over_state()])?,
    ];
    Ok(Figure {
        id: "fig4",
        title: "Figure 4: range of energy by ITR for each V/F state, memcached".into(),
        about:
            "The runs of Figure 3; energy of the package (modelled) over the worst of each load, \
                among the settings that sustain it."
                .into(),
        table,
        plots,
        checks,
    })
}
