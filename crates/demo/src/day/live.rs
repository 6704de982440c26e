//! Progress display while a day runs, on standard error so that results can be piped: a small panel
//! on a terminal, otherwise an occasional line.

use super::settings::{INTERVALS, Settings};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal;
use wattline_governor::account::Interval;
use wattline_policy::PolicySpec;
use wattline_report::sparkline;

/// Width of a curve in characters.
const WIDTH: usize = 50;
/// Number of intervals between two lines, without a terminal.
const LINE_EVERY: usize = 10;

/// Display of one day.
pub(super) struct Live {
    policy: String,
    cores: usize,
    top_hertz: f64,
    /// Panel on the terminal; `None` without a terminal.
    panel: Option<ProgressBar>,
    seen: Seen,
}

/// Values of the curves, by interval.
#[derive(Default)]
struct Seen {
    offered: Vec<f64>,
    cores: Vec<f64>,
    hertz: Vec<f64>,
    watts: Vec<f64>,
    latency: Vec<f64>,
    dropped: u64,
}

impl Live {
    pub fn new(policy: &PolicySpec, settings: &Settings) -> Self {
        let panel = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(INTERVALS);
            if let Ok(style) =
                ProgressStyle::with_template("{prefix:.bold}  {bar:40}  {elapsed}\n{msg}")
            {
                bar.set_style(style);
            }
            bar.with_prefix(format!("a day under {policy}"))
        });
        if panel.is_none() {
            eprintln!("a day under {policy}: some {} s", settings.duration.as_secs());
        }
        Self {
            policy: policy.to_string(),
            cores: wattline_cores::platform_of(&settings.server).cores,
            top_hertz: settings.server.processor.highest_frequency().0,
            panel,
            seen: Seen::default(),
        }
    }

    /// Shows a finished interval.
    pub fn show(&mut self, interval: &Interval) {
        let seen = &mut self.seen;
        seen.offered.push(interval.offered_rate_pps);
        seen.cores.push(interval.cores_active_mean);
        seen.hertz.push(interval.frequency_mean_hertz);
        seen.watts.push(interval.power_watts.unwrap_or(f64::NAN));
        seen.latency.push(interval.latency.map_or(f64::NAN, |latency| latency.latency_p99_seconds));
        seen.dropped += interval.dropped_packets;
        if let Some(panel) = &self.panel {
            panel.set_message(self.panel_text(interval));
            panel.inc(1);
        } else if self.seen.offered.len().is_multiple_of(LINE_EVERY) {
            eprintln!("{}", self.line(interval));
        }
    }

    fn panel_text(&self, interval: &Interval) -> String {
        let seen = &self.seen;
        let watts = interval.power_watts.map_or("-".to_owned(), |watts| format!("{watts:.1} W"));
        let micros = |seconds: f64| format!("{:.1} µs", seconds * 1e6);
        let (p50, p99) = interval.latency.map_or(("-".into(), "-".into()), |latency| {
            (micros(latency.latency_p50_seconds), micros(latency.latency_p99_seconds))
        });
        let mpps = |rate: f64| format!("{:.2} Mpps", rate / 1e6);
        let rows = [
            ("offered", mpps(interval.offered_rate_pps), sparkline(&seen.offered, WIDTH, None)),
            (
                "forwarded",
                mpps(interval.forwarded_rate_pps),
                format!("lost so far: {}", seen.dropped),
            ),
            (
                "active cores",
                format!("{:.1} of {}", interval.cores_active_mean, self.cores),
                sparkline(&seen.cores, WIDTH, Some(self.cores as f64)),
            ),
            (
                "frequency",
                format!("{:.2} GHz", interval.frequency_mean_hertz / 1e9),
                sparkline(&seen.hertz, WIDTH, Some(self.top_hertz)),
            ),
            ("power", format!("{watts} {}", interval.source), sparkline(&seen.watts, WIDTH, None)),
            ("latency p50", p50, String::new()),
            ("latency p99", p99, sparkline(&seen.latency, WIDTH, None)),
        ];
        let mut text = String::new();
        for (name, value, curve) in rows {
            // Writing into a string does not fail.
            let _ = writeln!(text, "  {name:<13}{value:>18}  {curve}");
        }
        text.push_str("  (model time and model rates)");
        text
    }

    fn line(&self, interval: &Interval) -> String {
        let hours = 24.0 * self.seen.offered.len() as f64 / INTERVALS as f64;
        let p99 = interval.latency.map_or(f64::NAN, |latency| latency.latency_p99_seconds * 1e6);
        format!(
            "  {:<12} {hours:>5.1} h: {:.2} Mpps in, {:.2} out, {} lost; {:.1} cores, {:.2} GHz; {:.1} W \
             ({}); p99 {p99:.1} µs",
            self.policy,
            interval.offered_rate_pps / 1e6,
            interval.forwarded_rate_pps / 1e6,
            self.seen.dropped,
            interval.cores_active_mean,
            interval.frequency_mean_hertz / 1e9,
            interval.power_watts.unwrap_or(f64::NAN),
            interval.source,
        )
    }
}

/// Removes the panel, since a table follows.
impl Drop for Live {
    fn drop(&mut self) {
        if let Some(panel) = &self.panel {
            panel.finish_and_clear();
        }
    }
}
