//! Figure 10: idle states under load, also over the power of a core that leaves one, which the
//! paper does not print.

use super::bench::{Steady, all, ipv4, napping, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::judged_sets::JudgedSets;
use crate::made::Memo;
use crate::paper::Paper;
use crate::planned::Plan;
use crate::sets::{self, Found, Judged, rounded};
use wattline_report::Table;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_server::ServerModel;
use wattline_sim::Report;

pub(super) const STATES: [&str; 3] = ["C1", "C3", "C6"];
const CORES: [usize; 3] = [2, 4, 12];
/// Least load in Mpps at which the states are compared: the paper's argument assumes a packet per
/// µs.
const COMPARED_FROM: f64 = 1.0;

const FOUND: &str = include_str!("../../published/sets/powersave.json");

/// Makes a server whose cores have a single idle state and enter it at once, as in the text of
/// Figure 10. Every nap costs the exit latency at the power of an awake core.
fn at_once(server: &ServerModel, state: &str) -> Result<ServerModel, ReproduceError> {
    let index = server
        .idle_state(state)
        .ok_or_else(|| ReproduceError::Model(format!("{} has no {state}", server.name)))?;
    let mut only = server.clone();
    only.wake_up.fixed_seconds += server.extra_exit_latency(index).as_seconds();
    only.idle_states = vec![server.idle_states[index].clone()];
    Ok(only)
}

/// Runs with one number of cores.
struct Curves {
    cores: usize,
    /// Loads in Mpps.
    rates: Vec<f64>,
    /// Reports at these loads, by state.
    reports: Vec<Vec<Report>>,
}

impl Curves {
    fn simulated(
        server: &ServerModel,
        cores: usize,
        entered: impl Fn(&str) -> Result<ServerModel, ReproduceError>,
    ) -> Result<Self, ReproduceError> {
        let low = server.processor.lowest_frequency();
        let most = 0.97 * server.core_capacity(ipv4(server)?, cores, low).mpps();
        let rates: Vec<f64> = (0..=20).map(|i| most * f64::from(i) / 20.0).collect();
        let of_state = |state: &&str| {
            let run = |rate: &f64| Steady::new(napping(cores, low, state), *rate);
            all(&entered(state)?, &rates.iter().map(run).collect::<Vec<_>>())
        };
        let reports = STATES.iter().map(of_state).collect::<Result<_, _>>()?;
        Ok(Self { cores, rates, reports })
    }

    /// Returns the indices of the loads at which states are compared.
    fn compared(&self) -> impl Iterator<Item = usize> {
        self.rates.iter().enumerate().filter(|(_, rate)| **rate >= COMPARED_FROM).map(|it| it.0)
    }

    fn watts(&self, state: usize, load: usize) -> f64 {
        self.reports[state][load].power_watts
    }

    /// Returns the widest gap in watts between C1 and another state. A core leaving that state
    /// draws its power plus the share `leaving` of the difference to an awake core.
    fn gap(&self, server: &ServerModel, leaving: f64) -> f64 {
        let less = |state: usize, report: &Report| {
            (1.0 - leaving) * less_while_leaving(server, STATES[state], report)
        };
        let apart = |load: usize| {
            let deep =
                move |state| self.watts(state, load) - less(state, &self.reports[state][load]);
            (1..STATES.len()).map(move |state| (self.watts(0, load) - deep(state)).abs())
        };
        self.compared().flat_map(apart).fold(0.0, f64::max)
    }
}

/// Returns the power saved if cores leave a state at the power of that state. Every interrupt wakes
/// a core.
fn less_while_leaving(server: &ServerModel, state: &str, report: &Report) -> f64 {
    let Some(index) = server.idle_state(state) else { return f64::NAN };
    let awake = server.awake_core_power(server.processor.lowest_frequency());
    let less = awake - server.idle_states[index].power;
    let naps = report.interrupts_per_packet.unwrap_or(0.0) * report.forwarded_rate_pps;
    naps * server.extra_exit_latency(index).as_seconds() * less.0
}

/// Returns the curves of states that are entered at once.
fn curves_at_once(server: &ServerModel) -> Result<Vec<Curves>, ReproduceError> {
    CORES
        .iter()
        .map(|cores| Curves::simulated(server, *cores, |state| at_once(server, state)))
        .collect()
}

fn widest(server: &ServerModel, curves: &[Curves], leaving: f64) -> f64 {
    curves.iter().map(|curves| curves.gap(server, leaving)).fold(0.0, f64::max)
}

pub(super) fn figure(plan: &'static Plan, server: &ServerModel) -> Result<Figure, ReproduceError> {
    let at_once = curves_at_once(server)?;
    let mut table = Table::new(["cores", "idle_state", "entered", "offered_mpps", "power_watts"]);
    let mut plots = Vec::new();
    for at_once in &at_once {
        let cores = at_once.cores;
        let later = Curves::simulated(server, cores, |_| Ok(server.clone()))?;
        for (entered, curves) in [("at once", at_once), ("after a while", &later)] {
            let mut chart = Chart::new(
                format!("Figure 10: {cores} cores at 1.6 GHz, states entered {entered}"),
                Axis::new("offered load (Mpps)"),
                Axis::new("power (W)").from_zero(),
            );
            for (state, name) in STATES.into_iter().enumerate() {
                let watts = (0..curves.rates.len()).map(|load| curves.watts(state, load));
                let points: Vec<_> = curves.rates.iter().copied().zip(watts).collect();
                for (rate, watts) in &points {
                    table.row([
                        cores.to_string(),
                        name.into(),
                        entered.into(),
                        format!("{rate:.4}"),
                        format!("{watts:.3}"),
                    ]);
                }
                chart = chart.series(name, Mark::Line, points);
            }
            plots.push(chart.svg());
        }
    }
    let share = |curves: &Curves, load| {
        curves.watts(0, load) / curves.watts(1, load).min(curves.watts(2, load))
    };
    let shares = at_once.iter().flat_map(|it| it.compared().map(move |load| share(it, load)));
    let lightest = shares.fold(0.0, f64::max);
    let leaving = sets::powersave()?.draw().concat();
    let gaps = leaving.iter().map(|share| (*share, widest(server, &at_once, *share)));
    let chart = Chart::new(
        "Power of a core that leaves C3 or C6",
        Axis::new("from that of the state (0) to that of an awake core (1)").range(0.0, 1.0),
        Axis::new("widest gap between idle states (W)").from_zero(),
    )
    .series("from 1 Mpps on, entered at once", Mark::LineAndPoints, gaps)
    .band(
        "\"very little impact\", as we read it",
        0.0,
        plan.published("gap-between-states").unwrap_or(f64::NAN),
    );
    plots.push(chart.svg());
    Ok(Figure {
        id: "fig10",
        title: "Figure 10: idle states under load".into(),
        about: "Simulated, Poisson arrivals of 64-byte packets. \"At once\" is the paper's text: a core whose \
                queue is empty enters the state at once and leaves it with its exit latency, at the power of an \
                awake core; the last plot has other powers. \"After a while\" is what kernels do: a nap begins in \
                C1 and goes deeper after three exit latencies, so that at these loads no core gets there. The paper \
                says that C3 and C6 leave caches cold, but prints no cost, so none is counted."
            .into(),
        table,
        plots,
        checks: vec![
            plan.check("power-c1-lesser", &[lightest])?,
            plan.check("gap-between-states", &[widest(server, &at_once, 1.0)])?,
        ],
    })
}

/// Returns the gap over the power of a core that leaves a state, from the record or computed again.
pub(crate) fn judged_sets(fresh: bool) -> Result<JudgedSets, ReproduceError> {
    static MADE: Memo<bool, Found> = Memo::new();
    let plan = sets::powersave()?;
    let found = MADE.get_or_make(fresh, || if fresh { judge() } else { plan.cached(FOUND) })?;
    Ok(JudgedSets { paper: Paper::Powersave, plan, found })
}

fn judge() -> Result<Found, ReproduceError> {
    let (plan, server) = (sets::powersave()?, server(&Inputs::default())?);
    let curves = curves_at_once(&server)?;
    let mut found = plan.empty();
    for (set, leaving) in plan.draw().into_iter().enumerate() {
        let gap = rounded(widest(&server, &curves, leaving[0]));
        let figures = plan.judged.checks.iter().map(|check| (check.clone(), vec![gap]));
        found.judged.push(Judged { set, connections: 0, figures: figures.collect() });
        found.accepted.push(leaving);
    }
    found.tried = found.accepted.len();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_GOLDEN=1` writes the record.
    #[test]
    fn record_has_the_gaps_of_the_model() {
        let found = judge().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/published/sets/powersave.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let text = serde_json::to_string(&found).unwrap().replace("},{", "},\n{");
            std::fs::write(path, text + "\n").unwrap();
        }
        let recorded = std::fs::read_to_string(path).unwrap();
        assert_eq!(sets::powersave().unwrap().cached(&recorded).unwrap(), found);
    }
}
