//! The result of a load as a page that needs nothing from elsewhere.

use super::show::{TIMES, count, held, time};
use crate::exit::ExitError;
use crate::new_file::Overwrite;
use std::path::{Path, PathBuf};
use wattline_report::escape;
use wattline_report::page::{begin, end, put, table};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_requests::Report;
use wattline_requests::engine::Interval;
use wattline_requests::schedule::Arrivals;

/// The points of a line.
type Line = Vec<(f64, f64)>;

/// Where the page goes, if one is wanted.
#[derive(Debug, clap::Args)]
pub struct PageFile {
    /// Write a page with plots and all figures too.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl PageFile {
    /// Whether the page could be written: whoever misspelt the folder learns it before the load.
    ///
    /// # Errors
    /// When the folder is missing, or the file is there and is not to be replaced.
    pub fn check(&self) -> Result<(), ExitError> {
        let page = self.page.as_deref();
        let folder = page.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
        match folder.filter(|folder| !folder.is_dir()) {
            None => self.overwrite.check(page),
            Some(folder) => {
                let why = format!("--page: there is no folder {}; make it first", folder.display());
                Err(ExitError::new(ExitError::IO, why))
            }
        }
    }

    /// Writes the page of a report; `workload` says in words what was asked for.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, report: &Report, workload: &str) -> Result<(), ExitError> {
        match &self.page {
            Some(path) => self.overwrite.write(path, &html(report, workload)),
            None => Ok(()),
        }
    }
}

fn html(report: &Report, workload: &str) -> String {
    let title = format!("Load on {}", report.targets.join(" "));
    let mut page = begin(&title);
    put(&mut page, format_args!("<h1>{}</h1>\n", escape(&title)));
    outcome(&mut page, report, workload);
    page.push_str("<h2>Latency</h2>\n<div class=\"plots\">");
    page.push_str(&distribution(report).svg());
    page.push_str("</div>\n");
    times(&mut page, report);
    page.push_str("<h2>Over time</h2>\n<div class=\"plots\">");
    for chart in course(&report.intervals) {
        page.push_str(&chart.svg());
    }
    page.push_str("</div>\n<h2>Requests</h2>\n");
    requests(&mut page, report);
    page.push_str("<h2>How it was measured</h2>\n");
    conditions(&mut page, report, workload);
    end(&mut page);
    page
}

fn outcome(page: &mut String, report: &Report, workload: &str) {
    let verdict = &report.verdict;
    // With too many failures there is no such time.
    let p = |of: Option<f64>| of.map_or("not answered".to_owned(), |seconds| time(Some(seconds)));
    put(
        page,
        format_args!(
            "<p><strong>{} requests a second asked, {} served: {}. 95th percentile {}, 99th {}; {} of \
             {} requests failed.</strong></p>\n<p>{}. Latencies are measured, from the intended time \
             of each request to its answer; requests that failed count as later than all others.</p>\n",
            count(verdict.asked_rate_rps),
            count(verdict.served_rate_rps),
            held(verdict),
            p(report.latency.p95_seconds),
            p(report.latency.p99_seconds),
            report.failed_requests,
            report.due_requests,
            escape(workload),
        ),
    );
    let broken = report.first_protocol_error;
    let broken = broken.map(|what| format!("the first answer that broke the protocol was {what}"));
    let notes: Vec<String> = verdict.notes.iter().map(ToString::to_string).chain(broken).collect();
    if !notes.is_empty() {
        page.push_str("<ul>\n");
        for note in notes {
            put(page, format_args!("<li>{}</li>\n", escape(&note)));
        }
        page.push_str("</ul>\n");
    }
}

/// By the share of requests that took longer, so that the tail has its place.
fn distribution(report: &Report) -> Chart {
    let points = report.latency_curve.iter().filter(|point| point.quantile < 1.0);
    let line: Line = points
        .map(|point| (point.latency_seconds * 1e3, (1.0 - point.quantile) * 100.0))
        .filter(|(millis, share)| *millis > 0.0 && *share > 0.0)
        .collect();
    Chart::new(
        "Requests that took longer than a time",
        Axis::new("latency (ms), logarithmic").logarithmic(),
        Axis::new("of all requests (%)").logarithmic(),
    )
    .series("latency", Mark::Line, line)
}

fn course(intervals: &[Interval]) -> [Chart; 2] {
    let line = |of: &dyn Fn(&Interval) -> Option<f64>| -> Line {
        let point = |one: &Interval| Some((one.start_seconds, of(one)?));
        intervals.iter().filter_map(point).collect()
    };
    let millis = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
    let x = || Axis::new("since the begin, warm-up included (s)").from_zero();
    let latency = Chart::new("Latency", x(), Axis::new("ms").from_zero())
        .series(
            "99th percentile",
            Mark::LineAndPoints,
            line(&|one| millis(one.latency_p99_seconds)),
        )
        .series("median", Mark::LineAndPoints, line(&|one| millis(one.latency_p50_seconds)));
    let rates = Chart::new("Requests a second", x(), Axis::new("per second").from_zero())
        .series("sent", Mark::LineAndPoints, line(&|one| Some(one.sent_rate_rps)))
        .series("served", Mark::LineAndPoints, line(&|one| Some(one.served_rate_rps)))
        .series(
            "failed",
            Mark::LineAndPoints,
            line(&|one| {
                (one.length_seconds > 0.0).then(|| one.failed_requests as f64 / one.length_seconds)
            }),
        );
    [latency, rates]
}

fn times(page: &mut String, report: &Report) {
    let columns = [&report.latency, &report.latency_from_sending, &report.generator.lateness];
    let rows = TIMES.iter().map(|(name, of)| {
        let [latency, sending, late] = columns.map(|times| time(of(times)));
        [(*name).to_owned(), latency, sending, late]
    });
    table(page, ["percentile", "latency", "from sending", "sent late by"], rows);
    page.push_str(
        "<p>From sending: what a request waited for a free connection is not in it; for comparison \
         only. Sent late by: how late the generator itself was; part of the latency.</p>\n",
    );
}

fn requests(page: &mut String, report: &Report) {
    let failures = &report.failures;
    let length = report.duration_seconds.max(f64::MIN_POSITIVE);
    let rows = [
        ("due", report.due_requests),
        ("sent", report.sent_requests),
        ("served", report.served_requests),
        ("served: misses", report.missed_requests),
        ("failed", report.failed_requests),
        ("failed: reset", failures.reset),
        ("failed: timeout", failures.timeout),
        ("failed: protocol", failures.protocol),
        ("failed: server error", failures.server_error),
        ("failed: client error", failures.client_error),
        ("failed: unsent", failures.unsent),
    ];
    let row = |(name, number): (&str, u64)| {
        [name.to_owned(), number.to_string(), format!("{:.1}", number as f64 / length)]
    };
    table(page, ["requests", "number", "per second"], rows.into_iter().map(row));
}

fn conditions(page: &mut String, report: &Report, workload: &str) {
    let generator = &report.generator;
    let cost = generator.cpu_per_request_seconds;
    let busy: Vec<String> =
        generator.threads.iter().map(|one| format!("{:.0} %", 100.0 * one.busy_ratio)).collect();
    let seconds = |seconds: f64| format!("{seconds:.3} s");
    let arrivals = match report.arrivals {
        Arrivals::Constant => "one every 1/rate seconds",
        Arrivals::Poisson => "a Poisson process",
    };
    let rows = [
        ("protocol", report.protocol.to_owned()),
        ("targets", report.targets.join(" ")),
        ("workload", workload.to_owned()),
        ("arrivals", arrivals.to_owned()),
        ("seed", report.seed.to_string()),
        ("connections", report.connections.to_string()),
        ("requests under way per connection", report.depth.to_string()),
        ("measured", seconds(report.duration_seconds)),
        ("warm-up", seconds(report.warmup_seconds)),
        ("time-out", seconds(report.timeout_seconds)),
        ("connections opened again", report.reconnects.to_string()),
        ("attempts to connect that failed", report.failed_connects.to_string()),
        ("generator: threads busy", busy.join(" ")),
        ("generator: processor time", seconds(generator.cpu_seconds)),
        ("generator: processor time per request", time(cost)),
        ("generator: event-loop turns, 99th percentile", time(generator.turns.p99_seconds)),
    ];
    let row = |(name, value): (&str, String)| [name.to_owned(), value];
    table(page, ["what", "value"], rows.into_iter().map(row));
}
