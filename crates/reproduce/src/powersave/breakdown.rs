//! Figure 1: breakdown of power in three scenarios.

use super::bench::{Steady, all, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::printed::printed;
use wattline_report::plot::{Axis, Bars};
use wattline_report::{Basis, Check, Table};
use wattline_sim::Report;

/// Rate of 40 Gbit/s in 1024-byte packets, in Mpps as the paper counts them.
pub(super) const MPPS_40G: f64 = 40e3 / (8.0 * 1024.0);
const NAMES: [&str; 3] = ["idle", "Click, no traffic", "Click, 40 Gbps"];
/// Claims of the totals.
const TOTALS: [&str; 3] = ["PS-028", "PS-030", "PS-027"];

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
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
    let fitted = vec![
        Check::near(&["PS-028", "PS-079"], "idle (W)", watts[0], printed("PS-028"), 0.5),
        Check::near(&["PS-030"], "Click without traffic (W)", watts[1], printed("PS-030"), 1.0),
        Check::near(
            &["PS-027", "PS-026"],
            "Click at 40 Gbps (W)",
            watts[2],
            printed("PS-027"),
            1.0,
        )
        .note("1024-byte packets; with Ethernet's gaps the links carry 39.2 Gbps of the 40"),
        Check::near(&["PS-029"], "peak over idle", watts[2] / watts[0], printed("PS-029"), 0.05),
        Check::below(
            &["PS-031"],
            "Click without traffic below the peak (%)",
            100.0 * (1.0 - watts[1] / watts[2]),
            printed("PS-031"),
        ),
        Check::near(
            &["PS-114"],
            "Click, whatever the rate (W)",
            f64::midpoint(watts[1], watts[2]),
            printed("PS-114"),
            8.0,
        ),
        Check::near(
            &["PS-034"],
            "a CPU at the peak (W)",
            cpu(&reports[2]) / 2.0,
            printed("PS-034"),
            3.0,
        ),
        Check::near(&["PS-032"], "a CPU idle (W)", cpu(&reports[0]) / 2.0, printed("PS-032"), 0.5),
        Check::within(
            &["PS-033"],
            "CPUs' share of idle power",
            cpu(&reports[0]) / watts[0],
            (0.4, 0.5),
            0.0,
        ),
        Check::near(
            &["PS-035"],
            "CPUs at the peak over idle",
            cpu(&reports[2]) / cpu(&reports[0]),
            printed("PS-035"),
            0.5,
        ),
        Check::near(&["PS-037"], "board (W)", parts.board.0, printed("PS-037"), 0.0),
        Check::near(&["PS-038"], "memory at the peak (W)", parts.memory.0, printed("PS-038"), 1.0),
        Check::near(
            &["PS-039"],
            "network cards at the peak (W)",
            parts.nic.0,
            printed("PS-039"),
            1.0,
        ),
    ];
    let fitted = fitted.into_iter().map(|check| check.basis(Basis::Fitted));
    let rest = |whole: f64, parts: &[f64]| whole - parts.iter().sum::<f64>();
    let cpus_idle = 2.0 * printed("PS-032");
    let arithmetic = vec![
        Check::above(
            &["PS-036"],
            "CPUs' part of the rise from idle to the peak, by the printed figures",
            swing / (printed("PS-027") - printed("PS-028")),
            0.5,
        )
        .note("\"contributes to more than doubling the total\": the larger part of the rise"),
        Check::near(
            &["PS-040"],
            "rest that the printed parts leave at the peak (W)",
            rest(
                printed("PS-027"),
                &[peak_cpus, printed("PS-037"), printed("PS-038"), printed("PS-039")],
            ),
            printed("PS-040"),
            0.5,
        ),
        Check::near(
            &["PS-041"],
            "what CPUs, board and fans leave over at idle (W)",
            rest(printed("PS-028"), &[cpus_idle, printed("PS-037"), printed("PS-040")]),
            printed("PS-041"),
            0.5,
        ),
        Check::near(
            &["PS-042"],
            "rise from idle to Click without traffic that the CPUs leave over (W)",
            printed("PS-030") - printed("PS-028") - swing,
            printed("PS-042"),
            0.5,
        )
        .note("the model counts it as memory's; the paper does not say where it goes"),
    ];
    let arithmetic = arithmetic.into_iter().map(|check| check.basis(Basis::Arithmetic));
    let checks = fitted.chain(arithmetic).collect();
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
