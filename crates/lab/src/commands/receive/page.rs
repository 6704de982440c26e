//! The result of `wattline receive` as a page.

use super::outcome::{Received, SUMMARY, Simulated, summary, word};
use crate::commands::results;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};
use wattline_study::receive::Data;

const TITLE: &str = "Receive path of a host";

/// Returns the page.
pub(super) fn page(received: &Received) -> FigurePage {
    let mut page = FigurePage::begin(TITLE, &outcome(received));
    page.text(&format!(
        "Per packet of 1460 bytes, simulated cache line by cache line; cycles, cores and watts are \
         {}, with the power of {}. Nothing here was measured.",
        received.source, received.calibrated_by
    ));
    page.heading("Plots");
    page.plots(plots(&received.paths).map(|bars| bars.svg()));
    page.heading("Paths");
    page.table(SUMMARY, received.paths.iter().map(summary));
    page.heading("Misses by phase and data");
    let heads =
        ["proposal", "phase", "data", "touches", "L1 misses", "LLC misses", "hidden misses"];
    let rows = received.paths.iter().flat_map(|path| {
        let name = path.proposal.word().to_owned();
        path.misses.iter().map(move |line| {
            let [a, b, c, d, e, f] = line.cells();
            [name.clone(), a, b, c, d, e, f]
        })
    });
    page.table(heads, rows);
    page.heading("Conditions");
    page.values(conditions(received));
    page.again(&results::command_line());
    page
}

/// Compares the path with the fewest cycles with the first.
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
    let first_line = format!("{rate:.2} Gbit/s, {}: {}.", first.proposal.name(), cost(first));
    let least = rest.iter().min_by(|a, b| a.cycles_per_packet.total_cmp(&b.cycles_per_packet));
    match least.filter(|path| path.cycles_per_packet < first.cycles_per_packet) {
        Some(path) => {
            format!("{first_line} Fewest cycles, {}: {}.", path.proposal.name(), cost(path))
        }
        None => first_line,
    }
}

fn plots(paths: &[Simulated]) -> [Bars; 3] {
    type Part = (&'static str, fn(&Simulated) -> f64);
    let stacked = |title: &str, unit: &str| {
        let names = paths.iter().map(|path| path.proposal.word().replace('-', " "));
        Bars::new(title, "proposal", Axis::new(unit), names).stacked([])
    };
    let add = |bars: Bars, (name, value): Part| bars.series(name, paths.iter().map(value));
    let cycles: [Part; 4] = [
        ("driver", |path| path.estimate.cycles.driver),
        ("copy", |path| path.estimate.cycles.copy),
        ("release", |path| path.estimate.cycles.release),
        ("rest", |path| path.estimate.cycles.rest),
    ];
    let watts: [Part; 2] =
        [("processors", |path| path.estimate.cpu.0), ("memory", |path| path.estimate.memory.0)];
    let add_misses = |bars: Bars, data: Data| {
        let lines = |path: &Simulated| {
            let of_data = path.misses.iter().filter(|line| line.data == data);
            of_data.map(|line| line.llc_misses_per_packet).sum()
        };
        let values: Vec<f64> = paths.iter().map(lines).collect();
        let missed = values.iter().any(|value| *value > 0.0);
        if missed { bars.series(word(data), values) } else { bars }
    };
    let misses = stacked("Misses of the last-level cache by data", "misses per packet");
    [
        cycles.into_iter().fold(stacked("Cycles by part", "cycles per packet"), add),
        Data::ALL.into_iter().fold(misses, add_misses),
        watts.into_iter().fold(stacked("Dynamic power", "W"), add),
    ]
}

fn conditions(received: &Received) -> Vec<(&'static str, String)> {
    let Some(path) = received.paths.first().map(|first| &first.path) else { return Vec::new() };
    vec![
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
    ]
}
