//! The result as tables in a terminal.

use super::report::{OfLength, Report};
use std::io::{self, Write};

/// Writes it.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let conditions = &report.conditions;
    writeln!(out, "device: {}", conditions.device_words)?;
    writeln!(out, "links: {}", conditions.links)?;
    writeln!(out, "frames: {}", conditions.ways)?;
    writeln!(out, "placement: {}", conditions.placement)?;
    writeln!(out, "machine: {}", report.machine.text())?;
    writeln!(out, "{}", compliance(report))?;
    for deviation in &report.deviations {
        writeln!(out, "  {deviation}")?;
    }
    writeln!(
        out,
        "\n{:<10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12}",
        "frames", "limit", "throughput", "wire", "p50", "p99", "max", "most lost", "back-to-back"
    )?;
    writeln!(
        out,
        "{:<10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12}",
        "bytes", "Mpps", "Mpps", "Gbit/s", "us", "us", "us", "%", "frames"
    )?;
    for length in &report.lengths {
        let latency = length.latency.first().map(|at| at.latency);
        let micros = |of: Option<Option<f64>>| cell(of.flatten().map(|seconds| seconds * 1e6), 1);
        let worst = length.frame_loss.iter().map(|at| at.loss_ratio).fold(0.0, f64::max);
        writeln!(
            out,
            "{:<10} {:>10.3} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12}",
            length.frames,
            length.limits.lossless_rate_pps / 1e6,
            throughput(length),
            cell(length.throughput_wire_bps.map(|bps| bps / 1e9), 3),
            micros(latency.map(|latency| latency.p50_seconds)),
            micros(latency.map(|latency| latency.p99_seconds)),
            micros(latency.map(|latency| latency.max_seconds)),
            cell(Some(worst * 100.0), 3),
            cell(length.back_to_back.as_ref().map(|found| found.frames), 0),
        )?;
    }
    unsound(out, &report.lengths)?;
    writeln!(
        out,
        "limit: what the generator alone sends and receives without loss; >= : the device may be \
         faster than that.\nLatencies are those at the throughput, the generator's own included; \
         - : not found."
    )
}

/// A line for each trial whose figures say nothing about the device, with the reason.
pub(super) fn unsound(out: &mut impl Write, lengths: &[OfLength]) -> io::Result<()> {
    for length in lengths {
        let latency = length.latency.iter().map(|at| ("latency", at.load_pps, &at.soundness));
        let loss = length.frame_loss.iter().map(|at| ("frame loss", at.load_pps, &at.soundness));
        for (test, load_pps, soundness) in latency.chain(loss) {
            if let Some(why) = soundness.unsound_reason() {
                let (frames, mpps) = (&length.frames, load_pps / 1e6);
                writeln!(out, "not sound: {frames}, {test} at {mpps:.3} Mpps: {why}")?;
            }
        }
        let trials = &length.throughput.trials;
        let mut whys = trials.iter().filter_map(|trial| trial.soundness.unsound_reason());
        if let Some(first) = whys.next() {
            let (frames, number, all) = (&length.frames, whys.count() + 1, trials.len());
            writeln!(
                out,
                "not sound: {frames}, {number} of {all} trials of the search, the first of them: {first}"
            )?;
        }
    }
    Ok(())
}

/// One line about what the figures may be called.
pub(super) fn compliance(report: &Report) -> String {
    if report.is_compliant {
        "throughput: MLRsearch, compliant with RFC 2544 in trial length and loss".to_owned()
    } else {
        format!(
            "not compliant with RFC 2544: trials of {} s (MLRsearch, loss ratio {}, width {} %)",
            report.final_trial_seconds,
            report.loss_ratio_goal,
            report.width * 100.0
        )
    }
}

/// The throughput in Mpps.
pub(super) fn throughput(length: &OfLength) -> String {
    let found = &length.throughput;
    let sign = if found.limited_by_generator { ">= " } else { "" };
    let mpps = found.conditional_throughput_pps.map(|pps| format!("{sign}{:.3}", pps / 1e6));
    mpps.unwrap_or_else(|| "-".to_owned())
}

/// A number, or a dash for none.
pub(super) fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
