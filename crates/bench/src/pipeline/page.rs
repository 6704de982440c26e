//! The result as a page.

use super::Report;
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let verdict = format!(
        "{:.1} Mpps of one core, {:.1} cycles a packet ({:.1} to {:.1}).",
        report.rate_pps / 1e6,
        report.cycles_per_packet,
        report.cycles_per_packet_min,
        report.cycles_per_packet_max
    );
    let mut page = FigurePage::begin("The IPv4 graph between memory ports", &verdict);
    let nodes: Vec<_> = report.nodes.iter().filter(|node| node.cycles_per_packet > 0.0).collect();
    let axis = Axis::new("cycles a packet").from_zero();
    let bars = Bars::new("Cycles by node", "node", axis, nodes.iter().map(|node| &node.name))
        .series("median", nodes.iter().map(|node| node.cycles_per_packet));
    page.plots([bars.svg()]);
    page.table(
        ["node", "cycles a packet"],
        nodes.iter().map(|node| [node.name.clone(), format!("{:.1}", node.cycles_per_packet)]),
    );
    let how = [
        ("timed", report.timed.to_owned()),
        ("IPv4 routes", report.routes.to_string()),
        ("frame, bytes", report.packet_size_bytes.to_string()),
        ("frames a batch, at most", report.batch.to_string()),
        ("packets a repeat", report.packets.to_string()),
        ("repeats; figures are medians", report.repeats.to_string()),
        ("cycles", format!("of a counter of {:.2} GHz", report.clock_hertz / 1e9)),
    ];
    figure_page::end(page, &how, Some(&report.calibration))
}
