//! The result as a page that needs nothing from elsewhere.

use super::report::{OfLength, Report};
use super::show::{cell, compliance, throughput};
use wattline_report::escape;
use wattline_report::page::{self, put};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_units::Build;

/// The page.
pub fn html(report: &Report) -> String {
    let title = format!("RFC 2544: {}", report.conditions.device_words);
    let mut page = page::begin(&title);
    put(&mut page, format_args!("<h1>{}</h1>\n", escape(&title)));
    put(&mut page, format_args!("<p><strong>{}</strong></p>\n", escape(&verdict(report))));
    put(&mut page, format_args!("<p>Compliance: {}</p>\n<ul>\n", escape(&compliance(report))));
    for deviation in &report.deviations {
        put(&mut page, format_args!("<li>{}</li>\n", escape(deviation)));
    }
    page.push_str("</ul>\n");
    overview(&mut page, report);
    for length in &report.lengths {
        length_section(&mut page, length);
    }
    conditions(&mut page, report);
    page::end(&mut page);
    page
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

/// Warns about a throughput during whose trials the generator mostly failed.
pub(super) fn mostly_unsound(length: &OfLength) -> Option<String> {
    let trials = &length.throughput.trials;
    let unsound = trials.iter().filter(|trial| !trial.soundness.is_sound()).count();
    (unsound * 2 > trials.len()).then(|| {
        format!(
            " The generator failed in {unsound} of {} trials of the search: repeat on a quiet machine.",
            trials.len()
        )
    })
}

fn overview(page: &mut String, report: &Report) {
    page.push_str("<h2 id=\"overview\">All frame lengths</h2>\n");
    page::table(
        page,
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
    page.push_str(
        "<p>The generator's limit is what it sends and receives without loss when no \
         device is in between; ≥ says that the device may be faster than that. Latencies are those \
         at the throughput, from sending to reading, with what the generator adds by itself.</p>\n",
    );
    let of = |figure: fn(&OfLength) -> Option<f64>| {
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
        put(page, format_args!("<div class=\"plots\">{}</div>\n", rates.svg()));
    }
}

/// The part of one frame length.
pub(super) fn length_section(page: &mut String, length: &OfLength) {
    let name = escape(&length.frames);
    put(page, format_args!("<h2 id=\"f-{name}\">Frames: {name}</h2>\n<div class=\"plots\">"));
    let loss = Chart::new(
        "Frame loss (section 26.3)",
        Axis::new("offered, Mpps").from_zero(),
        Axis::new("lost, %").from_zero(),
    )
    .series("loss", Mark::LineAndPoints, lost(length, true));
    // What the generator failed at is no point of the device's line.
    let unsound = lost(length, false);
    let loss = match unsound.is_empty() {
        true => loss,
        false => loss.series("not sound", Mark::Points, unsound),
    };
    page.push_str(&loss.svg());
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
    if !length.latency.is_empty() {
        page.push_str(&latency.svg());
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
    page.push_str(&search.svg());
    page.push_str("</div>\n<details><summary>Loss and latency as tables</summary>\n");
    page::table(
        page,
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
    page::table(
        page,
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
    page.push_str("</details>\n<details><summary>Every trial of the search</summary>\n");
    page::table(
        page,
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
    page.push_str("</details>\n");
    if let Some(burst) = &length.back_to_back {
        put(
            page,
            format_args!(
                "<p>Back-to-back frames (section 26.4, RFC 9004): {:.0} at {:.3} Mpps{}.</p>\n",
                burst.frames,
                burst.burst_rate_pps / 1e6,
                if burst.limited_by_generator { ", no longer burst was sent" } else { "" }
            ),
        );
    }
}

fn conditions(page: &mut String, report: &Report) {
    page.push_str("<h2 id=\"conditions\">Conditions</h2>\n");
    let conditions = &report.conditions;
    page::table(
        page,
        ["what", "value"],
        [
            ["device", conditions.device_words.as_str()],
            ["links", conditions.links.as_str()],
            ["placement", conditions.placement.as_str()],
            ["frames", conditions.ways.as_str()],
            ["zero-copy", if conditions.zero_copy { "yes" } else { "no" }],
            ["queues", &conditions.queues.to_string()],
            ["flows", &report.flows.to_string()],
            ["machine", &report.machine.text()],
            ["date", &report.machine.date],
            ["Wattline", &Build::default().to_string()],
            ["length of the run, s", &format!("{:.0}", report.run_seconds)],
        ]
        .map(|row| row.map(str::to_owned))
        .into_iter(),
    );
    page.push_str(
        "<p>A trial is sound where the generator sent at least 99 % of what was asked for and its \
         receiver lost nothing by itself. Trials that are not are repeated twice, and never count as \
         loss of the device; of those for latency and frame loss, the last one is shown, with the \
         reason.</p>\n",
    );
}

/// Loss in percent over the load in Mpps, the lowest load first, of trials that are sound or not.
fn lost(length: &OfLength, sound: bool) -> Vec<(f64, f64)> {
    let of = length.frame_loss.iter().rev().filter(|at| at.soundness.is_sound() == sound);
    of.map(|at| (at.load_pps / 1e6, at.loss_ratio * 100.0)).collect()
}
