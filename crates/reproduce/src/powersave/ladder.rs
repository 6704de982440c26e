//! Figure 12: PowerSave's ladder and its controller, compared with the best operating points.

use super::bench::{Arrivals, Steady, all, ipv4, napping, server};
use super::own;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::paper::Paper;
use crate::planned;
use crate::printed::printed_at;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::ServerModel;
use wattline_study::optimise::{LoadedServer, cheapest};
use wattline_units::{Hertz, PacketsPerSecond, Span};

/// Returns PowerSave's rungs: first more cores at the lowest frequency, then higher frequencies.
fn rungs(server: &ServerModel) -> Vec<(usize, Hertz)> {
    let all = &server.processor.frequencies;
    let cores = server.processor.cores();
    let first = (1..=cores).map(|count| (count, all[0]));
    first.chain(all[1..].iter().map(|frequency| (cores, *frequency))).collect()
}

/// Makes the figure from the reader's own traffic.
pub(super) fn own(inputs: &Inputs, own: &OwnTraffic) -> Result<Vec<Figure>, ReproduceError> {
    own::over_load(inputs, own, ("fig12", "Figure 12: PowerSave against the optimum"))
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let cost = ipv4(&server)?;
    let ladder = rungs(&server);
    let loaded = LoadedServer { model: &server, cost, frame_bytes: 64 };
    let rates: Vec<f64> = (1..=114).map(|i| 0.25 * f64::from(i)).collect();
    let mut runs = Vec::new();
    for rate in &rates {
        let rate = PacketsPerSecond::from_mpps(*rate);
        let rung = ladder.iter().find(|(cores, f)| server.core_capacity(cost, *cores, *f) >= rate);
        let (cores, frequency) = rung.copied().unwrap_or(ladder[ladder.len() - 1]);
        let best =
            cheapest(&loaded, rate, None).map_err(|e| ReproduceError::Model(e.to_string()))?;
        // Packets are evenly spaced, as from a generator. Some Poisson arrivals would be dropped at
        // the full load of a point.
        for policy in [napping(cores, frequency, "C1"), napping(best.cores, best.frequency, "C1")] {
            runs.push(Steady { arrivals: Arrivals::Even, ..Steady::new(policy, rate.mpps()) });
        }
    }
    let reports = all(&server, &runs)?;
    let points: Vec<(f64, f64, f64)> = rates
        .iter()
        .zip(reports.chunks(2))
        .map(|(rate, pair)| (*rate, pair[0].power_watts, pair[1].power_watts))
        .collect();
    let live_rates: Vec<f64> = (0..=27).map(f64::from).collect();
    let policy = inputs.policy("queue-length")?;
    let controller: Vec<Steady> = live_rates
        .iter()
        .map(|rate| Steady {
            warmup: Span::from_millis(60),
            duration: Span::from_millis(100),
            ..Steady::new(policy.clone(), *rate)
        })
        .collect();
    let live = all(&server, &controller)?;
    let mut table = Table::new(["offered_mpps", "ladder_watts", "optimal_watts", "gap_watts"]);
    for (rate, ladder, best) in &points {
        table.numbers([*rate, *ladder, *best, ladder - best]);
    }
    let line = |of: fn(&(f64, f64, f64)) -> f64| {
        points.iter().map(move |p| (p.0, of(p))).collect::<Vec<_>>()
    };
    let axis = || Axis::new("offered load, 64-byte packets (Mpps)").range(0.0, 30.0);
    let chart = Chart::new(
        "Figure 12: PowerSave against the optimum",
        axis(),
        Axis::new("power (W)").from_zero(),
    )
    .series("optimal", Mark::Line, line(|p| p.2))
    .series("PowerSave's ladder", Mark::Line, line(|p| p.1))
    .series(
        "PowerSave's controller at work",
        Mark::Points,
        live_rates.iter().copied().zip(live.iter().map(|report| report.power_watts)),
    );
    let gap = Chart::new(
        "Gap of the ladder to the optimum",
        axis(),
        Axis::new("gap (W)").range(-1.0, 8.0),
    )
    .series("ladder less optimum", Mark::Line, line(|p| p.1 - p.2))
    .band("printed", 0.0, printed_at("PS-095", 1));
    Ok(vec![Figure {
        id: "fig12",
        title: "Figure 12: PowerSave against the optimum".into(),
        about: "Simulated. The ladder takes its first rung that carries the rate, the optimum the \
                cheapest of all 168 points; packets come evenly, as rungs at full load allow no \
                randomness. The controller at work sees Poisson arrivals."
            .into(),
        table,
        plots: vec![chart.svg(), gap.svg()],
        checks: checks(&server, &points, &live)?,
    }])
}

fn checks(
    server: &ServerModel,
    points: &[(f64, f64, f64)],
    live: &[wattline_sim::Report],
) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let cost = ipv4(server)?;
    let loaded = LoadedServer { model: server, cost, frame_bytes: 64 };
    let low = server.processor.lowest_frequency();
    let two = server.core_capacity(cost, 2, low).mpps();
    let widest = |most: f64| {
        points.iter().filter(|p| p.0 <= most).map(|p| p.1 - p.2).fold(f64::MIN, f64::max)
    };
    // Up to `one`, a single core is best; the ladder uses two cores above `ladder_one`.
    let one = points
        .iter()
        .filter(|p| {
            cheapest(&loaded, PacketsPerSecond::from_mpps(p.0), None).is_ok_and(|c| c.cores == 1)
        })
        .map(|p| p.0)
        .fold(0.0, f64::max);
    let ladder_one = server.core_capacity(cost, 1, low).mpps();
    let dropped: u64 = live.iter().map(|report| report.dropped_packets).sum();
    Ok(vec![
        plan.check("widest-gap-ladder", &[widest(two)])?,
        plan.check("widest-gap-ladder-any", &[widest(f64::MAX)])?,
        plan.holds(
            "ladder-takes-second",
            ladder_one < one,
            format!("above {ladder_one:.2} Mpps, the optimum above {one:.2}"),
        )?,
        plan.check("packets-controller-drops", &[dropped as f64])?,
    ])
}
