//! Output for people: a live line, and formats of figures.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use wattline::output::note;
use wattline_requests::Verdict;
use wattline_requests::engine::{Interval, LoadOptions};
use wattline_requests::latency::TimesSummary;

type Figure = fn(&TimesSummary) -> Option<f64>;

/// Displayed figures of a distribution.
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

/// Returns a bar for a load of that length.
pub fn bar_of(length: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {elapsed} {msg}");
    // The template is a valid constant; otherwise the bar would have the default style.
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(millis(length)).with_style(style)
}

/// Returns a length as a position of such a bar.
pub fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Live line of the load, only on a terminal.
pub struct LiveLine {
    bar: ProgressBar,
    interval_millis: u64,
}

impl LiveLine {
    /// Creates the line for a load of that length.
    pub fn new(options: &LoadOptions) -> Self {
        let bar = bar_of(options.warmup + options.duration);
        bar.set_message("connecting");
        Self { bar, interval_millis: millis(options.interval) }
    }

    /// Shows the figures of an interval.
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

    /// Prints a warning without disturbing the line.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| note!("{text}"));
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Describes how well the rate was held.
pub fn held(verdict: &Verdict) -> &'static str {
    match (verdict.rate_held, verdict.saturated) {
        (true, _) => "held within 1 %",
        (false, true) => "saturated",
        (false, false) => "exceeded: a backlog",
    }
}

/// Formats a time with a suitable unit.
pub fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".into(),
        Some(seconds) if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.3} s"),
    }
}

/// Formats a rate in few characters.
pub fn count(rate: f64) -> String {
    match rate {
        rate if rate < 1e4 => format!("{rate:.0}"),
        rate if rate < 1e6 => format!("{:.1}k", rate / 1e3),
        rate => format!("{:.2}M", rate / 1e6),
    }
}
