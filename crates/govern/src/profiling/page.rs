//! The page with the curves of a profile.

use super::Points;
use super::profiled::Profiled;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_requests::NOTED_LATENESS;
use wattline_server::tables::NOT_MEASURED;

/// Returns a page with a chart of the 95th percentile against the moderation period for each load,
/// with a line for each frequency, and a table of all points. It marks points whose 95th percentile
/// is not known within the share `within`, that were never steady, or whose requests were sent
/// late.
pub fn page(points: &Points, within: f64) -> String {
    let head = &points.head;
    let mut page = FigurePage::headed("a profile", &format!("Profile of {}", head.server));
    let power = match &head.power_source {
        Some(source) => format!("watts are {source}"),
        None => format!("no meter saw the power: energy is {NOT_MEASURED}"),
    };
    page.strong(&outcome(points));
    page.text(&format!(
        "Workload: {}. Latencies are measured, from the intended time of each request; {power}. {}.",
        head.workload,
        counted(points.len(), "point is known", "points are known"),
    ));
    if let Some(doubtful) = doubtful(points, within) {
        page.text(&doubtful);
    }
    page.heading("Latency over the moderation period");
    let mut charts = Vec::new();
    for (load, rate) in head.loads_rps.iter().enumerate() {
        let x = Axis::new("moderation period (us)").from_zero();
        let y = Axis::new("95th percentile (us)").from_zero();
        let mut chart = Chart::new(format!("{rate} requests per second"), x, y);
        let mut states: Vec<usize> =
            points.iter().filter_map(|point| Some(point.point?.0)).collect();
        states.sort_unstable();
        states.dedup();
        for state in states {
            let of = |point: &&Profiled| {
                point.load == load && point.point.is_some_and(|(own, _)| own == state)
            };
            let place = |point: &Profiled| Some((point.held_us?, point.p95_us?));
            let line: Vec<(f64, f64)> = points.iter().filter(of).filter_map(place).collect();
            let name = format!("{:.2} GHz", head.machine.frequencies_ghz[state]);
            chart = chart.series(name, Mark::LineAndPoints, line);
        }
        chart = chart.ordered();
        let default = points.iter().find(|point| point.load == load && point.point.is_none());
        if let Some(p95) = default.and_then(|point| point.p95_us) {
            chart = chart.band("driver's own moderation", p95, p95);
        }
        charts.push(chart.svg());
    }
    page.plots(charts);
    page.heading("All points");
    let micros = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let rows = points.iter().map(|point| {
        let (frequency, period) = match point.point {
            None => (head.machine.frequencies_ghz.len().saturating_sub(1), "driver's".to_owned()),
            Some((state, period)) => (state, format!("{:.0}", head.periods_us[period])),
        };
        [
            format!("{}", head.loads_rps[point.load]),
            format!("{:.2}", head.machine.frequencies_ghz[frequency]),
            period,
            micros(point.held_us),
            micros(point.p50_us),
            if point.sustained { micros(point.p95_us) } else { "saturated".to_owned() },
            micros(point.p95_half_us),
            micros(point.p99_us),
            micros(point.power_watts),
            point.repetitions.to_string(),
            remark(point, within),
        ]
    });
    let columns = [
        "load (rps)",
        "frequency (GHz)",
        "period (us)",
        "held (us)",
        "p50 (us)",
        "p95 (us)",
        "± (us, 95 %)",
        "p99 (us)",
        "power (W)",
        "runs",
        "remark",
    ];
    page.table(columns, rows);
    page.end()
}

/// Returns a count with its noun in the singular or plural.
fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Describes the point with the shortest 95th percentile at each load, compared with the driver's
/// own moderation.
fn outcome(points: &Points) -> String {
    let head = &points.head;
    let at_load = |load: usize| {
        let of_load = || points.iter().filter(move |point| point.load == load && point.sustained);
        let fixed = of_load().filter_map(|point| Some((point.point?, point.p95_us?)));
        let ((state, period), p95) = fixed.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let default = of_load().find(|point| point.point.is_none()).and_then(|point| point.p95_us);
        let compared = default.map_or_else(String::new, |default| {
            format!(", {default:.1} us with the driver's own moderation")
        });
        Some(format!(
            "At {} requests per second the shortest 95th percentile is {p95:.1} us, at {:.2} GHz and a \
             period of {:.0} us{compared}.",
            head.loads_rps[load], head.machine.frequencies_ghz[state], head.periods_us[period]
        ))
    };
    let sentences: Vec<String> = (0..head.loads_rps.len()).filter_map(at_load).collect();
    match sentences.is_empty() {
        true => "No point with a fixed period sustained its load.".to_owned(),
        false => sentences.join(" "),
    }
}

/// Describes the points that miss the requested quality; `None` if there are none.
fn doubtful(points: &Points, within: f64) -> Option<String> {
    let unsteady = points.iter().filter(|point| !point.steady).count();
    let loose = points.iter().filter(|point| !point.is_tight(within)).count();
    let late = points.iter().filter(|point| point.is_sent_late()).count();
    if unsteady + loose + late == 0 {
        return None;
    }
    Some(format!(
        "{} {NEVER_STEADY}: no two loads in a row agreed. {} {NOT_TIGHT}: half of the confidence \
         interval is more than {} % of the 95th percentile. {} {SENT_LATE}: the generator itself was late \
         with 1 % of their requests by more than {} % of the 99th percentile, and their latencies \
         include that.",
        counted(unsteady, "point was", "points were"),
        counted(loose, "point is", "points are"),
        within * 100.0,
        counted(late, "point was", "points were"),
        NOTED_LATENESS * 100.0
    ))
}

const NEVER_STEADY: &str = "never steady";
const NOT_TIGHT: &str = "not tight";
const SENT_LATE: &str = "sent late";

/// Returns the remarks on a point; empty if there are none.
pub fn remark(point: &Profiled, within: f64) -> String {
    let remarks = [
        (point.steady, NEVER_STEADY),
        (point.is_tight(within), NOT_TIGHT),
        (!point.is_sent_late(), SENT_LATE),
    ];
    let shown: Vec<&str> = remarks.iter().filter(|(sound, _)| !sound).map(|it| it.1).collect();
    shown.join(", ")
}
