//! Output for people: a live line, and a table at the end.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use wattline::output::note;
use wattline_requests::engine::{Interval, LoadOptions};
use wattline_requests::latency::TimesSummary;
use wattline_requests::{Report, Verdict};

type Figure = fn(&TimesSummary) -> Option<f64>;

/// The figures of a distribution that are shown.
pub const TIMES: [(&str, Figure); 9] = [
    ("min", |times| times.min_seconds),
    ("mean", |times| times.mean_of_answered_seconds),
    ("p50", |times| times.p50_seconds),
    ("p90", |times| times.p90_seconds),
    ("p95", |times| times.p95_seconds),
    ("p99", |times| times.p99_seconds),
    ("p99.9", |times| times.p999_seconds),
    ("p99.99", |times| times.p9999_seconds),
    ("max", |times| times.max_seconds),
];

/// The line that follows the load, on a terminal only.
pub struct LiveLine {
    bar: ProgressBar,
    interval_millis: u64,
}

impl LiveLine {
    /// For a load of that length.
    pub fn new(options: &LoadOptions) -> Self {
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(0);
        let bar = ProgressBar::new(millis(options.warmup + options.duration));
        let style = ProgressStyle::with_template("{wide_bar} {elapsed} {msg}");
        // The template is a constant that indicatif takes; without it, the bar looks otherwise.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message("connecting");
        Self { bar, interval_millis: millis(options.interval) }
    }

    /// Shows what happened in an interval.
    pub fn show(&self, interval: &Interval) {
        let start = (interval.start_seconds * 1e3) as u64;
        self.bar.set_position(start + self.interval_millis);
        self.bar.set_message(format!(
            "{}sent {}/s  served {}/s  p50 {}  p99 {}  failed {}",
            if interval.warmup { "warm-up  " } else { "" },
            count(interval.sent_rate_rps),
            count(interval.served_rate_rps),
            time(interval.latency_p50_seconds),
            time(interval.latency_p99_seconds),
            interval.failed_requests,
        ));
    }

    /// Says something beside the line.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| note!("{text}"));
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints a report.
pub fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let verdict = &report.verdict;
    writeln!(
        out,
        "{} {}: {} connections, depth {}, {} thread(s), {:.3} s measured after {:.3} s",
        report.protocol,
        report.targets.join(" "),
        report.connections,
        report.depth,
        report.generator.threads.len(),
        report.duration_seconds,
        report.warmup_seconds
    )?;
    for note in &verdict.notes {
        writeln!(out, "note: {note}")?;
    }
    if let Some(error) = report.first_protocol_error {
        writeln!(out, "note: the first answer that broke the protocol was {error}")?;
    }
    writeln!(out)?;
    writeln!(out, "{:<12} {:>14} {:>14}", "requests", "number", "per second")?;
    let length = report.duration_seconds.max(f64::MIN_POSITIVE);
    let held = held(verdict);
    let mut row = |name: &str, number: u64, rate: f64, more: &str| {
        writeln!(out, "{name:<12} {number:>14} {rate:>14.1}  {more}")
    };
    let per_second = |number: u64| number as f64 / length;
    row("asked", (verdict.asked_rate_rps * length).round() as u64, verdict.asked_rate_rps, "")?;
    row("due", report.due_requests, verdict.due_rate_rps, "")?;
    row("sent", report.sent_requests, verdict.sent_rate_rps, held)?;
    row("served", report.served_requests, verdict.served_rate_rps, "")?;
    if verdict.saturated {
        let answered = (verdict.answered_rate_rps * length).round() as u64;
        row("answered", answered, verdict.answered_rate_rps, "whenever due: the capacity found")?;
    }
    let failures = &report.failures;
    for (name, number) in [
        ("  misses", report.missed_requests),
        ("failed", report.failed_requests),
        ("  reset", failures.reset),
        ("  timeout", failures.timeout),
        ("  protocol", failures.protocol),
        ("  server", failures.server_error),
        ("  client", failures.client_error),
        ("  unsent", failures.unsent),
    ] {
        if number > 0 || name == "failed" {
            row(name, number, per_second(number), "")?;
        }
    }
    if report.failed_connects + report.reconnects > 0 {
        writeln!(
            out,
            "connections opened again: {}; attempts that failed: {}",
            report.reconnects, report.failed_connects
        )?;
    }
    if let Some(told) = &report.governor_reports {
        let (sent, failed) = (told.sent_reports, told.failed_reports);
        write!(out, "reports to the governor: {sent} sent, {failed} not taken")?;
        match &told.first_failure {
            Some(why) => writeln!(out, " (first: {why})")?,
            None => writeln!(out)?,
        }
    }
    writeln!(out)?;
    times(out, report)
}

fn times(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let generator = &report.generator;
    let columns = [&report.latency, &report.latency_from_sending, &generator.lateness];
    writeln!(out, "{:<12} {:>14} {:>14} {:>14}", "", "latency", "from sending", "sent late by")?;
    for (name, of) in TIMES {
        let [latency, sending, late] = columns.map(|times| time(of(times)));
        writeln!(out, "{name:<12} {latency:>14} {sending:>14} {late:>14}")?;
    }
    if report.failed_requests > 0 {
        writeln!(out, "-: not answered; requests that failed count as later than all others")?;
    }
    let busy: Vec<_> =
        generator.threads.iter().map(|one| format!("{:.0} %", 100.0 * one.busy_ratio)).collect();
    let cost = generator.cpu_per_request_seconds;
    let cost = cost.map_or(String::new(), |cost| format!(", {:.2} us a request", cost * 1e6));
    writeln!(
        out,
        "generator: threads busy {}; {:.2} s of processor time{cost}; event-loop turns p99 {}",
        busy.join(" "),
        generator.cpu_seconds,
        time(generator.turns.p99_seconds)
    )
}

/// Whether the rate was held, in words.
pub fn held(verdict: &Verdict) -> &'static str {
    match (verdict.rate_held, verdict.saturated) {
        (true, _) => "held within 1 %",
        (false, true) => "saturated",
        (false, false) => "exceeded: a backlog",
    }
}

/// A time with a unit that suits it.
pub fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".into(),
        Some(seconds) if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.3} s"),
    }
}

/// A rate in few characters.
pub fn count(rate: f64) -> String {
    match rate {
        rate if rate < 1e4 => format!("{rate:.0}"),
        rate if rate < 1e6 => format!("{:.1}k", rate / 1e3),
        rate => format!("{:.2}M", rate / 1e6),
    }
}
