//! The result of a load as a self-contained page.

use super::show::{TIMES, count, held, time};
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_requests::Report;
use wattline_requests::engine::Interval;
use wattline_requests::schedule::Arrivals;

/// Points of a line.
type Line = Vec<(f64, f64)>;

/// Returns the page of a report; `workload` describes the requests.
pub fn page(report: &Report, workload: &str) -> FigurePage {
    let title = format!("Load on {}", report.targets.join(" "));
    let mut page = FigurePage::titled(&title);
    outcome(&mut page, report, workload);
    page.heading("Latency");
    page.plots([distribution(report).svg()]);
    times(&mut page, report);
    page.heading("Over time");
    let (shown, left_out) = whole(&report.intervals);
    page.plots(course(shown).map(|chart| chart.svg()));
    if let Some(left_out) = left_out {
        page.text(&left_out);
    }
    page.heading("Requests");
    requests(&mut page, report);
    page.heading("Conditions");
    conditions(&mut page, report, workload);
    page
}

fn outcome(page: &mut FigurePage, report: &Report, workload: &str) {
    let verdict = &report.verdict;
    // With too many failures, there is no such time.
    let p = |of: Option<f64>| of.map_or("not answered".to_owned(), |seconds| time(Some(seconds)));
    page.strong(&format!(
        "{} requests a second intended, {} served: {}. 95th percentile {}, 99th {}; {} of {} requests \
         failed.",
        count(verdict.asked_rate_rps),
        count(verdict.served_rate_rps),
        held(verdict),
        p(report.latency.p95_seconds),
        p(report.latency.p99_seconds),
        report.failed_requests,
        report.due_requests,
    ));
    page.text(&format!(
        "{workload}. Latencies are measured, from the intended time of each request to its answer; \
         requests that failed count as later than all others."
    ));
    let broken = report.first_protocol_error;
    let broken = broken.map(|what| format!("the first answer that broke the protocol was {what}"));
    let capacity = verdict.saturated.then(|| {
        let rate = count(verdict.answered_rate_rps);
        format!("{rate} requests a second were answered, whenever due: the capacity found")
    });
    let governor = report.governor_reports.as_ref().map(|reported| {
        let first = reported.first_failure.as_ref().map(|why| format!(" (first: {why})"));
        let (sent, failed) = (reported.sent_reports, reported.failed_reports);
        format!(
            "reports to the governor: {sent} sent, {failed} not taken{}",
            first.unwrap_or_default()
        )
    });
    let notes = verdict.notes.iter().map(ToString::to_string);
    page.remarks(notes.chain(broken).chain(capacity).chain(governor));
}

/// Plots latency by the share of requests that took longer, which shows the tail.
fn distribution(report: &Report) -> Chart {
    let points = report.latency_curve.iter().filter(|point| point.quantile < 1.0);
    let line: Line = points
        .map(|point| (point.latency_seconds * 1e3, (1.0 - point.quantile) * 100.0))
        .filter(|(millis, share)| *millis > 0.0 && *share > 0.0)
        .collect();
    Chart::new(
        "Requests that took longer than a time",
        Axis::new("latency (ms), logarithmic").logarithmic(),
        Axis::new("share of requests (%)").logarithmic(),
    )
    .series("latency", Mark::Line, line)
}

/// Returns the intervals for plots over time, and a remark on the others. A short last interval,
/// with rates of a few requests, and the wait for the last answers would look like a drop.
fn whole(intervals: &[Interval]) -> (&[Interval], Option<String>) {
    let usual = intervals.first().map_or(0.0, |first| first.length_seconds);
    let is_whole = |one: &Interval| !one.after_end && one.length_seconds * 2.0 >= usual;
    let shown = intervals.iter().take_while(|one| is_whole(one)).count();
    let (shown, others) = intervals.split_at(shown);
    let during: f64 = others.iter().filter(|o| !o.after_end).map(|o| o.length_seconds).sum();
    let late = others.iter().filter(|one| one.after_end);
    let (served, failed) = late.fold((0.0, 0), |(served, failed), one| {
        (served + one.served_rate_rps * one.length_seconds, failed + one.failed_requests)
    });
    let mut said = Vec::new();
    if during > 0.0 {
        said.push(format!("the last {during:.3} s of the load, less than half an interval"));
    }
    if others.iter().any(|one| one.after_end) {
        said.push(format!(
            "answers after the end of the load to earlier requests: {served:.0} served, {failed} \
             failed"
        ));
    }
    let said = (!said.is_empty()).then(|| format!("Not in these plots: {}.", said.join("; ")));
    (shown, said)
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

fn times(page: &mut FigurePage, report: &Report) {
    let columns = [&report.latency, &report.latency_from_sending, &report.generator.lateness];
    let rows = TIMES.iter().map(|(name, of)| {
        let [latency, sending, late] = columns.map(|times| time(of(times)));
        [(*name).to_owned(), latency, sending, late]
    });
    page.table(["percentile", "latency", "from sending", "sent late by"], rows);
    page.text(
        "From sending: without the wait for a free connection; for comparison only. Sent late by: \
         delay of the generator itself; part of the latency.",
    );
}

fn requests(page: &mut FigurePage, report: &Report) {
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
    page.table(["requests", "number", "per second"], rows.into_iter().map(row));
}

fn conditions(page: &mut FigurePage, report: &Report, workload: &str) {
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
    page.values(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start_seconds: f64, length_seconds: f64, after_end: bool) -> Interval {
        Interval {
            start_seconds,
            length_seconds,
            warmup: false,
            after_end,
            sent_rate_rps: if after_end { 0.0 } else { 100.0 },
            served_rate_rps: if after_end { 3.0 } else { 100.0 },
            failed_requests: u64::from(after_end),
            latency_p50_seconds: Some(1e-3),
            latency_p99_seconds: Some(1e-3),
            latency_max_seconds: Some(1e-3),
        }
    }

    #[test]
    fn plots_over_time_end_with_the_load() {
        let all = [
            interval(0.0, 1.0, false),
            interval(1.0, 1.0, false),
            interval(2.0, 0.05, false),
            interval(3.0, 1.0, true),
        ];
        assert_eq!(whole(&all[..2]), (&all[..2], None));
        let (shown, said) = whole(&all);
        assert_eq!(shown, &all[..2]);
        assert_eq!(
            said.as_deref(),
            Some(
                "Not in these plots: the last 0.050 s of the load, less than half an interval; \
                 answers after the end of the load to earlier requests: 3 served, 1 failed."
            )
        );
        for chart in course(shown) {
            for series in &chart.series {
                assert!(series.points.iter().all(|(at, _)| *at < 2.0), "{series:?}");
            }
        }
        // A single short interval is shown.
        assert_eq!(whole(&all[2..3]), (&all[2..3], None));
    }
}
