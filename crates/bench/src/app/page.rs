//! The result as a page that needs nothing from elsewhere.

use super::report::{Added, Report, Row};
use wattline_report::escape;
use wattline_report::page::{self, put};
use wattline_report::plot::{Axis, BarSeries, Bars};

/// The page.
pub fn html(report: &Report) -> String {
    let title = format!("What {} costs on top of IPv4 forwarding", report.application);
    let mut page = page::begin(&title);
    put(&mut page, format_args!("<h1>{}</h1>\n", escape(&title)));
    for row in &report.workloads {
        let added: String = row.applications.iter().map(words).collect();
        put(
            &mut page,
            format_args!(
                "<p><strong>{}: {:.0} cycles a packet forwarded{}.</strong></p>\n",
                escape(&row.name),
                row.ipv4.cycles_per_packet.median,
                escape(&added)
            ),
        );
    }
    if report.calibration.disturbed {
        page.push_str(
            "<p>Disturbed: the machine changed speed meanwhile; repeat for firm figures.</p>\n",
        );
    }
    page.push_str("<h2>Cycles</h2>\n<div class=\"plots\">");
    for row in &report.workloads {
        page.push_str(&cycles(row).svg());
    }
    page.push_str("</div>\n");
    figures(&mut page, report);
    for row in &report.workloads {
        node_table(&mut page, row);
        if let Some(order) = &row.order {
            put(
                &mut page,
                format_args!(
                    "<p>{}: by cost {}; published {}: {}.</p>\n",
                    escape(&row.name),
                    escape(&order.measured.join(" > ")),
                    escape(&order.published.join(" > ")),
                    order.verdict.text()
                ),
            );
        }
    }
    conditions(&mut page, report);
    page::end(&mut page);
    page
}

fn words(added: &Added) -> String {
    format!(", {} adds {:.0}", added.name, added.added_cycles_per_packet.median)
}

/// Half the distance of the quartiles.
fn half(sample: crate::sample::Sample) -> f64 {
    (sample.upper_quartile - sample.lower_quartile) / 2.0
}

fn cycles(row: &Row) -> Bars {
    let costs = || {
        let added = row.applications.iter().map(|with| (with.name, &with.cost));
        std::iter::once(("ipv4", &row.ipv4)).chain(added)
    };
    Bars {
        title: format!("Cycles a packet: {}", row.name),
        x_label: "application, forwarding included; line: half the distance of the quartiles"
            .into(),
        y: Axis::new("cycles of the time-stamp counter").from_zero(),
        groups: costs().map(|(name, _)| name.to_owned()).collect(),
        series: vec![BarSeries {
            name: "median".into(),
            values: costs().map(|(_, cost)| cost.cycles_per_packet.median).collect(),
            published: Vec::new(),
        }],
        stacked: false,
        ordered: false,
        halves: vec![costs().map(|(_, cost)| half(cost.cycles_per_packet)).collect()],
        published: Vec::new(),
    }
}

fn figures(page: &mut String, report: &Report) {
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
    page::table(page, heads, rows);
}

fn node_table(page: &mut String, row: &Row) {
    for with in row.applications.iter().filter(|with| !with.nodes.is_empty()) {
        put(
            page,
            format_args!(
                "<details><summary>{}, {}: its nodes and counters</summary>\n",
                escape(&row.name),
                escape(with.name)
            ),
        );
        let nodes = with.nodes.iter().map(|node| {
            let cycles = node.cycles_per_packet;
            [
                node.name.to_owned(),
                format!("{:.1}", cycles.median),
                format!("{:.1} to {:.1}", cycles.lower_quartile, cycles.upper_quartile),
            ]
        });
        page::table(page, ["node", "cycles a packet", "quartiles"], nodes);
        put(page, format_args!("<p>{}</p></details>\n", escape(&with.counted.to_string())));
    }
}

fn conditions(page: &mut String, report: &Report) {
    page.push_str("<h2>How it was measured</h2>\n");
    let rows = [
        ("options", report.options.clone()),
        ("flows", report.flows.to_string()),
        ("routes", report.routes.to_string()),
        ("packets of a batch", report.batch.to_string()),
        ("repeats, of which the median counts", report.repeats.to_string()),
        ("packets of a repeat", report.packets.to_string()),
        ("time-stamp counter, GHz", format!("{:.3}", report.clock_hertz / 1e9)),
        ("what is timed", report.timed.to_owned()),
        ("machine", report.machine.text()),
        ("date", report.machine.date.clone()),
    ];
    page::table(
        page,
        ["what", "value"],
        rows.map(|(name, value)| [name.into(), value]).into_iter(),
    );
}
