//! The result of `wattline receive` as a page.

use super::outcome::{Received, SUMMARY, Simulated, summary, word};
use crate::commands::results;
use wattline_report::escape;
use wattline_report::page::{begin, end, put, table};
use wattline_report::plot::{Axis, BarSeries, Bars};
use wattline_study::receive::Data;

const TITLE: &str = "Receive path of a host";

/// The page as HTML.
pub(super) fn html(received: &Received) -> String {
    let mut page = begin(TITLE);
    put(&mut page, format_args!("<h1>{TITLE}</h1>\n"));
    put(&mut page, format_args!("<p><strong>{}</strong></p>\n", escape(&outcome(received))));
    put(
        &mut page,
        format_args!(
            "<p>Per packet of 1460 bytes, simulated cache line by cache line; cycles, cores and watts are \
             {}, with the power of {}. Nothing here was measured.</p>\n",
            received.source, received.calibrated_by
        ),
    );
    page.push_str("<h2>Plots</h2>\n<div class=\"plots\">\n");
    plots(&received.paths).iter().for_each(|bars| page.push_str(&bars.svg()));
    page.push_str("</div>\n<h2>Paths</h2>\n");
    table(&mut page, SUMMARY, received.paths.iter().map(summary));
    page.push_str("<h2>Misses by phase and data</h2>\n");
    let heads =
        ["proposal", "phase", "data", "touches", "L1 misses", "LLC misses", "hidden misses"];
    let rows = received.paths.iter().flat_map(|path| {
        let name = path.proposal.word().to_owned();
        path.misses.iter().map(move |line| {
            let [a, b, c, d, e, f] = line.cells();
            [name.clone(), a, b, c, d, e, f]
        })
    });
    table(&mut page, heads, rows);
    page.push_str("<h2>Conditions</h2>\n");
    table(&mut page, ["what", "value"], conditions(received).into_iter());
    let again = escape(&results::command_line());
    put(&mut page, format_args!("<p>Again: <code>{again}</code></p>\n"));
    end(&mut page);
    page
}

/// The path with the fewest cycles, beside the first.
fn outcome(received: &Received) -> String {
    let cost = |path: &Simulated| {
        format!(
            "{:.0} cycles and {:.1} misses per packet, {:.2} busy cores, {:.2} W of processors and {:.2} W of \
             memory",
            path.cycles_per_packet,
            path.llc_misses_per_packet,
            path.estimate.busy_cores,
            path.estimate.cpu.0,
            path.estimate.memory.0
        )
    };
    let [first, rest @ ..] = received.paths.as_slice() else { return String::new() };
    let rate = received.rate_bits_per_second / 1e9;
    let told = format!("{rate:.2} Gbit/s, {}: {}.", first.proposal.name(), cost(first));
    let least = rest.iter().min_by(|a, b| a.cycles_per_packet.total_cmp(&b.cycles_per_packet));
    match least.filter(|path| path.cycles_per_packet < first.cycles_per_packet) {
        Some(path) => format!("{told} Fewest cycles, {}: {}.", path.proposal.name(), cost(path)),
        None => told,
    }
}

fn plots(paths: &[Simulated]) -> [Bars; 3] {
    let of = |name: &str, value: &dyn Fn(&Simulated) -> f64| BarSeries {
        name: name.to_owned(),
        values: paths.iter().map(value).collect(),
        published: Vec::new(),
    };
    let stacked = |title: &str, unit: &str, series: Vec<BarSeries>| Bars {
        title: title.to_owned(),
        x_label: "proposal".to_owned(),
        y: Axis::new(unit),
        groups: paths.iter().map(|path| path.proposal.word().replace('-', " ")).collect(),
        series,
        stacked: true,
        ordered: false,
        halves: Vec::new(),
        published: Vec::new(),
    };
    let misses = Data::ALL.into_iter().map(|data| {
        let lines = move |path: &Simulated| {
            let of_data = path.misses.iter().filter(|line| line.data == data);
            of_data.map(|line| line.llc_misses_per_packet).sum()
        };
        of(&word(data), &lines)
    });
    let cycles = vec![
        of("driver", &|path| path.estimate.cycles.driver),
        of("copy", &|path| path.estimate.cycles.copy),
        of("release", &|path| path.estimate.cycles.release),
        of("rest", &|path| path.estimate.cycles.rest),
    ];
    let watts = vec![
        of("processors", &|path| path.estimate.cpu.0),
        of("memory", &|path| path.estimate.memory.0),
    ];
    let missed = misses.filter(|series| series.values.iter().any(|value| *value > 0.0)).collect();
    [
        stacked("Cycles by part", "cycles per packet", cycles),
        stacked("Misses of the last-level cache by data", "misses per packet", missed),
        stacked("Dynamic power", "W", watts),
    ]
}

fn conditions(received: &Received) -> Vec<[String; 2]> {
    let Some(path) = received.paths.first().map(|first| &first.path) else { return Vec::new() };
    let conditions = [
        ("queues", path.queues.to_string()),
        ("descriptors of each queue", path.ring.to_string()),
        ("cores", path.cores.to_string()),
        ("connections", path.connections.to_string()),
        ("packets per interrupt", path.batch.to_string()),
        ("packets of a chain", path.chain.to_string()),
        ("bytes of a read", path.io_bytes.to_string()),
        ("bytes that stand in each socket", path.window_bytes.to_string()),
        ("bytes of the last-level cache", path.llc_bytes.to_string()),
        ("ways of the last-level cache", path.llc_ways.to_string()),
        ("goodput, Gbit/s", format!("{:.2}", received.rate_bits_per_second / 1e9)),
        ("simulated packets", received.packets.to_string()),
        ("seed", path.seed.to_string()),
    ];
    conditions.map(|(what, value)| [what.to_owned(), value]).to_vec()
}
