//! Figures 7 and 11 and Table 1: savings of idle states, and how many cores to keep on.

use super::bench::{Steady, all, ipv4, napping, server};
use super::idle_states::{self, STATES};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::printed;
use wattline_report::Table;
use wattline_report::plot::{Axis, Bars, Chart, Mark};
use wattline_server::ServerModel;
use wattline_units::Hertz;

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let plan = planned::made_for(Paper::Powersave)?;
    Ok(vec![
        fixed_rate(plan, &server)?,
        table1(plan, &server)?,
        idle_states::figure(plan, &server)?,
        cores(plan, &server)?,
    ])
}

fn fixed_rate(plan: &'static Plan, server: &ServerModel) -> Result<Figure, ReproduceError> {
    let low = server.processor.lowest_frequency();
    let frequencies = [1.6, 2.4, 3.333].map(Hertz::from_gigahertz);
    let counts = [1, 6, 12];
    let cost = ipv4(server)?;
    let mut runs = Vec::new();
    for cores in counts {
        let rate = server.core_capacity(cost, cores, low).mpps();
        runs.extend(frequencies.map(|f| Steady::new(napping(cores, f, "C1"), rate)));
    }
    let watts: Vec<f64> = all(server, &runs)?.iter().map(|report| report.power_watts).collect();
    let mut table =
        Table::new(["cores", "rate_mpps", "1.6ghz_watts", "2.4ghz_watts", "3.3ghz_watts"]);
    for (index, row) in watts.chunks(3).enumerate() {
        let rate = runs[3 * index].packets_per_second / 1e6;
        table.numbers([counts[index] as f64, rate, row[0], row[1], row[2]]);
    }
    let least = watts.chunks(3).map(|row| (row[1] - row[0]).min(row[2] - row[1]));
    let bars = Bars::new(
        "Figure 7: same rate, different frequencies",
        "active cores; rate: the most that they forward at 1.6 GHz",
        Axis::new("power (W)").from_zero(),
        counts.map(|cores| cores.to_string()),
    );
    let add = |bars: Bars, (index, name): (usize, &str)| {
        bars.series(name, watts.chunks(3).map(|row| row[index]))
    };
    let bars = ["1.6 GHz", "2.4 GHz", "3.3 GHz"].into_iter().enumerate().fold(bars, add).ordered();
    Ok(Figure {
        id: "fig7",
        title: "Figure 7: the tortoise against the hare".into(),
        about:
            "Simulated, Poisson arrivals of 64-byte packets; cores that are done early nap in C1."
                .into(),
        table,
        plots: vec![bars.svg()],
        checks: vec![plan.check("least-step-power", &[least.fold(f64::MAX, f64::min)])?],
    })
}

fn table1(plan: &'static Plan, server: &ServerModel) -> Result<Figure, ReproduceError> {
    let fast = server.processor.highest_frequency();
    let runs: Vec<Steady> =
        STATES.iter().map(|state| Steady::new(napping(12, fast, state), 0.0)).collect();
    let watts: Vec<f64> = all(server, &runs)?.iter().map(|report| report.power_watts).collect();
    let exit = |state: &str| {
        let index = server.idle_state(state);
        index.map_or(f64::NAN, |index| server.idle_states[index].exit_latency.as_seconds() * 1e6)
    };
    let mut table = Table::new(["idle_state", "power_watts", "exit_latency_us"]);
    for (state, watts) in STATES.iter().zip(&watts) {
        table.row([(*state).into(), format!("{watts:.2}"), format!("{}", exit(state))]);
    }
    let axis = Axis::new("power (W)").from_zero();
    let bars = Bars::new("Table 1: all twelve cores in one idle state", "idle state", axis, STATES)
        .series("ours", watts.clone())
        .published_values(["PS-077", "PS-078", "PS-079"].map(|id| Some(printed(id))));
    let rows = [("PS-077", "C1"), ("PS-078", "C3"), ("PS-079", "C6")];
    let mut checks = Vec::new();
    for ((id, state), watts) in rows.into_iter().zip(&watts) {
        checks.push(plan.each("all-cores-in-a-state", id, state, *watts)?);
    }
    let cores = printed("PS-011") * printed("PS-012");
    for (check, id) in [("saving-c3", "PS-078"), ("saving-c6", "PS-079")] {
        checks.push(plan.check(check, &[(printed("PS-077") - printed(id)) / cores])?);
    }
    let others = printed("PS-077").min(printed("PS-078"));
    checks.extend([
        plan.check("power-c6-least", &[printed("PS-079") / others])?,
        plan.check("exit-latency-c1", &[exit("C1")])?,
        plan.check("exit-latency-c3", &[exit("C3")])?,
        plan.check("exit-latency-c6", &[exit("C6")])?,
        plan.holds(
            "idle-states",
            server.idle_states.iter().map(|state| &*state.name).eq(STATES),
            server.idle_states.iter().map(|state| &*state.name).collect::<Vec<_>>().join(", "),
        )?,
    ]);
    Ok(Figure {
        id: "table1",
        title: "Table 1: idle states".into(),
        about:
            "Simulated without traffic. The table's row labels are lost; their order follows from \
                the text and from the powers falling."
                .into(),
        table,
        plots: vec![bars.svg()],
        checks,
    })
}

fn cores(plan: &'static Plan, server: &ServerModel) -> Result<Figure, ReproduceError> {
    let low = server.processor.lowest_frequency();
    let cost = ipv4(server)?;
    let counts = [1, 2, 3, 4, 6, 8, 12];
    let mut table = Table::new(["cores", "offered_mpps", "power_watts"]);
    let mut chart = Chart::new(
        "Figure 11: fewer cores, the others in C6 (1.6 GHz)",
        Axis::new("offered load (Mpps)").range(0.0, 20.0),
        Axis::new("power (W)").from_zero(),
    );
    for cores in counts {
        let most = 0.97 * server.core_capacity(cost, cores, low).mpps();
        let rates: Vec<f64> = (0..=20).map(|i| most * f64::from(i) / 20.0).collect();
        let runs: Vec<Steady> =
            rates.iter().map(|rate| Steady::new(napping(cores, low, "C1"), *rate)).collect();
        let points: Vec<(f64, f64)> =
            rates.iter().copied().zip(all(server, &runs)?.iter().map(|r| r.power_watts)).collect();
        for (rate, watts) in &points {
            table.numbers([cores as f64, *rate, *watts]);
        }
        let name = if cores == 1 { "1 core".into() } else { format!("{cores} cores") };
        chart = chart.series(name, Mark::Line, points);
    }
    let chart = chart.ordered();
    let runs = [12, 3].map(|cores| Steady::new(napping(cores, low, "C1"), 5.0));
    let reports = all(server, &runs)?;
    let saving = reports[0].power_watts - reports[1].power_watts;
    Ok(Figure {
        id: "fig11",
        title: "Figure 11: how many cores should be on".into(),
        about: "Simulated, Poisson arrivals of 64-byte packets; active cores nap in C1.".into(),
        table,
        plots: vec![chart.svg()],
        checks: vec![
            plan.check("saving-3-cores", &[saving])?,
            plan.holds(
                "carried-by-3-cores",
                reports[1].dropped_packets == 0,
                format!("{} dropped", reports[1].dropped_packets),
            )?,
        ],
    })
}
