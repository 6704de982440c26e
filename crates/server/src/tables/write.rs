//! Writes tables as text.

use super::{ProfilePoint, ProfileTables};
use std::fmt::Write as _;

/// Names of the columns.
pub(super) const COLUMNS: [&str; 5] =
    ["load_rps", "frequency_ghz", "period_us", "latency_us", "power_watts"];
/// Word for the latency of a load that was not sustained.
pub(super) const SATURATED: &str = "saturated";
/// Word for a period that the driver chose.
pub(super) const DEFAULT: &str = "default";
/// Word for a power that was not measured.
pub(super) const UNKNOWN: &str = "unknown";

impl ProfileTables {
    /// Returns the text form, which [`Self::parse`] reads.
    pub fn to_text(&self) -> String {
        let conditions = &self.conditions;
        let machine = &conditions.machine;
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = writeln!(text, "# version = {}", conditions.version);
        for (key, value) in [
            ("server", &conditions.server),
            ("workload", &conditions.workload),
            ("source", &conditions.source),
        ] {
            let _ = writeln!(text, "# {key} = {}", quoted(value));
        }
        let _ = writeln!(text, "# percentile = {:?}", conditions.percentile);
        let _ = writeln!(text, "# machine.cores = {}", machine.cores);
        let _ = writeln!(text, "# machine.frequencies_ghz = {:?}", machine.frequencies_ghz);
        let _ = writeln!(text, "# machine.moderation_us = {:?}", machine.moderation());
        if !machine.hardware.is_empty() {
            let parts: Vec<String> = machine.hardware.iter().map(|part| quoted(part)).collect();
            let _ = writeln!(text, "# machine.hardware = [{}]", parts.join(", "));
        }
        if !conditions.arrivals_per_request.is_empty() {
            let ratios = &conditions.arrivals_per_request;
            let _ = writeln!(text, "# arrivals_per_request = {ratios:?}");
        }
        if let Some(energy) = &conditions.energy {
            let _ = writeln!(text, "# energy = {}", quoted(energy));
        }
        let _ = writeln!(text, "{}", COLUMNS.join(","));
        for (load, rate) in self.loads.iter().enumerate() {
            if let Some(point) = self.default_point(load) {
                let fastest = self.frequencies.last().map_or(0.0, |f| f.gigahertz());
                row(&mut text, *rate, fastest, DEFAULT, point);
            }
            for (frequency, hertz) in self.frequencies.iter().enumerate() {
                for (period, span) in self.periods.iter().enumerate() {
                    if let Some(point) = self.point(load, frequency, period) {
                        let micros = (span.as_picos() as f64 / 1e6).to_string();
                        row(&mut text, *rate, hertz.gigahertz(), &micros, point);
                    }
                }
            }
        }
        text
    }
}

/// Formats any text as a TOML string on one line.
fn quoted(value: &str) -> String {
    let mut text = String::from('"');
    for letter in value.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

fn row(text: &mut String, rate: f64, gigahertz: f64, period: &str, point: ProfilePoint) {
    let latency = if point.latency_seconds.is_finite() {
        (point.latency_seconds * 1e6).to_string()
    } else {
        SATURATED.to_owned()
    };
    let power = match point.power_watts {
        known if known.is_finite() => known.to_string(),
        _ => UNKNOWN.to_owned(),
    };
    let _ = writeln!(text, "{rate},{gigahertz},{period},{latency},{power}");
}
