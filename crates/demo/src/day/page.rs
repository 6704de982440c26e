//! The report as a single page with plots, without external resources.

use super::report::{Day, Report};
use super::table::{
    AGREEMENT_HEAD, HEAD, MODERN_HEAD, about_agreement, about_step, agreement, cells, modern,
    modern_title, moves,
};
use crate::remark::DISTURBED;
use wattline_governor::account::Interval;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Chart, Mark};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let conditions = &report.conditions;
    let mut page = FigurePage::headed("a day in miniature", "A day in miniature");
    page.text(&format!(
        "Real packets through Wattline's data plane on the {} cores of {}, {} times slower; {}, seed {}. \
         Times and rates are the model's.",
        conditions.cores, conditions.server, conditions.scale, conditions.traffic, conditions.seed
    ));
    page.strong(
        "All watts are emulated: the server model's power of the cores' states (estimated, accuracy \
         class static), not measurements.",
    );
    let (disturbed, notes): (Vec<_>, Vec<_>) =
        report.notes.iter().partition(|note| note.starts_with(DISTURBED));
    disturbed.into_iter().for_each(|note| page.strong(note));
    page.heading("Policies");
    page.table(HEAD, report.days.iter().map(cells));
    if let Some(about) = about_step(report) {
        page.text(&about);
    }
    page.heading("Over the day");
    page.plots(charts(report).iter().map(Chart::svg));
    let steps = step_charts(report);
    if !steps.is_empty() {
        page.heading("After a step of load");
        page.plots(steps.iter().map(Chart::svg));
    }
    page.heading("Against the simulator");
    page.text(&about_agreement());
    page.table(AGREEMENT_HEAD, report.days.iter().map(agreement));
    if let Some(day) = report.days.last() {
        page.again(&conditions.simulation(&day.policy));
    }
    if !report.modern.is_empty() {
        page.heading("On a newer server");
        page.text(&modern_title());
        page.table(MODERN_HEAD, report.modern.iter().map(modern));
    }
    page.heading("Against PowerSave's paper");
    page.checks(&report.checks);
    page.heading("Notes");
    page.remarks(notes);
    page.remarks(report.days.iter().filter_map(moves));
    page.remarks(report.failures.iter().map(|failure| format!("FAILED {failure}")));
    page
}

fn hours() -> Axis {
    Axis::new("hour of the day, compressed").range(0.0, 24.0).ticks_every(6.0)
}

/// Returns pairs of hour and value for every interval, ordered by hour.
fn over_the_day(report: &Report, points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        points.map(|(from, value)| (report.conditions.hour(from), value)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn line(report: &Report, day: &Day, value: impl Fn(&Interval) -> Option<f64>) -> Vec<(f64, f64)> {
    let intervals = day.outcome.record.intervals.iter();
    let points = intervals.map(|i| (i.from_seconds, value(i).unwrap_or(f64::NAN)));
    over_the_day(report, points)
}

/// One line for each policy.
fn by_policy(
    report: &Report,
    mut chart: Chart,
    value: impl Fn(&Interval) -> Option<f64> + Copy,
) -> Chart {
    for day in &report.days {
        chart = chart.series(&day.policy, Mark::Line, line(report, day, value));
    }
    chart
}

/// Returns the day that is shown next to the simulator: the last one whose policy changes anything.
fn changing(report: &Report) -> Option<&Day> {
    report.days.iter().rev().find(|day| day.step.is_some())
}

fn charts(report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    let mpps = |rate: f64| Some(rate / 1e6);
    if let Some(day) = changing(report).or(report.days.last()) {
        let chart = Chart::new("Load", hours(), Axis::new("rate (Mpps)").from_zero());
        let offered = line(report, day, |i| mpps(i.offered_rate_pps));
        let forwarded = line(report, day, |i| mpps(i.forwarded_rate_pps));
        charts.push(chart.series("offered", Mark::Line, offered).series(
            format!("forwarded by {}", day.policy),
            Mark::Line,
            forwarded,
        ));
    }
    let power = Chart::new("Power, emulated", hours(), Axis::new("power (W)").from_zero());
    let mut power = by_policy(report, power, |i| i.power_watts);
    let cores = Axis::new("active cores, mean").range(0.0, report.conditions.cores as f64 + 0.5);
    let mut cores = by_policy(report, Chart::new("Active cores", hours(), cores), |i| {
        Some(i.cores_active_mean)
    });
    if let Some(day) = changing(report) {
        let name = format!("{}, simulated", day.policy);
        let simulated = |value: fn(&wattline_sim::Report) -> f64| {
            let intervals = day.simulated.intervals.iter();
            over_the_day(report, intervals.map(|i| (i.from_seconds, value(i))))
        };
        power = power.series(&name, Mark::Points, simulated(|i| i.power_watts));
        cores = cores.series(&name, Mark::Points, simulated(|i| i.cores_active_mean));
    }
    charts.extend([power, cores]);
    let frequency = Axis::new("frequency of active cores (GHz)").from_zero();
    charts.push(by_policy(report, Chart::new("Frequency", hours(), frequency), |i| {
        Some(i.frequency_mean_hertz / 1e9)
    }));
    let latency = |title: &str| {
        let axis = Axis::new("latency (µs)").logarithmic();
        Chart::new(title, hours(), axis)
    };
    let median = latency("Latency, median, model time");
    charts.push(by_policy(report, median, |i| {
        i.latency.map(|latency| latency.latency_p50_seconds * 1e6)
    }));
    let percentile = by_policy(report, latency("Latency, 99th percentile, model time"), |i| {
        i.latency.map(|latency| latency.latency_p99_seconds * 1e6)
    });
    charts.push(percentile.band("paper: PowerSave's peaks, 55 to 60 µs (PS-124)", 55.0, 60.0));
    charts
}

fn step_charts(report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    for day in &report.days {
        let Some(step) = &day.step else { continue };
        let title = format!(
            "{}: from {:.0} to {:.0} % load at 0",
            day.policy,
            step.low_load_ratio * 100.0,
            step.high_load_ratio * 100.0
        );
        let points = |points: &[super::step::Point]| {
            let point = |p: &super::step::Point| (p.after_step_seconds * 1e3, p.cores_active_mean);
            points.iter().map(point).collect::<Vec<_>>()
        };
        let cores = Axis::new("active cores, mean").from_zero();
        charts.push(
            Chart::new(title, Axis::new("time since the step (ms, model time)"), cores)
                .series("scale", Mark::Line, points(&step.points))
                .series("simulator", Mark::Points, points(&step.simulated_points)),
        );
    }
    charts
}
