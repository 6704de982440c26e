//! The result as a self-contained page.

use super::report::{LengthResults, Report};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::columns::cell;
use wattline_report::plot::{Axis, Chart, Mark};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let conditions = &report.conditions;
    let title = format!("RFC 2544: {}", conditions.device_words);
    let mut page = FigurePage::begin(&title, &verdict(report));
    page.text(&format!("Compliance: {}", compliance(report)));
    page.remarks(report.deviations.iter().cloned());
    overview(&mut page, report);
    for length in &report.lengths {
        length_section(&mut page, length);
    }
    page.heading("Soundness");
    page.text(
        "A trial is sound if the generator sent at least 99 % of the requested load and its \
         receiver lost nothing. Unsound trials are repeated twice, and never count as loss of the \
         device; for latency and frame loss, the last one is shown, with the reason.",
    );
    let how = [
        ("device", conditions.device_words.clone()),
        ("links", conditions.links.clone()),
        ("placement", conditions.placement.clone()),
        ("frames", conditions.ways.clone()),
        ("zero-copy", if conditions.zero_copy { "yes" } else { "no" }.to_owned()),
        ("queues", conditions.queues.to_string()),
        ("flows", report.flows.to_string()),
        ("length of the run, s", format!("{:.0}", report.run_seconds)),
    ];
    figure_page::end(page, &how, None)
}

fn verdict(report: &Report) -> String {
    let shortest = report.lengths.first();
    let found = shortest.map(|length| match length.throughput.conditional_throughput_pps {
        Some(pps) => format!(
            "Throughput with frames of {} bytes: {}{:.3} million packets per second.",
            length.frames,
            if length.throughput.limited_by_generator { "at least " } else { "" },
            pps / 1e6
        ),
        None => format!("No load without loss was found with frames of {} bytes.", length.frames),
    });
    let found = found.unwrap_or_else(|| "Nothing was measured.".to_owned());
    format!("{found}{}", shortest.and_then(mostly_unsound).unwrap_or_default())
}

/// Returns a warning if the generator failed in most trials of the search.
pub(super) fn mostly_unsound(length: &LengthResults) -> Option<String> {
    let trials = &length.throughput.trials;
    let unsound = trials.iter().filter(|trial| !trial.soundness.is_sound()).count();
    (unsound * 2 > trials.len()).then(|| {
        format!(
            " The generator failed in {unsound} of {} trials of the search: repeat on a quiet machine.",
            trials.len()
        )
    })
}

fn overview(page: &mut FigurePage, report: &Report) {
    page.heading("All frame lengths");
    page.table(
        [
            "frames, bytes",
            "generator's limit, Mpps",
            "throughput, Mpps",
            "upper bound, Mpps",
            "on the wire, Gbit/s",
            "latency p50, µs",
            "p99, µs",
            "max, µs",
            "longest burst, frames",
            "corrected buffer, µs",
        ],
        report.lengths.iter().map(|length| {
            let latency = length.latency.first().map(|at| at.latency).unwrap_or_default();
            let micros = |seconds: Option<f64>| cell(seconds.map(|value| value * 1e6), 1);
            let mpps = |pps: Option<f64>| cell(pps.map(|value| value / 1e6), 3);
            let burst = length.back_to_back.as_ref();
            [
                length.frames.clone(),
                mpps(Some(length.limits.lossless_rate_pps)),
                throughput(length).replace(">= ", "≥ "),
                mpps(length.throughput.upper_bound_pps),
                cell(length.throughput_wire_bps.map(|bps| bps / 1e9), 3),
                micros(latency.p50_seconds),
                micros(latency.p99_seconds),
                micros(latency.max_seconds),
                cell(burst.map(|found| found.frames), 0),
                micros(burst.and_then(|found| found.corrected_buffer_seconds)),
            ]
        }),
    );
    page.text(
        "The generator's limit is its highest rate without loss on a link without a device; ≥ \
         marks devices that may be faster. Latencies are at the throughput, from sending to \
         reading, including the generator's own part.",
    );
    let of = |figure: fn(&LengthResults) -> Option<f64>| {
        let lengths = report.lengths.iter();
        lengths
            .filter(|length| length.frames.bytes().all(|byte| byte.is_ascii_digit()))
            .filter_map(move |length| Some((length.frame_mean_bytes, figure(length)?)))
            .collect::<Vec<_>>()
    };
    let rates = Chart::new(
        "Throughput over frame length",
        Axis::new("frame, bytes"),
        Axis::new("Mpps").from_zero(),
    )
    .series(
        "throughput",
        Mark::LineAndPoints,
        of(|length| length.throughput.conditional_throughput_pps.map(|pps| pps / 1e6)),
    )
    .series(
        "generator's limit",
        Mark::LineAndPoints,
        of(|length| Some(length.limits.lossless_rate_pps / 1e6)),
    );
    // A mix has no place on the axis of lengths, and a single point is no curve.
    if of(|length| Some(length.frame_mean_bytes)).len() > 1 {
        page.plots([rates.svg()]);
    }
}

/// Adds the section of one frame length.
pub(super) fn length_section(page: &mut FigurePage, length: &LengthResults) {
    page.heading(&format!("Frames: {}", length.frames));
    let loss = Chart::new(
        "Frame loss (section 26.3)",
        Axis::new("offered, Mpps").from_zero(),
        Axis::new("lost, %").from_zero(),
    )
    .series("loss", Mark::LineAndPoints, lost(length, true));
    // Trials in which the generator failed are not part of the device's line.
    let unsound = lost(length, false);
    let loss = match unsound.is_empty() {
        true => loss,
        false => loss.series("not sound", Mark::Points, unsound),
    };
    let mut latency = Chart::new(
        "Latency distribution",
        Axis::new("latency, µs").logarithmic(),
        Axis::new("share of packets, %").from_zero(),
    );
    for at in &length.latency {
        let points = at.curve.iter().map(|(share, seconds)| (seconds * 1e6, share * 100.0));
        let name = format!("{:.0} % of the throughput", at.share * 100.0);
        latency = latency.series(name, Mark::Line, points);
    }
    let trials = length.throughput.trials.iter().enumerate();
    let search =
        Chart::new("The search", Axis::new("trial").from_zero(), Axis::new("Mpps").from_zero())
            .series(
                "intended load",
                Mark::LineAndPoints,
                trials.clone().map(|(number, trial)| (number as f64 + 1.0, trial.load_pps / 1e6)),
            )
            .series(
                "forwarded",
                Mark::Points,
                trials
                    .map(|(number, trial)| (number as f64 + 1.0, trial.forwarding_rate_pps / 1e6)),
            );
    let latency = (!length.latency.is_empty()).then(|| latency.svg());
    page.plots([loss.svg()].into_iter().chain(latency).chain([search.svg()]));
    page.remarks(unsound_trials(length));
    page.details("Loss and latency as tables", |page| loss_and_latency(page, length));
    page.details("Every trial of the search", |page| trials_of(page, length));
    if let Some(burst) = &length.back_to_back {
        page.text(&format!(
            "Back-to-back frames (section 26.4, RFC 9004): {:.0} at {:.3} Mpps{}.",
            burst.frames,
            burst.burst_rate_pps / 1e6,
            if burst.limited_by_generator { ", no longer burst was sent" } else { "" }
        ));
    }
}

/// Returns a line for each trial whose figures say nothing about the device, with the reason.
fn unsound_trials(length: &LengthResults) -> Vec<String> {
    let latency = length.latency.iter().map(|at| ("latency", at.load_pps, &at.soundness));
    let loss = length.frame_loss.iter().map(|at| ("frame loss", at.load_pps, &at.soundness));
    let mut lines: Vec<String> = latency
        .chain(loss)
        .filter_map(|(test, load_pps, soundness)| {
            let why = soundness.unsound_reason()?;
            Some(format!("not sound: {test} at {:.3} Mpps: {why}", load_pps / 1e6))
        })
        .collect();
    let trials = &length.throughput.trials;
    let mut whys = trials.iter().filter_map(|trial| trial.soundness.unsound_reason());
    if let Some(first) = whys.next() {
        let (number, all) = (whys.count() + 1, trials.len());
        lines.push(format!(
            "not sound: {number} of {all} trials of the search, the first of them: {first}"
        ));
    }
    lines
}

fn loss_and_latency(page: &mut FigurePage, length: &LengthResults) {
    page.table(
        [
            "offered, Mpps",
            "of the limit",
            "lost, %",
            "forwarded, Mpps",
            "reordered",
            "doubled",
            "sound",
        ],
        length.frame_loss.iter().map(|at| {
            [
                format!("{:.3}", at.load_pps / 1e6),
                format!("{:.0} %", at.share * 100.0),
                format!("{:.4}", at.loss_ratio * 100.0),
                format!("{:.3}", at.forwarding_rate_pps / 1e6),
                at.reordered_packets.to_string(),
                at.duplicated_packets.to_string(),
                at.soundness.to_string(),
            ]
        }),
    );
    page.table(
        ["load, Mpps", "min, µs", "mean", "p50", "p90", "p99", "p99.9", "max", "lost, %", "sound"],
        length.latency.iter().map(|at| {
            let micros = |seconds: Option<f64>| cell(seconds.map(|value| value * 1e6), 1);
            [
                format!("{:.3}", at.load_pps / 1e6),
                micros(at.latency.min_seconds),
                micros(at.latency.mean_seconds),
                micros(at.latency.p50_seconds),
                micros(at.latency.p90_seconds),
                micros(at.latency.p99_seconds),
                micros(at.latency.p999_seconds),
                micros(at.latency.max_seconds),
                format!("{:.4}", at.loss_ratio * 100.0),
                at.soundness.to_string(),
            ]
        }),
    );
}

fn trials_of(page: &mut FigurePage, length: &LengthResults) {
    page.table(
        ["trial", "load, Mpps", "length, s", "lost, %", "forwarded, Mpps", "sound"],
        length.throughput.trials.iter().enumerate().map(|(number, trial)| {
            [
                (number + 1).to_string(),
                format!("{:.4}", trial.load_pps / 1e6),
                format!("{:.3}", trial.duration_seconds),
                format!("{:.4}", trial.loss_ratio * 100.0),
                format!("{:.4}", trial.forwarding_rate_pps / 1e6),
                trial.soundness.to_string(),
            ]
        }),
    );
}

/// Returns loss in percent over load in Mpps, the lowest load first, of sound or unsound trials.
fn lost(length: &LengthResults, sound: bool) -> Vec<(f64, f64)> {
    let of = length.frame_loss.iter().rev().filter(|at| at.soundness.is_sound() == sound);
    of.map(|at| (at.load_pps / 1e6, at.loss_ratio * 100.0)).collect()
}

/// Returns one line about compliance with RFC 2544.
fn compliance(report: &Report) -> String {
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

/// Returns the throughput in Mpps.
fn throughput(length: &LengthResults) -> String {
    let found = &length.throughput;
    let sign = if found.limited_by_generator { ">= " } else { "" };
    let mpps = found.conditional_throughput_pps.map(|pps| format!("{sign}{:.3}", pps / 1e6));
    mpps.unwrap_or_else(|| "-".to_owned())
}
