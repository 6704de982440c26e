//! The result as a self-contained page.

use super::report::{Added, Cost, Report, Row};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let title = format!("Cost of {} on top of IPv4 forwarding", report.application);
    let verdict = report.workloads.iter().map(|row| {
        let added: String = row.applications.iter().map(words).collect();
        let cycles = row.ipv4.cycles_per_packet.median;
        format!("{}: {cycles:.0} cycles a packet forwarded{added}.", row.name)
    });
    let verdict: Vec<String> = verdict.collect();
    let mut page = FigurePage::begin(&title, &verdict.join(" "));
    page.heading("Cycles");
    page.plots(report.workloads.iter().map(|row| cycles(row).svg()));
    figures(&mut page, report);
    for row in &report.workloads {
        node_table(&mut page, row);
        if let Some(order) = &row.order {
            page.text(&format!(
                "{}: by cost {}; published {}: {}.",
                row.name,
                order.measured.join(" > "),
                order.published.join(" > "),
                order.verdict.text()
            ));
        }
    }
    let how = [
        ("options", report.options.clone()),
        ("flows", report.flows.to_string()),
        ("routes", report.routes.to_string()),
        ("packets of a batch", report.batch.to_string()),
        ("repeats; figures are medians", report.repeats.to_string()),
        ("packets of a repeat", report.packets.to_string()),
        ("time-stamp counter, GHz", format!("{:.3}", report.clock_hertz / 1e9)),
        ("timed work", report.timed.to_owned()),
    ];
    figure_page::end(page, &how, Some(&report.calibration))
}

fn words(added: &Added) -> String {
    format!(", {} adds {:.0}", added.name, added.added_cycles_per_packet.median)
}

/// Returns half the distance between the quartiles.
fn half(sample: crate::sample::Sample) -> f64 {
    (sample.upper_quartile - sample.lower_quartile) / 2.0
}

fn cycles(row: &Row) -> Bars {
    let costs = || {
        let added = row.applications.iter().map(|with| (with.name, &with.cost));
        std::iter::once(("ipv4", &row.ipv4)).chain(added)
    };
    let cycles =
        |(_, cost): (&str, &Cost)| (cost.cycles_per_packet.median, half(cost.cycles_per_packet));
    Bars::new(
        format!("Cycles a packet: {}", row.name),
        "application, forwarding included; line: half the distance of the quartiles",
        Axis::new("cycles of the time-stamp counter").from_zero(),
        costs().map(|(name, _)| name),
    )
    .uncertain("median", costs().map(cycles))
}

fn figures(page: &mut FigurePage, report: &Report) {
    let heads = [
        "packets",
        "bytes",
        "application",
        "cycles",
        "added",
        "quartiles of the added",
        "added, ns",
        "cycles a byte",
        "Gbit/s of a core",
    ];
    let rows = report.workloads.iter().flat_map(|row| {
        let cells = |name: &str, cost: &super::report::Cost, added: Option<&Added>| {
            let of = |text: fn(&Added) -> String| added.map_or_else(|| "-".to_owned(), text);
            [
                row.name.clone(),
                format!("{:.0}", row.packet_size_bytes),
                name.to_owned(),
                format!("{:.1}", cost.cycles_per_packet.median),
                of(|it| format!("{:.1}", it.added_cycles_per_packet.median)),
                of(|it| {
                    let added = it.added_cycles_per_packet;
                    format!("{:.1} to {:.1}", added.lower_quartile, added.upper_quartile)
                }),
                of(|it| format!("{:.1}", it.added_nanoseconds_per_packet)),
                format!("{:.3}", cost.cycles_per_byte),
                format!("{:.2}", cost.rate_gbps),
            ]
        };
        let with = row.applications.iter().map(|with| cells(with.name, &with.cost, Some(with)));
        std::iter::once(cells("ipv4", &row.ipv4, None)).chain(with).collect::<Vec<_>>()
    });
    page.table(heads, rows);
}

fn node_table(page: &mut FigurePage, row: &Row) {
    for with in row.applications.iter().filter(|with| !with.nodes.is_empty()) {
        let nodes = with.nodes.iter().map(|node| {
            let cycles = node.cycles_per_packet;
            [
                node.name.to_owned(),
                format!("{:.1}", cycles.median),
                format!("{:.1} to {:.1}", cycles.lower_quartile, cycles.upper_quartile),
            ]
        });
        let summary = format!("{}, {}: its nodes and counters", row.name, with.name);
        page.details(&summary, |page| {
            page.table(["node", "cycles a packet", "quartiles"], nodes);
            page.text(&with.counted.to_string());
        });
    }
}
