//! The result as a page.

use super::Report;
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let nanos = |seconds: f64| seconds * 1e9;
    let verdict = format!(
        "{:.0} ns a decision; a thousand a second take {:.4} % of a core.",
        nanos(report.decision_seconds.median),
        100.0 * report.core_share_at_1000_per_second
    );
    let mut page = FigurePage::begin(&format!("The loop under {}", report.policy), &verdict);
    let all = [
        ("decision", report.decision_seconds),
        ("observation, of it", report.observe_seconds),
        ("to plan a change", report.plan_seconds),
    ];
    let axis = Axis::new("ns").from_zero();
    let bars = Bars::new("Processor time", "what", axis, all.map(|(name, _)| name))
        .series("median", all.map(|(_, of)| nanos(of.median)));
    page.plots([bars.svg()]);
    page.table(
        ["what", "median, ns", "lower quartile", "upper quartile"],
        all.iter().map(|(name, of)| {
            let of = [of.median, of.lower_quartile, of.upper_quartile];
            let [median, lower, upper] = of.map(|seconds| format!("{:.0}", nanos(seconds)));
            [(*name).to_owned(), median, lower, upper]
        }),
    );
    let how = [
        ("timed", report.timed.to_owned()),
        ("cores and queues", format!("{} and {}", report.cores, report.queues)),
        ("decisions a repeat", report.decisions.to_string()),
        ("repeats", report.decision_seconds.repeats.to_string()),
        ("changes a decision", format!("{:.4}", report.changes_per_decision)),
        ("entries moved a decision", format!("{:.3}", report.entries_moved_per_decision)),
    ];
    figure_page::end(page, &how, Some(&report.calibration))
}
