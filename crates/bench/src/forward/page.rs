//! The result as a self-contained page.

use super::{Report, Standing};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Explanation of the columns.
const LEGEND: [&str; 6] = [
    "shared: the receiving thread shares the candidate's processor; split: the generator's \
     processor receives; rationed: split, and the candidate has only half of its processor's time",
    "sink: the processor that frees sent frames, the candidate's (local) or the generator's (remote)",
    "load: full is the generator's maximum, ample 1.5 Mpps, paced 0.15 Mpps",
    "receiver, own, both: processor time per forwarded frame of the receiving thread, of the \
     candidate's own threads, and of both",
    "Mpps per CPU s: million frames per second of that time, of all threads and of its own alone",
    "sink, with sink, generator: time per frame of the freeing thread, of both sides, of the generator",
];

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let mut page = FigurePage::begin("Forwarding over veth", &verdict(report));
    page.text(&format!("{}.", report.note));
    let mut conditions = Vec::new();
    for of in report.results.iter().map(condition) {
        if !conditions.contains(&of) {
            conditions.push(of);
        }
    }
    for (load, sink) in conditions {
        let of: Vec<&Standing> =
            report.results.iter().filter(|it| condition(it) == (load, sink)).collect();
        page.heading(&format!("Load {load}, sink {sink}"));
        page.plots([rates(&of), times(&of)]);
        figures(&mut page, &of);
    }
    page.remarks(LEGEND);
    let rounds = report.results.first().map_or(0, |first| first.rounds.len());
    let how = [
        ("frames, bytes without check sequence", report.frame_bytes.to_string()),
        ("rounds; figures are medians", rounds.to_string()),
        ("figures", "measured; processor time as the scheduler charged it".to_owned()),
    ];
    figure_page::end(page, &how, None)
}

fn condition(standing: &Standing) -> (&'static str, &'static str) {
    (standing.arrangement.load.name(), standing.arrangement.sink.name())
}

fn verdict(report: &Report) -> String {
    let fastest =
        report.results.iter().max_by(|a, b| a.median.rate_pps.total_cmp(&b.median.rate_pps));
    fastest.map_or_else(
        || "Nothing was measured.".to_owned(),
        |of| format!("Most forwarded: {:.3} Mpps, {}.", of.median.rate_pps / 1e6, name(of)),
    )
}

/// Returns the candidate's name with the placement of its receiver.
fn name(standing: &Standing) -> String {
    format!("{} ({})", standing.name, standing.arrangement.placement.name())
}

/// Value of a candidate in a series of this name.
type Series = (&'static str, fn(&Standing) -> f64);

fn bars(title: &str, unit: &str, of: &[&Standing], series: &[Series]) -> Bars {
    let names = of.iter().map(|standing| name(standing));
    let axis = Axis::new(unit).from_zero();
    let bars = Bars::new(title, "candidate (where its receiver runs)", axis, names);
    let add = |bars: Bars, (name, value): &Series| {
        bars.series(*name, of.iter().map(|standing| value(standing)))
    };
    series.iter().fold(bars, add)
}

fn rates(of: &[&Standing]) -> String {
    let shown: [Series; 2] = [
        ("offered", |it| it.median.offered_rate_pps / 1e6),
        ("forwarded", |it| it.median.rate_pps / 1e6),
    ];
    bars("Frames a second", "Mpps", of, &shown).svg()
}

fn times(of: &[&Standing]) -> String {
    let shown: [Series; 3] = [
        ("own threads", |it| it.median.own_threads_seconds_per_packet * 1e9),
        ("receiving thread", |it| it.median.receive_thread_seconds_per_packet * 1e9),
        ("sink, which frees", |it| it.median.sink_thread_seconds_per_packet * 1e9),
    ];
    bars("Processor time of a frame", "ns", of, &shown).stacked([]).svg()
}

fn figures(page: &mut FigurePage, of: &[&Standing]) {
    let mpps = |rate: f64| format!("{:.3}", rate / 1e6);
    let nanos = |seconds: f64| format!("{:.0}", seconds * 1e9);
    page.table(
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
                mpps(standing.median.offered_rate_pps),
                mpps(standing.median.rate_pps),
                mpps(rates.clone().fold(f64::INFINITY, f64::min)),
                mpps(rates.fold(0.0, f64::max)),
                nanos(standing.median.receive_thread_seconds_per_packet),
                nanos(standing.median.own_threads_seconds_per_packet),
                nanos(standing.median.cpu_seconds_per_packet),
                mpps(standing.rate_per_cpu_second_pps),
                standing.rate_per_own_cpu_second_pps.map_or_else(|| "-".to_owned(), mpps),
                nanos(standing.median.sink_thread_seconds_per_packet),
                nanos(standing.cpu_and_sink_seconds_per_packet),
                nanos(standing.median.generator_seconds_per_packet),
            ]
        }),
    );
}
