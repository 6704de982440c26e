//! The result as a table in a terminal.

use super::{Report, remarks};
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
    for note in description.notes.iter().chain(&remarks::of(report)) {
        writeln!(out, "note: {note}")?;
    }
    writeln!(
        out,
        "\n{:<12}{:>14}{:>9}{:>8}{:>8}{:>8}{:>7}{:>6}{:>7}{:>8}  {:<9} accuracy",
        "load",
        "forwarded Mpps",
        "Gbit/s",
        "lost",
        "queued",
        "W",
        "cores",
        "GHz",
        "awake",
        "changes",
        "source"
    )?;
    for step in &report.steps {
        let reading = &step.reading;
        let of = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
        };
        let (state, processor) = (reading.state, reading.processor);
        let awake = state.map(|state| state.awake_ratio);
        let disturbed = reading.disturbed_because.as_ref();
        writeln!(
            out,
            "{:<12}{:>14.4}{:>9.3}{:>8}{:>8}{:>8.2}{:>7}{:>6}{:>7}{:>8}  {:<9} {}{}",
            step.name,
            reading.forwarded_rate_pps / 1e6,
            reading.forwarded_rate_bps / 1e9,
            reading.lost_packets,
            reading.queued_packets,
            reading.power_watts,
            of(state.map(|state| state.cores_active_mean), 1),
            of(state.map(|state| state.frequency_mean_hertz / 1e9), 2),
            of(awake.or(processor.map(|processor| processor.busy_ratio)), 3),
            of(state.map(|state| state.transitions as f64), 0),
            reading.source,
            reading.accuracy,
            disturbed.map_or_else(String::new, |why| format!("  disturbed: {why}"))
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
