//! Figures with the reader's own traffic: at its real length, with the paper's sampling. The
//! paper's numbers are for other traffic, so nothing is checked.

use super::bench::{SEED, content, cost, server};
use super::day::{BYTES, Day, POLICIES, capacities, micros, middle, power_table};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::runner::side_by_side;
use wattline_report::Table;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_server::{Application, ServerModel};
use wattline_sim::{Report, Setting, run};
use wattline_study::optimise::{LoadedServer, cheapest};
use wattline_traffic::source::{Bunched, Links};
use wattline_traffic::{Popularity, Source};
use wattline_units::{PacketsPerSecond, Span};

/// Time between two samples of the latency, and length of the reported intervals (section 7).
const SAMPLE: Span = Span::from_millis(1);
const INTERVAL: f64 = 1.0;
/// Limit on the intervals of a run; longer traffic has longer intervals.
const MOST: f64 = 50_000.0;

/// Variation of a run.
#[derive(Clone)]
pub(super) struct Case<'a> {
    pub(super) server: &'a ServerModel,
    pub(super) application: Application,
    pub(super) burst: u32,
    pub(super) output_links: bool,
}

impl<'a> Case<'a> {
    /// Creates the case of unchanged packets that leave through output links.
    pub(super) fn new(server: &'a ServerModel, application: Application) -> Self {
        Self { server, application, burst: 1, output_links: true }
    }
}

fn bytes(own: &OwnTraffic) -> u16 {
    own.mean_bytes().unwrap_or(BYTES)
}

fn source(own: &OwnTraffic, burst: u32) -> Box<dyn Source> {
    let plain = own.source(content(BYTES, Popularity::Uniform), Links::POWERSAVE, SEED);
    if burst == 1 {
        return plain;
    }
    // The links include Ethernet's gaps, so a burst arrives at the highest possible rate.
    Box::new(Bunched::new(plain, burst, Links { overhead: 20, ..Links::POWERSAVE }))
}

fn simulate(own: &OwnTraffic, case: &Case<'_>, policy: &str) -> Result<Report, ReproduceError> {
    let seconds = own.seconds();
    let interval = INTERVAL.max(seconds / MOST).min(seconds);
    let policy = wattline_policies::POLICIES.parse(policy)?;
    let setting = Setting {
        application: case.application,
        mean_bytes: bytes(own).into(),
        interval: Some(Span::from_seconds(interval)),
        output_links: case.output_links,
        seed: SEED,
        sample: Some(SAMPLE),
        ..Setting::new(case.server, policy, Span::from_seconds(seconds))
    };
    Ok(run(&setting, source(own, case.burst).as_mut())?)
}

/// Simulates all cases under all policies.
fn days(inputs: &Inputs, own: &OwnTraffic, cases: &[Case<'_>]) -> Result<Vec<Day>, ReproduceError> {
    let runs: Vec<_> =
        cases.iter().flat_map(|case| POLICIES.map(|(policy, _)| (case, policy))).collect();
    let reports =
        side_by_side(&runs, |(case, policy)| simulate(own, case, &inputs.policy(policy)?))?;
    let mut reports = reports.into_iter();
    let day = |case: &Case<'_>| {
        let (capacity, of_cores) = capacities(case.server, case.application, bytes(own))?;
        let reports = reports.by_ref().take(POLICIES.len()).collect();
        Ok(Day { application: case.application, capacity, of_cores, reports })
    };
    cases.iter().map(day).collect()
}

/// Returns the numbers of a whole run, under the names of [`WHOLE`].
fn whole(day: &Day) -> [f64; WHOLE.len()] {
    let [click, napi, own] = [0, 1, 2].map(|policy| &day.reports[policy]);
    [
        click.power_watts,
        napi.power_watts,
        own.power_watts,
        day.saving(1),
        day.saving(0),
        micros(click.latency_mean_seconds),
        micros(own.latency_mean_seconds),
        micros(own.latency_p99_seconds),
        own.dropped_packets as f64,
    ]
}

const WHOLE: [&str; 9] = [
    "click_watts",
    "napi_watts",
    "powersave_watts",
    "saving_over_napi_percent",
    "saving_over_click_percent",
    "click_latency_mean_us",
    "powersave_latency_mean_us",
    "powersave_latency_p99_us",
    "powersave_dropped_packets",
];

fn figure(
    id: &'static str,
    title: &str,
    own: &OwnTraffic,
    table: Table,
    plots: Vec<Chart>,
) -> Figure {
    Figure {
        id,
        title: format!("{title}, own traffic"),
        about: format!(
            "Simulated: {}. Power is the mean of intervals of 1 s, latency of one sample per millisecond. The \
             paper's numbers are of other traffic: nothing is compared.",
            own.describe()
        ),
        table,
        plots: plots.iter().map(Chart::svg).collect(),
        checks: Vec::new(),
    }
}

fn time() -> Axis {
    Axis::new("time (s)")
}

/// Makes Figures 14 to 16.
pub(super) fn load_and_power(
    inputs: &Inputs,
    own: &OwnTraffic,
) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let cases = Application::ALL.map(|application| Case::new(&server, application));
    let days = days(inputs, own, &cases)?;
    Ok(vec![load(own, &days), power(own, &days), latency(own, &days[0])])
}

fn load(own: &OwnTraffic, days: &[Day]) -> Figure {
    let mut table = Table::new(["application", "from_seconds", "offered_gbps", "utilisation"]);
    let gbps = |report: &Report| report.offered_rate_pps * f64::from(bytes(own)) * 8e-9;
    for day in days {
        for report in &day.reports[2].intervals {
            table.row([
                day.application.to_string(),
                format!("{:.3}", report.from_seconds),
                format!("{:.4}", gbps(report)),
                format!("{:.4}", day.load(report)),
            ]);
        }
    }
    let all = &days[0].reports[2].intervals;
    let chart = Chart::new("Load", time(), Axis::new("offered load (Gbps)").from_zero()).series(
        "offered",
        Mark::Line,
        all.iter().map(|report| (middle(report), gbps(report))),
    );
    figure("fig14", "Figure 14: traffic", own, table, vec![chart])
}

fn power(own: &OwnTraffic, days: &[Day]) -> Figure {
    let plot = |day: &Day| {
        let title = format!("Power, {}", day.application);
        day.draw_power(Chart::new(title, time(), Axis::new("power (W)").from_zero()))
    };
    let plots = days.iter().map(plot).collect();
    figure("fig15", "Figure 15: power of four applications", own, power_table(days), plots)
}

/// Reads a figure of a report.
type OfReport = fn(&Report) -> Option<f64>;

fn latency(own: &OwnTraffic, day: &Day) -> Figure {
    let mut table = Table::new([
        "from_seconds",
        "latency_min_us",
        "latency_mean_us",
        "latency_p99_us",
        "click_latency_mean_us",
        "core_changes",
    ]);
    for (report, click) in day.reports[2].intervals.iter().zip(&day.reports[0].intervals) {
        table.numbers([
            report.from_seconds,
            micros(report.latency_min_seconds),
            micros(report.latency_mean_seconds),
            micros(report.latency_p99_seconds),
            micros(click.latency_mean_seconds),
            report.core_changes as f64,
        ]);
    }
    let mut chart = Chart::new("Latency, ipv4", time(), Axis::new("latency (µs)").from_zero());
    let each: [(&str, OfReport); 3] = [
        ("minimum", |report| report.latency_min_seconds),
        ("mean", |report| report.latency_mean_seconds),
        ("99th percentile", |report| report.latency_p99_seconds),
    ];
    for (name, of) in each {
        let points = day.reports[2].intervals.iter();
        let points = points.map(|report| (middle(report), micros(of(report))));
        chart = chart.series(name, Mark::Line, points);
    }
    figure("fig16", "Figure 16: latency", own, table, vec![chart])
}

/// Makes a figure with a row for each case: its name, and [`WHOLE`].
pub(super) fn compared(
    inputs: &Inputs,
    own: &OwnTraffic,
    (id, title): (&'static str, &str),
    cases: &[(String, Case<'_>)],
) -> Result<Vec<Figure>, ReproduceError> {
    let all: Vec<Case<'_>> = cases.iter().map(|(_, case)| case.clone()).collect();
    let days = days(inputs, own, &all)?;
    let mut table = Table::new(["case"]);
    table.columns.extend(WHOLE.map(str::to_owned));
    for ((name, _), day) in cases.iter().zip(&days) {
        let numbers = whole(day).map(|number| format!("{number:.4}"));
        table.rows.push([name.clone()].into_iter().chain(numbers).collect());
    }
    let mut chart = Chart::new(
        "Power by row of the table",
        Axis::new("row"),
        Axis::new("power (W)").from_zero(),
    );
    for (policy, (_, name)) in POLICIES.iter().enumerate() {
        let watts = days
            .iter()
            .enumerate()
            .map(|(row, day)| (row as f64 + 1.0, day.reports[policy].power_watts));
        chart = chart.series(*name, Mark::Points, watts);
    }
    Ok(vec![figure(id, title, own, table, vec![chart])])
}

/// Makes a figure of power over load: a point for each interval.
pub(super) fn over_load(
    inputs: &Inputs,
    own: &OwnTraffic,
    (id, title): (&'static str, &str),
) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let days = days(inputs, own, &[Case::new(&server, Application::Ipv4)])?;
    let day = &days[0];
    let loaded = LoadedServer {
        model: &server,
        cost: cost(&server, Application::Ipv4, bytes(own))?,
        frame_bytes: bytes(own).into(),
    };
    let mut table = Table::new([
        "from_seconds",
        "offered_mpps",
        "click_watts",
        "napi_watts",
        "powersave_watts",
        "optimal_watts",
    ]);
    let mut points: [Vec<(f64, f64)>; 4] = Default::default();
    for (index, report) in day.reports[2].intervals.iter().enumerate() {
        let rate = PacketsPerSecond(report.offered_rate_pps);
        let [click, napi, powersave] =
            [0, 1, 2].map(|it| day.reports[it].intervals[index].power_watts);
        // No point carries more than the server's capacity.
        let best = cheapest(&loaded, rate, None).map_or(f64::NAN, |best| best.power.0);
        table.numbers([report.from_seconds, rate.mpps(), click, napi, powersave, best]);
        for (points, watts) in points.iter_mut().zip([click, napi, powersave, best]) {
            points.push((rate.mpps(), watts));
        }
    }
    let mut chart = Chart::new(
        "Power over load",
        Axis::new("offered load (Mpps)").from_zero(),
        Axis::new("power (W)").from_zero(),
    );
    for (name, points) in ["Click", "NAPI-Click", "PowerSave", "optimal"].into_iter().zip(points) {
        chart = chart.series(
            name,
            Mark::Points,
            points.into_iter().filter(|(_, watts)| watts.is_finite()),
        );
    }
    Ok(vec![figure(id, title, own, table, vec![chart])])
}
