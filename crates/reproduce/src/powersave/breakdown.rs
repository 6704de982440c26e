//! Figure 1: breakdown of power in three scenarios.

use super::bench::{Steady, all, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::printed::printed;
use wattline_report::Table;
use wattline_report::plot::{Axis, Bars};
use wattline_sim::Report;

/// Rate of 40 Gbit/s in 1024-byte packets, in Mpps as the paper counts them.
pub(super) const MPPS_40G: f64 = 40e3 / (8.0 * 1024.0);
const NAMES: [&str; 3] = ["idle", "Click, no traffic", "Click, 40 Gbps"];
/// Claims of the totals.
const TOTALS: [&str; 3] = ["PS-028", "PS-030", "PS-027"];

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let (plan, server) = (planned::made_for(Paper::Powersave)?, server(inputs)?);
    let loaded = Steady { bytes: 1024, ..Steady::new("poll", MPPS_40G) };
    let runs = [Steady::new("napi:idle=C6", 0.0), Steady::new("poll", 0.0), loaded];
    let reports = all(&server, &runs)?;
    let cpu = |r: &Report| {
        let parts = &r.power_by_component_watts;
        (parts.cpu_packages + parts.cpu_cores).0
    };
    type Part = (&'static str, fn(&Report) -> f64);
    let parts: [Part; 6] = [
        ("CPUs", |r| {
            (r.power_by_component_watts.cpu_packages + r.power_by_component_watts.cpu_cores).0
        }),
        ("memory", |r| r.power_by_component_watts.memory.0),
        ("network cards", |r| r.power_by_component_watts.nic.0),
        ("board", |r| r.power_by_component_watts.board.0),
        ("fans", |r| r.power_by_component_watts.fans.0),
        ("not told apart", |r| r.power_by_component_watts.other.0),
    ];
    let mut table =
        Table::new(["component", "idle_watts", "click_no_traffic_watts", "click_40gbps_watts"]);
    let axis = Axis::new("power (W)");
    let mut bars = Bars::new("Figure 1: power by component", "scenario", axis, NAMES);
    for (name, part) in parts {
        let values: Vec<f64> = reports.iter().map(part).collect();
        if values.iter().any(|value| *value > 0.0) {
            table.row([
                name.into(),
                format!("{:.2}", values[0]),
                format!("{:.2}", values[1]),
                format!("{:.2}", values[2]),
            ]);
            bars = bars.series(name, values);
        }
    }
    let totals = TOTALS.map(|id| Some(printed(id)));
    let bars = bars.stacked(totals);
    let watts: Vec<f64> = reports.iter().map(|report| report.power_watts).collect();
    let parts = &reports[2].power_by_component_watts;
    let peak_cpus = 2.0 * printed("PS-034");
    let swing = peak_cpus - 2.0 * printed("PS-032");
    let mut checks = vec![
        plan.check("idle", &[watts[0]])?,
        plan.check("click-without-traffic", &[watts[1]])?,
        plan.check("click-40-gbps", &[watts[2]])?,
        plan.check("peak-idle", &[watts[2] / watts[0]])?,
        plan.check("click-without-traffic-below", &[100.0 * (1.0 - watts[1] / watts[2])])?,
        plan.check("click-any-rate", &[f64::midpoint(watts[1], watts[2])])?,
        plan.check("cpu-peak", &[cpu(&reports[2]) / 2.0])?,
        plan.check("cpu-idle", &[cpu(&reports[0]) / 2.0])?,
        plan.check("cpus-share-idle", &[cpu(&reports[0]) / watts[0]])?,
        plan.check("cpus-peak-idle", &[cpu(&reports[2]) / cpu(&reports[0])])?,
        plan.check("board", &[parts.board.0])?,
        plan.check("memory-peak", &[parts.memory.0])?,
        plan.check("network-cards-peak", &[parts.nic.0])?,
    ];
    let rest = |whole: f64, parts: &[f64]| whole - parts.iter().sum::<f64>();
    let cpus_idle = 2.0 * printed("PS-032");
    checks.extend([
        plan.check("cpus-part-rise", &[swing / (printed("PS-027") - printed("PS-028"))])?,
        plan.check(
            "rest-peak",
            &[rest(
                printed("PS-027"),
                &[peak_cpus, printed("PS-037"), printed("PS-038"), printed("PS-039")],
            )],
        )?,
        plan.check(
            "rest-idle",
            &[rest(printed("PS-028"), &[cpus_idle, printed("PS-037"), printed("PS-040")])],
        )?,
        plan.check("rise-idle-click", &[printed("PS-030") - printed("PS-028") - swing])?,
    ]);
    Ok(vec![Figure {
        id: "fig1",
        title: "Figure 1: power by component in three scenarios".into(),
        about: "Simulated. The bars' values are lost; totals and single components are printed. \
                The 26 W of the fans are the total less the printed parts."
            .into(),
        table,
        plots: vec![bars.svg()],
        checks,
    }])
}
