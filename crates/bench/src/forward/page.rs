//! The result as a page that needs nothing from elsewhere.

use super::{Report, Standing};
use crate::machine::Machine;
use wattline_report::escape;
use wattline_report::page::{self, put};
use wattline_report::plot::{Axis, BarSeries, Bars};

/// The page.
pub fn html(report: &Report) -> String {
    const TITLE: &str = "Forwarding over veth";
    let mut page = page::begin(TITLE);
    put(&mut page, format_args!("<h1>{TITLE}</h1>\n"));
    put(&mut page, format_args!("<p><strong>{}</strong></p>\n", escape(&verdict(report))));
    put(&mut page, format_args!("<p>{}.</p>\n", escape(report.note)));
    let mut conditions = Vec::new();
    for of in report.results.iter().map(condition) {
        if !conditions.contains(&of) {
            conditions.push(of);
        }
    }
    for (load, sink) in conditions {
        let of: Vec<&Standing> =
            report.results.iter().filter(|it| condition(it) == (load, sink)).collect();
        put(&mut page, format_args!("<h2>Load {load}, sink {sink}</h2>\n<div class=\"plots\">"));
        page.push_str(&rates(&of).svg());
        page.push_str(&times(&of).svg());
        page.push_str("</div>\n");
        figures(&mut page, &of);
    }
    page.push_str("<h2>How it was measured</h2>\n");
    let rounds = report.results.first().map_or(0, |first| first.rounds.len());
    page::table(
        &mut page,
        ["what", "value"],
        [
            ["frames, bytes without check sequence", &report.frame_bytes.to_string()],
            ["rounds, of which the median counts", &rounds.to_string()],
            ["figures", "measured; processor time as the scheduler charged it"],
            ["machine", &Machine::here().text()],
        ]
        .map(|row| row.map(str::to_owned))
        .into_iter(),
    );
    page::end(&mut page);
    page
}

fn condition(standing: &Standing) -> (&'static str, &'static str) {
    (standing.arrangement.load.name(), standing.arrangement.sink.name())
}

fn verdict(report: &Report) -> String {
    let fastest = report.results.iter().max_by(|a, b| a.rate_pps.total_cmp(&b.rate_pps));
    fastest.map_or_else(
        || "Nothing was measured.".to_owned(),
        |of| format!("Most forwarded: {:.3} Mpps, {}.", of.rate_pps / 1e6, name(of)),
    )
}

/// The candidate with where its receiver runs.
fn name(standing: &Standing) -> String {
    format!("{} ({})", standing.name, standing.arrangement.placement.name())
}

fn bars(title: &str, unit: &str, of: &[&Standing], series: Vec<BarSeries>, stacked: bool) -> Bars {
    Bars {
        title: title.into(),
        x_label: "candidate (where its receiver runs)".into(),
        y: Axis::new(unit).from_zero(),
        groups: of.iter().map(|standing| name(standing)).collect(),
        series,
        stacked,
        ordered: false,
        halves: Vec::new(),
        published: Vec::new(),
    }
}

fn series(name: &str, of: &[&Standing], value: fn(&Standing) -> f64) -> BarSeries {
    let values = of.iter().map(|standing| value(standing)).collect();
    BarSeries { name: name.into(), values, published: Vec::new() }
}

fn rates(of: &[&Standing]) -> Bars {
    let shown = vec![
        series("offered", of, |it| it.offered_rate_pps / 1e6),
        series("forwarded", of, |it| it.rate_pps / 1e6),
    ];
    bars("Frames a second", "Mpps", of, shown, false)
}

fn times(of: &[&Standing]) -> Bars {
    let shown = vec![
        series("own threads", of, |it| it.own_threads_seconds_per_packet * 1e9),
        series("receiving thread", of, |it| it.receive_thread_seconds_per_packet * 1e9),
        series("sink, which frees", of, |it| it.sink_thread_seconds_per_packet * 1e9),
    ];
    bars("Processor time of a frame", "ns", of, shown, true)
}

fn figures(page: &mut String, of: &[&Standing]) {
    let mpps = |rate: f64| format!("{:.3}", rate / 1e6);
    let nanos = |seconds: f64| format!("{:.0}", seconds * 1e9);
    page::table(
        page,
        [
            "candidate",
            "offered, Mpps",
            "forwarded, Mpps",
            "lowest round",
            "highest round",
            "receiver, ns",
            "own, ns",
            "both, ns",
            "Mpps per CPU s",
            "of own threads",
            "sink, ns",
            "with sink, ns",
            "generator, ns",
        ],
        of.iter().map(|standing| {
            let rates = standing.rounds.iter().map(|round| round.rate_pps);
            [
                name(standing),
                mpps(standing.offered_rate_pps),
                mpps(standing.rate_pps),
                mpps(rates.clone().fold(f64::INFINITY, f64::min)),
                mpps(rates.fold(0.0, f64::max)),
                nanos(standing.receive_thread_seconds_per_packet),
                nanos(standing.own_threads_seconds_per_packet),
                nanos(standing.cpu_seconds_per_packet),
                mpps(standing.rate_per_cpu_second_pps),
                standing.rate_per_own_cpu_second_pps.map_or_else(|| "-".to_owned(), mpps),
                nanos(standing.sink_thread_seconds_per_packet),
                nanos(standing.cpu_and_sink_seconds_per_packet),
                nanos(standing.generator_seconds_per_packet),
            ]
        }),
    );
}
