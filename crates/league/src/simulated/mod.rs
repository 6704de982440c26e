//! Pages of simulations: of one ([`Simulation`]), of a server of requests ([`Requests`]), and of
//! many side by side ([`Sweep`]).

mod one;
mod requests;
mod sweep;

pub use one::Simulation;
pub use requests::Requests;
pub use sweep::{Sweep, SweepRow};

use wattline_governor::decisions::Decision;
use wattline_governor::ledger::Entry;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Origin of every figure of these pages.
const ORIGIN: &str =
    "All figures are of the simulator and of the server's model; nothing here was measured.";

/// Begins a page with its title, the outcome, the origin of its figures, and notes on substitutes.
fn begin(title: &str, outcome: &str, power: &str, notes: &[String]) -> FigurePage {
    let mut page = FigurePage::begin(title, outcome);
    page.text(&format!("{ORIGIN} Power is {power}."));
    page.remarks(notes);
    page
}

/// Ends the page of one simulation with its conditions and the command that reproduces it.
fn conclude(mut page: FigurePage, conditions: &[(&str, &str)], command: &str) -> FigurePage {
    page.heading("Conditions");
    page.values(conditions.iter().map(|(text, value)| (*text, (*value).to_owned())));
    page.again(command);
    page
}

/// Limit on the rows of decisions and of intervals, to keep pages small.
const MOST: usize = 300;

/// Appends the changes of the operating point, the last one first; nothing if there are none.
fn decisions(page: &mut FigurePage, changes: &[Decision]) {
    if changes.is_empty() {
        return;
    }
    page.heading("Decisions");
    if changes.len() > MOST {
        page.text(&format!("The last {MOST} of {} that are kept.", changes.len()));
    }
    let rows = changes.iter().rev().take(MOST).map(|change| {
        let text = change.to_string();
        let text = text.strip_suffix(&format!(": {}", change.reason)).unwrap_or(&text);
        [text.to_owned(), change.reason.clone(), format!("{:.6}", change.at_seconds)]
    });
    page.table(["became", "why", "at, s"], rows);
}

/// Returns a row for each knob: its steps, and how many were altered or failed.
fn steps(knobs: &[Entry]) -> impl Iterator<Item = [String; 2]> {
    knobs.iter().map(|knob| {
        let outcomes = format!("{}; {} altered, {} failed", knob.steps, knob.altered, knob.failed);
        [format!("steps, {}", knob.knob.name()), outcomes]
    })
}

/// Plots one bar for each value.
fn bars(title: &str, x_label: &str, y: &str, values: &[(String, f64)]) -> String {
    Bars::new(title, x_label, Axis::new(y), values.iter().map(|(name, _)| name))
        .series(y, values.iter().map(|(_, value)| *value))
        .svg()
}

/// Plots the known percentiles of a latency in microseconds. `share` names the base of the
/// percentages.
fn latencies(share: &str, known: &[(&str, Option<f64>)]) -> Option<String> {
    let values: Vec<(String, f64)> = (known.iter())
        .filter_map(|(name, seconds)| Some(((*name).to_owned(), (*seconds)? * 1e6)))
        .collect();
    (!values.is_empty()).then(|| bars("Latency", share, "µs", &values))
}

/// Plots the states of each core, as percentages of its time. Each state has a name and a value by
/// core.
fn cores(states: Vec<(String, Vec<f64>)>) -> String {
    let count = states.first().map_or(0, |(_, values)| values.len());
    let axis = Axis::new("share of time (%)").range(0.0, 108.0);
    let bars =
        Bars::new("Time of each core", "core", axis, (0..count).map(|core| core.to_string()));
    let add = |bars: Bars, (name, values): (String, Vec<f64>)| {
        bars.series(name, values.iter().map(|share| share * 100.0))
    };
    states.into_iter().fold(bars, add).stacked([]).svg()
}

/// Formats a time in microseconds, or a dash if it is unknown.
fn micros(seconds: Option<f64>) -> String {
    optional(seconds, 1e6, 2)
}

/// Formats a value times `scale` with this many decimals, or a dash if it is unknown.
fn optional(value: Option<f64>, scale: f64, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.decimals$}", value * scale))
}
