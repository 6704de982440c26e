//! Figures 14 and 15: load and power over the day with four applications. Figure 16 uses the same
//! runs.

use super::bench::server;
use super::day::{BYTES, Day, SECONDS, day_checks, days, middle, power_table};
use super::latency;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::printed::printed;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::Application;
use wattline_sim::Report;

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let days = days(inputs, &server, &Application::ALL)?;
    Ok(vec![profile(&days)?, power(&days)?, latency::figure(&days[0])?])
}

fn profile(days: &[Day]) -> Result<Figure, ReproduceError> {
    let mut table = Table::new(["application", "from_seconds", "offered_gbps", "utilisation"]);
    let mut chart = Chart::new(
        "Figure 14: load over the experiment",
        Axis::new("time (s), a day compressed").range(0.0, SECONDS),
        Axis::new("offered load (Gbps)").range(0.0, 40.0),
    );
    for day in days {
        let gbps = |report: &Report| report.offered_rate_pps * f64::from(BYTES) * 8e-9;
        for report in &day.reports[2].intervals {
            table.row([
                day.application.to_string(),
                format!("{:.3}", report.from_seconds),
                format!("{:.3}", gbps(report)),
                format!("{:.4}", day.load(report)),
            ]);
        }
        let points = day.reports[2].intervals.iter().map(|report| (middle(report), gbps(report)));
        chart = chart.series(day.application.to_string(), Mark::Line, points);
    }
    let utilisation =
        days.iter().map(|day| day.load(&day.reports[2])).sum::<f64>() / days.len() as f64;
    Ok(Figure {
        id: "fig14",
        title: "Figure 14: traffic".into(),
        about: format!(
            "A stand-in: the figure and both traces are lost or unavailable. A day's shape with \
             spikes, compressed to {SECONDS} s, {BYTES}-byte packets, even over four ports; scaled for \
             each application to a mean of 35 % of the router's capacity."
        ),
        table,
        plots: vec![chart.svg()],
        checks: vec![
            planned::made_for(Paper::Powersave)?
                .check("mean-utilisation", &[100.0 * utilisation])?,
        ],
    })
}

fn power(days: &[Day]) -> Result<Figure, ReproduceError> {
    let mut plots = Vec::new();
    for day in days {
        let chart = Chart::new(
            format!("Figure 15: power, {}", day.application),
            Axis::new("time (s), a day compressed").range(0.0, SECONDS),
            Axis::new("power (W)").range(0.0, 290.0),
        );
        plots.push(
            day.draw_power(chart)
                .band("printed for Click", printed("PS-114") - 1.0, printed("PS-114") + 1.0)
                .svg(),
        );
    }
    Ok(Figure {
        id: "fig15",
        title: "Figure 15: power of four applications".into(),
        about: "Simulated. The applications' costs are assumed in the order that the paper gives: IPv4, \
                NetFlow, IPSEC, redundancy elimination. With costs that follow from measured ones: \
                fig15-measured."
            .into(),
        table: power_table(days),
        plots,
        checks: power_checks(days)?,
    })
}

fn power_checks(days: &[Day]) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let mut checks = Vec::new();
    for day in days {
        checks.extend(day_checks(day, day.application.name())?);
    }
    let ratio = days[0].reports[2].intervals.iter().zip(&days[0].reports[0].intervals);
    let least =
        ratio.map(|(own, click)| own.power_watts / click.power_watts).fold(f64::MAX, f64::min);
    checks.push(plan.check("ipv4-least-power", &[least])?);
    // The largest saving of PowerSave over NAPI-Click among all applications.
    let gains = days.iter().flat_map(|day| {
        day.reports[2].intervals.iter().zip(&day.reports[1].intervals).map(|(own, napi)| {
            (own.offered_rate_pps / day.of_cores, 1.0 - own.power_watts / napi.power_watts)
        })
    });
    let best = gains.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((f64::NAN, 0.0));
    checks.push(
        plan.check("load-of-largest-gain", &[100.0 * best.0])?
            .note(format!("gain there: {:.0} %", 100.0 * best.1)),
    );
    Ok(checks)
}
