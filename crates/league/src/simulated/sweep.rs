//! The page of many simulations side by side.

use super::begin;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_report::plot::{Axis, Bars, Chart, Mark};
use wattline_report::{FigurePage, Spread};
use wattline_server::Application;
use wattline_sim::Report;

/// Limits on the rows of a table and on the groups of plots, to keep a page below a megabyte.
const MOST_ROWS: usize = 800;
const MOST_GROUPS: usize = 24;
/// Limit on the lines of a plot.
const MOST_LINES: usize = 12;

/// A simulation and its report.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepRow {
    /// Name of the server model.
    pub server: String,
    /// Policy with its parameters.
    pub policy: String,
    /// Text of the traffic.
    pub traffic: String,
    /// Application that handles each packet.
    pub application: Application,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Results.
    #[serde(flatten)]
    pub report: Report,
    /// Results of equal parts of the time, for traffic that is the same for each seed; their means
    /// give the confidence interval.
    #[serde(skip)]
    pub parts: Vec<Report>,
}

/// The simulations of a sweep.
#[derive(Debug)]
pub struct Sweep<'a> {
    /// The simulations, in any order.
    pub rows: &'a [SweepRow],
    /// The command that reproduces the page.
    pub command: &'a str,
}

/// Simulations that differ only by seed.
struct Point<'a> {
    row: &'a SweepRow,
    reports: Vec<&'a Report>,
}

impl Point<'_> {
    /// Returns the mean of a quantity over the seeds, NaN if a report lacks it. The confidence
    /// interval is over the seeds, or over parts of the time if the seeds give the same packets
    /// (batch means).
    fn spread(&self, of: impl Fn(&Report) -> Option<f64>) -> Spread {
        let value = |report: &Report| of(report).unwrap_or(f64::NAN);
        let spread = Spread::of(self.reports.iter().map(|report| value(report)));
        if self.row.parts.is_empty() {
            return spread;
        }
        Spread { half: Spread::of(self.row.parts.iter().map(value)).half, ..spread }
    }

    fn mean(&self, of: impl Fn(&Report) -> Option<f64>) -> f64 {
        self.spread(of).mean
    }

    fn mpps(&self) -> f64 {
        self.mean(|report| Some(report.offered_rate_pps / 1e6))
    }

    fn watts(&self) -> Spread {
        self.spread(|report| Some(report.power_watts))
    }

    fn lost(&self) -> u64 {
        self.reports.iter().map(|report| report.dropped_packets).sum()
    }
}

/// A quantity that is plotted.
struct Quantity {
    title: &'static str,
    unit: &'static str,
    logarithmic: bool,
    of: fn(&Report) -> Option<f64>,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        title: "Power",
        unit: "power (W)",
        logarithmic: false,
        of: |it| Some(it.power_watts),
    },
    Quantity {
        title: "Latency, 99 % within",
        unit: "latency (µs)",
        logarithmic: true,
        of: |it| it.latency_p99_seconds.map(|seconds| seconds * 1e6),
    },
    Quantity {
        title: "Energy per packet",
        unit: "energy per packet (µJ)",
        logarithmic: false,
        of: |it| it.energy_per_packet_joules.map(|joules| joules * 1e6),
    },
    Quantity {
        title: "Lost packets",
        unit: "lost packets (%)",
        logarithmic: false,
        of: |it| Some(100.0 * it.dropped_packets as f64 / it.offered_packets.max(1) as f64),
    },
];

impl Sweep<'_> {
    /// Makes the page.
    pub fn page(&self) -> FigurePage {
        let points = self.points();
        let title = "Simulations side by side";
        let lossless = points.iter().filter(|point| point.lost() == 0).count();
        let outcome = format!(
            "{} simulations of {} cases, {lossless} of which lost no packet.",
            self.rows.len(),
            points.len()
        );
        let origin = self.rows.first().map(|row| (row.report.source, row.report.accuracy));
        let power = origin.map_or("unavailable".to_owned(), |(source, accuracy)| {
            format!("{source} (accuracy: {accuracy})")
        });
        let mut page = begin(title, &outcome, &power, &[]);
        least_power(&mut page, &points);
        plots(&mut page, &points);
        all(&mut page, &points);
        page.heading("Conditions");
        page.again(self.command);
        page
    }

    /// Returns the cases in order of first appearance.
    fn points(&self) -> Vec<Point<'_>> {
        let mut places = BTreeMap::new();
        let mut points: Vec<Point<'_>> = Vec::new();
        for row in self.rows {
            let key = (&*row.server, &*row.policy, &*row.traffic, row.application.name());
            let place = *places.entry(key).or_insert(points.len());
            match points.get_mut(place) {
                Some(point) => point.reports.push(&row.report),
                None => points.push(Point { row, reports: vec![&row.report] }),
            }
        }
        points
    }
}

/// Names the policy with the least power for each traffic without a lost packet.
fn least_power(page: &mut FigurePage, points: &[Point<'_>]) {
    let mut best: Vec<(&Point<'_>, usize)> = Vec::new();
    for point in points.iter().filter(|point| point.lost() == 0) {
        let same = |other: &&Point<'_>| {
            let (a, b) = (&other.row, &point.row);
            (&a.server, &a.traffic, a.application) == (&b.server, &b.traffic, b.application)
        };
        let known = best.iter_mut().find(|(other, _)| same(other));
        match known {
            Some((other, count)) => {
                *count += 1;
                if point.watts().mean < other.watts().mean {
                    *other = point;
                }
            }
            None => best.push((point, 1)),
        }
    }
    let compared: Vec<_> = best.into_iter().filter(|(_, count)| *count > 1).collect();
    if compared.is_empty() {
        return;
    }
    page.heading("Least power without a lost packet");
    let rows = compared.iter().take(MOST_ROWS).map(|(point, count)| {
        [
            point.row.traffic.clone(),
            point.row.server.clone(),
            point.row.application.to_string(),
            point.row.policy.clone(),
            with_interval(point.watts(), 2),
            cell(point.mean(QUANTITIES[1].of), 2),
            count.to_string(),
        ]
    });
    let heads = [
        "traffic",
        "server",
        "application",
        "policy",
        "power, W",
        "99 % within, µs",
        "of how many",
    ];
    page.table(heads, rows);
}

/// Splits traffic around its rate: `poisson` and `,size=64` of `poisson:5Mpps,size=64`.
fn kind(traffic: &str) -> (&str, &str) {
    let Some((name, rest)) = traffic.split_once(':') else { return (traffic, "") };
    (name, rest.find(',').map_or("", |at| &rest[at..]))
}

/// Server, application and kind of traffic of plots.
type Key<'a> = (&'a str, &'a str, (&'a str, &'a str));

/// Plots over the offered rate if a traffic has several rates, otherwise side by side.
fn plots(page: &mut FigurePage, points: &[Point<'_>]) {
    let mut groups: Vec<(Key<'_>, Vec<&Point<'_>>)> = Vec::new();
    for point in points {
        let row = &point.row;
        let key = (&*row.server, row.application.name(), kind(&row.traffic));
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(point),
            None => groups.push((key, vec![point])),
        }
    }
    page.heading("Plots");
    if groups.len() > MOST_GROUPS {
        page.text(&format!(
            "The first {MOST_GROUPS} of {} kinds of traffic, servers and applications; the table has all.",
            groups.len()
        ));
    }
    let mut shown = Vec::new();
    for ((server, application, (name, rest)), members) in groups.iter().take(MOST_GROUPS) {
        let group = format!("{name}{rest}, {application}, {server}");
        for quantity in &QUANTITIES {
            let values = members.iter().map(|point| point.mean(quantity.of));
            // Skips plots of zeros: the table shows that no packet was lost.
            if values.filter(|value| value.is_finite()).any(|value| value > 0.0) {
                shown.push(plot(quantity, &group, members));
            }
        }
    }
    page.plots(shown);
}

fn plot(quantity: &Quantity, group: &str, members: &[&Point<'_>]) -> String {
    let mut policies: Vec<&str> = Vec::new();
    let mut traffics: Vec<&str> = Vec::new();
    for point in members {
        for (list, text) in
            [(&mut policies, &*point.row.policy), (&mut traffics, &*point.row.traffic)]
        {
            if !list.contains(&text) {
                list.push(text);
            }
        }
    }
    let left_out = policies.len().saturating_sub(MOST_LINES);
    policies.truncate(MOST_LINES);
    let more = if left_out > 0 {
        format!(" ({left_out} policies more in the table)")
    } else {
        String::new()
    };
    let title = format!("{}: {group}{more}", quantity.title);
    if traffics.len() > 1 {
        let axis = Axis::new(quantity.unit);
        let axis = if quantity.logarithmic { axis.logarithmic() } else { axis.from_zero() };
        let chart = Chart::new(title, Axis::new("offered (Mpps)").from_zero(), axis);
        let line = |policy: &&str| {
            let own = members.iter().filter(|point| point.row.policy == *policy);
            let at = |point: &&Point<'_>| {
                let spread = point.spread(quantity.of);
                (point.mpps(), spread.mean, spread.half)
            };
            let mut line: Vec<(f64, f64, f64)> = own.map(at).collect();
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
            line
        };
        let mark = Mark::LineAndPoints;
        let with = |chart: Chart, policy: &&str| chart.uncertain(*policy, mark, line(policy));
        return policies.iter().fold(chart, with).svg();
    }
    let value = |policy: &&str| {
        let own = members.iter().find(|point| point.row.policy == *policy);
        own.map_or((f64::NAN, f64::NAN), |point| {
            let spread = point.spread(quantity.of);
            (spread.mean, spread.half)
        })
    };
    let bars = Bars::new(title, "traffic", Axis::new(quantity.unit), traffics);
    policies.iter().fold(bars, |bars, policy| bars.uncertain(*policy, [value(policy)])).svg()
}

fn all(page: &mut FigurePage, points: &[Point<'_>]) {
    page.heading("All cases");
    if points.len() > MOST_ROWS {
        page.text(&format!("The first {MOST_ROWS} of {}; --csv writes all.", points.len()));
    }
    if points.iter().any(|point| point.reports.len() > 1) {
        page.text("Means over the seeds; ± is half their 95 % confidence interval.");
    }
    let batches = points.iter().map(|point| point.row.parts.len()).max().unwrap_or(0);
    if batches > 0 {
        let text = format!(
            "Some traffic, such as captures, is the same for each seed: its ± is by batch means, of \
             {batches} equal parts of the time."
        );
        page.text(&text);
    }
    let beyond: u64 =
        points.iter().flat_map(|it| &it.reports).map(|it| it.beyond_link_packets).sum();
    if beyond > 0 {
        let text = format!("{beyond} packets were beyond the links' rate, and not offered.");
        page.text(&text);
    }
    let rows = points.iter().take(MOST_ROWS).map(|point| {
        let row = &point.row;
        let same = |it: &&Point<'_>| {
            (&it.row.traffic, it.row.application) == (&row.traffic, row.application)
        };
        let first = points.iter().find(same).map_or(f64::NAN, |first| first.watts().mean);
        [
            row.policy.clone(),
            row.traffic.clone(),
            row.server.clone(),
            row.application.to_string(),
            point.reports.len().to_string(),
            cell(point.mpps(), 4),
            cell(point.mean(|it| Some(it.forwarded_rate_pps / 1e6)), 4),
            point.lost().to_string(),
            cell(point.mean(|it| it.latency_p50_seconds.map(|seconds| seconds * 1e6)), 2),
            cell(point.mean(QUANTITIES[1].of), 2),
            with_interval(point.watts(), 2),
            cell(first - point.watts().mean, 2),
            cell(point.mean(QUANTITIES[2].of), 4),
            cell(point.mean(|it| Some(it.cores_active_mean)), 2),
        ]
    });
    let heads = [
        "policy",
        "traffic",
        "server",
        "application",
        "seeds",
        "offered, Mpps",
        "forwarded, Mpps",
        "lost, packets",
        "50 % within, µs",
        "99 % within, µs",
        "power, W",
        "saved beside the first, W",
        "per packet, µJ",
        "active cores",
    ];
    page.table(heads, rows);
}

fn cell(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "–".to_owned() }
}

fn with_interval(spread: Spread, digits: usize) -> String {
    let mean = cell(spread.mean, digits);
    match spread.half {
        half if half.is_finite() => format!("{mean} ± {}", cell(half, digits)),
        _ => mean,
    }
}
