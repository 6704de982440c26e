//! Pages of simulations: of one ([`Simulation`]), of a server of requests ([`Requests`]), and of many
//! beside each other ([`Sweep`]).

mod one;
mod requests;
mod sweep;

pub use one::Simulation;
pub use requests::Requests;
pub use sweep::{Sweep, SweepRow};

use wattline_report::escape;
use wattline_report::page::{end, put, table};
use wattline_report::plot::{Axis, BarSeries, Bars};

/// Origin of every figure of these pages.
const ORIGIN: &str =
    "All figures are of the simulator and of the server's model; nothing here was measured.";

/// Head of a page: its title, what came out, where it comes from, and what stands in for something else.
fn head(page: &mut String, title: &str, outcome: &str, power: &str, notes: &[String]) {
    put(page, format_args!("<h1>{}</h1>\n", escape(title)));
    put(page, format_args!("<p><strong>{}</strong></p>\n", escape(outcome)));
    put(page, format_args!("<p>{ORIGIN} Power is {}.</p>\n", escape(power)));
    if !notes.is_empty() {
        page.push_str("<ul>\n");
        notes.iter().for_each(|note| put(page, format_args!("<li>{}</li>\n", escape(note))));
        page.push_str("</ul>\n");
    }
}

/// The command that gives the same again.
fn again(page: &mut String, command: &str) {
    put(page, format_args!("<p>Again: <code>{}</code></p>\n", escape(command)));
}

/// End of the page of one simulation: its conditions, and the command that gives the same again.
fn conclude(page: &mut String, conditions: &[[&str; 2]], command: &str) {
    page.push_str("<h2>Conditions</h2>\n");
    table(page, ["what", "value"], conditions.iter().map(|row| row.map(str::to_owned)));
    again(page, command);
    end(page);
}

/// One bar for each value, by name.
fn bars(title: &str, x_label: &str, y: &str, values: &[(String, f64)]) -> String {
    Bars {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y: Axis::new(y),
        groups: values.iter().map(|(name, _)| name.clone()).collect(),
        series: vec![BarSeries {
            name: y.to_owned(),
            values: values.iter().map(|(_, value)| *value).collect(),
            published: vec![None; values.len()],
        }],
        stacked: false,
        ordered: false,
        halves: Vec::new(),
        published: vec![None; values.len()],
    }
    .svg()
}

/// Percentiles of a latency in microseconds; those that are unknown are left out. `share` names what
/// the percentages are of.
fn latencies(share: &str, known: &[(&str, Option<f64>)]) -> Option<String> {
    let values: Vec<(String, f64)> = (known.iter())
        .filter_map(|(name, seconds)| Some(((*name).to_owned(), (*seconds)? * 1e6)))
        .collect();
    (!values.is_empty()).then(|| bars("Latency", share, "µs", &values))
}

/// Tabulates the states of each core, as shares of its time in percent: name of the state, value by
/// core.
fn cores(states: Vec<(String, Vec<f64>)>) -> String {
    let count = states.first().map_or(0, |(_, values)| values.len());
    Bars {
        title: "Time of each core".to_owned(),
        x_label: "core".to_owned(),
        y: Axis::new("share of time (%)").range(0.0, 108.0),
        groups: (0..count).map(|core| core.to_string()).collect(),
        series: (states.into_iter())
            .map(|(name, values)| {
                let values: Vec<f64> = values.iter().map(|share| share * 100.0).collect();
                BarSeries { name, published: vec![None; values.len()], values }
            })
            .collect(),
        stacked: true,
        ordered: false,
        halves: Vec::new(),
        published: vec![None; count],
    }
    .svg()
}

/// A time in microseconds, or a dash where it is unknown.
fn micros(seconds: Option<f64>) -> String {
    optional(seconds, 1e6, 2)
}

/// A value times `scale` with this many decimals, or a dash where it is unknown.
fn optional(value: Option<f64>, scale: f64, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.decimals$}", value * scale))
}
