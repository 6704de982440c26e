//! Figure 1: breakdown of power in three scenarios.

use super::bench::{Steady, all, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use wattline_report::plot::{Axis, BarSeries, Bars};
use wattline_report::{Check, Grounds, Table};
use wattline_sim::Report;

/// Rate of 40 Gbit/s in 1024-byte packets, in Mpps as the paper counts them.
pub(super) const MPPS_40G: f64 = 40e3 / (8.0 * 1024.0);
const NAMES: [&str; 3] = ["idle", "Click, no traffic", "Click, 40 Gbps"];
const PRINTED: [f64; 3] = [115.0, 262.0, 269.0];

pub(super) fn figures() -> Result<Vec<Figure>, ReproduceError> {
    let server = server()?;
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
    let mut series = Vec::new();
    for (name, part) in parts {
        let values: Vec<f64> = reports.iter().map(part).collect();
        if values.iter().any(|value| *value > 0.0) {
            table.row([
                name.into(),
                format!("{:.2}", values[0]),
                format!("{:.2}", values[1]),
                format!("{:.2}", values[2]),
            ]);
            series.push(BarSeries { name: name.into(), values, published: Vec::new() });
        }
    }
    let bars = Bars {
        title: "Figure 1: power by component".into(),
        x_label: "scenario".into(),
        y: Axis::new("power (W)"),
        groups: NAMES.map(str::to_owned).to_vec(),
        series,
        stacked: true,
        ordered: false,
        halves: Vec::new(),
        published: PRINTED.map(Some).to_vec(),
    };
    let watts: Vec<f64> = reports.iter().map(|report| report.power_watts).collect();
    let parts = &reports[2].power_by_component_watts;
    let closing: f64 = parts.parts().iter().map(|(_, power)| power.0).sum();
    let mut checks = vec![
        Check::near(&["PS-028", "PS-079"], "idle (W)", watts[0], 115.0, 0.5),
        Check::near(&["PS-030"], "Click without traffic (W)", watts[1], 262.0, 1.0),
        Check::near(&["PS-027", "PS-026"], "Click at 40 Gbps (W)", watts[2], 269.0, 1.0)
            .note("1024-byte packets; with Ethernet's gaps the links carry 39.2 Gbps of the 40"),
        Check::near(&["PS-029"], "peak over idle", watts[2] / watts[0], 2.3, 0.05),
        Check::below(&["PS-031"], "Click without traffic below the peak (%)", 100.0 * (1.0 - watts[1] / watts[2]), 3.0),
        Check::near(&["PS-114"], "Click, whatever the rate (W)", f64::midpoint(watts[1], watts[2]), 270.0, 8.0),
        Check::near(&["PS-021", "PS-040", "PS-041"], "sum of the parts over the whole", closing / watts[2], 1.0, 1e-9)
            .note("removing a part takes away its own power, no more"),
        Check::near(&["PS-034", "PS-036"], "CPUs at the peak (W)", cpu(&reports[2]), 184.0, 6.0)
            .contradiction("two CPUs rise by 134 W by the text, while all awake cores draw 147 W \
                            (262 - 115): 13 W must be in memory, cards or board; ours puts them in memory"),
        Check::near(&["PS-042"], "rise from idle to Click without traffic (W)", watts[1] - watts[0], 147.0, 1.0)
            .note("134 W of it are the CPUs', the rest is counted as memory's"),
    ];
    checks.extend([
        Check::near(&["PS-032"], "CPUs idle (W)", cpu(&reports[0]), 50.0, 1.0),
        Check::within(
            &["PS-033"],
            "CPUs' share of idle power",
            cpu(&reports[0]) / watts[0],
            (0.4, 0.5),
            0.0,
        ),
        Check::within(
            &["PS-035"],
            "CPUs at the peak over idle",
            cpu(&reports[2]) / cpu(&reports[0]),
            (3.5, 4.5),
            0.0,
        ),
        Check::near(&["PS-037"], "board (W)", parts.board.0, 24.0, 0.0).on(Grounds::Parameter),
        Check::near(&["PS-038"], "memory at the peak (W)", parts.memory.0, 20.0, 1.0),
        Check::near(&["PS-039"], "network cards at the peak (W)", parts.nic.0, 15.0, 1.0),
    ]);
    Ok(vec![Figure {
        id: "fig1",
        title: "Figure 1: power by component in three scenarios".into(),
        about: "Simulated. The bars' values are lost; totals and single components are printed. \
                The 26 W of the fans are what the printed parts leave over."
            .into(),
        table,
        plots: vec![bars.svg()],
        checks,
    }])
}
