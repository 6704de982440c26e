//! The result as a table in a terminal.

use super::Report;
use std::io::{self, Write};

/// Writes it.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let description = &report.description;
    writeln!(out, "device: {}", description.device)?;
    writeln!(out, "power: {}", description.power_from)?;
    writeln!(
        out,
        "frames {}, {} ports; stabilisation {} s, measurement {} s ({} time), {}",
        description.frames,
        description.ports,
        description.stabilisation_seconds,
        description.measurement_seconds,
        description.time,
        description.averaging
    )?;
    for note in &description.notes {
        writeln!(out, "note: {note}")?;
    }
    writeln!(
        out,
        "\n{:<14}{:>14}{:>14}{:>10}{:>10}  {:<10} accuracy",
        "load", "forwarded Mpps", "Gbit/s", "lost", "W", "source"
    )?;
    for step in &report.steps {
        let reading = &step.reading;
        writeln!(
            out,
            "{:<14}{:>14.4}{:>14.4}{:>10}{:>10.2}  {:<10} {}",
            step.name,
            reading.forwarded_rate_pps / 1e6,
            reading.forwarded_rate_bps / 1e9,
            reading.lost_packets,
            reading.power_watts,
            reading.source,
            reading.accuracy
        )?;
    }
    writeln!(out, "\n{}", verdict(report))?;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    writeln!(
        out,
        "proportionality index {} (1: in proportion to the load, 0: always the same); dynamic range {}",
        number(report.proportionality_index),
        number(report.dynamic_range_ratio)
    )
}

/// The ratio in a sentence.
pub(super) fn verdict(report: &Report) -> String {
    let weights: Vec<_> = report
        .loads
        .iter()
        .map(|load| format!("{} at {:.0} %", load.weight, load.share * 100.0))
        .collect();
    match (report.eer_bps_per_watt, &report.void) {
        (Some(ratio), _) => format!(
            "EER {:.3} Mbit/s per W ({}: {})",
            ratio / 1e6,
            report.class.words(),
            weights.join(", ")
        ),
        (None, Some(why)) => format!("EER void: {why}"),
        (None, None) => "EER: no power was read".to_owned(),
    }
}
