//! The tables of a league's page.

use crate::page_plots::{watts, worst_p99};
use crate::plan::Plan;
use crate::rows::{Results, Row, by_kind};
use crate::span::in_words;
use crate::standings::Standing;
use wattline_report::FigurePage;
use wattline_units::Span;

/// A column: its heading, and its cells by row.
type Column = (&'static str, Vec<String>);

/// Text of a cell whose figure is unknown.
const NOTHING: &str = "-";

/// The table of the standings.
pub(crate) fn standings(
    page: &mut FigurePage,
    plan: &Plan,
    results: &Results,
    standings: &[Standing],
) {
    let kinds = by_kind(&results.rows);
    let rows_of = |row: &Standing| -> &[&Row] {
        let nanos = (row.budget_seconds * 1e9).round() as u64;
        let of_kind = kinds.get(&(row.server.clone(), row.traffic.clone(), nanos));
        let mut all = of_kind.into_iter().flatten();
        all.find(|(policy, _)| *policy == row.policy).map_or(&[], |(_, rows)| rows)
    };
    let of = |cell: &dyn Fn(&Standing) -> String| standings.iter().map(cell).collect::<Vec<_>>();
    let setting = |row: &Standing| {
        if row.setting == row.policy { "as named".into() } else { row.setting.clone() }
    };
    let mut columns: Vec<Column> = vec![("policy", of(&|row| row.policy.clone()))];
    // Without tuned rivals the name of the policy is its setting.
    if !results.tunings.is_empty() {
        columns.push(("setting", of(&setting)));
    }
    columns.extend([
        ("server", of(&|row| row.server.clone())),
        ("traffic", of(&|row| row.traffic.clone())),
        ("budget", of(&|row| budget(row.budget_seconds))),
        ("kept", of(&|row| format!("{} of {}", row.feasible, row.seeds))),
        ("power, W", of(&|row| format!("{:.2}", watts(plan, rows_of(row))))),
        ("99 % within, µs", of(&|row| p99(rows_of(row)))),
        ("gap %", of(&|row| percent(row.gap))),
        ("±", of(&|row| percent(row.gap_within))),
        ("above base %", of(&|row| percent(row.gap_above_base))),
        ("vs. first %", of(&|row| percent(row.beside_first))),
        ("±", of(&|row| percent(row.beside_first_within))),
        ("worst late %", of(&|row| percent(row.worst_late))),
        ("lost", of(&|row| row.dropped_packets.to_string())),
        ("changes/s", of(&|row| format!("{:.0}", row.changes_per_second))),
    ]);
    put(page, columns);
}

/// The table of the yardsticks.
pub(crate) fn yardsticks(page: &mut FigurePage, results: &Results) {
    page.heading("Yardsticks");
    let rows = &results.envelopes;
    let above = |joules: Option<f64>, bound: Option<f64>| {
        joules.zip(bound).map_or(f64::NAN, |(joules, bound)| joules / bound - 1.0)
    };
    let bound = |joules: Option<f64>| match joules {
        Some(joules) => format!("{joules:.3}"),
        None => "no schedule keeps the budget".into(),
    };
    let known = rows.iter().map(|row| &row.envelope);
    let columns = vec![
        ("traffic", rows.iter().map(|row| row.traffic.clone()).collect()),
        ("server", rows.iter().map(|row| row.server.clone()).collect()),
        ("seed", rows.iter().map(|row| row.seed.to_string()).collect()),
        ("budget", rows.iter().map(|row| budget(row.budget_seconds)).collect()),
        ("bound J", known.clone().map(|found| bound(found.lower_bound_joules)).collect()),
        (
            "schedule above it %",
            known.clone().map(|found| percent(found.feasible_gap.unwrap_or(f64::NAN))).collect(),
        ),
        (
            "best fixed above it %",
            known
                .clone()
                .map(|found| percent(above(found.static_best_joules, found.lower_bound_joules)))
                .collect(),
        ),
        (
            "best fixed",
            known.map(|found| found.static_best.clone().unwrap_or_else(|| "none".into())).collect(),
        ),
    ];
    put(page, columns);
}

/// Appends a table without empty columns, and without the server if there is only one.
fn put(page: &mut FigurePage, mut columns: Vec<Column>) {
    columns.retain(|(head, cells)| {
        let same = cells.windows(2).all(|two| two[0] == two[1]);
        !(*head == "server" && same) && cells.iter().any(|cell| cell != NOTHING)
    });
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let row = |row: usize| columns.iter().map(|(_, cells)| cells[row].clone()).collect::<Vec<_>>();
    page.rows(&heads, &(0..rows).map(row).collect::<Vec<_>>());
}

fn p99(rows: &[&Row]) -> String {
    worst_p99(rows).map_or_else(|| NOTHING.into(), |span| format!("{:.2}", span.as_seconds() * 1e6))
}

fn budget(seconds: f64) -> String {
    in_words(Span::from_seconds(seconds))
}

fn percent(value: f64) -> String {
    if value.is_finite() { format!("{:.2}", value * 100.0) } else { NOTHING.into() }
}
