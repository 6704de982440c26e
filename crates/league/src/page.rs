//! A league as a page: one table to rule on, and plots.

use crate::rows::Results;
use crate::standings::{Standing, standings};
use wattline_report::escape;
use wattline_report::page::{begin, end, is_titled, put, table};
use wattline_report::plot::{Axis, BarSeries, Bars};

/// Title of the page.
const TITLE: &str = "league";

/// Whether a file's text is the page of some league.
pub fn is_page(text: &str) -> bool {
    is_titled(text, TITLE)
}

/// The page as HTML.
pub fn page(results: &Results) -> String {
    let standings = standings(results);
    let mut page = begin(TITLE);
    page.push_str(
        "<h1>League of governors</h1>\n<p>Energy above the lower bound of every schedule \
        that keeps the budget (at most 1 % of the packets late, none lost), on paired seeds; all \
        figures are of the simulator and the server's model, nothing is measured. A policy that \
        did not keep the budget on every seed is not ranked. Intervals are 95 % over seeds.</p>\n",
    );
    if results.envelopes.is_empty() {
        page.push_str(
            "<p>The bound was not worked out: the plots show energy beside the first policy's.</p>\n",
        );
    }
    if !results.tunings.is_empty() {
        page.push_str(
            "<p>Policies called \"tuned\" play the setting that was best on other seeds for this \
            traffic and budget; the first policy has one set of constants for all.</p>\n",
        );
    }
    plot(&mut page, &standings);
    page.push_str("<h2>Table</h2>\n");
    if results.tunings.is_empty() {
        table(&mut page, without_setting(HEAD), standings.iter().map(cells).map(without_setting));
    } else {
        table(&mut page, HEAD, standings.iter().map(cells));
    }
    if !results.envelopes.is_empty() {
        yardsticks(&mut page, results);
    }
    end(&mut page);
    page
}

/// Columns of the table.
const HEAD: [&str; 14] = [
    "policy",
    "setting",
    "server",
    "traffic",
    "p99 us",
    "kept",
    "gap %",
    "±",
    "above base %",
    "beside first %",
    "±",
    "worst late %",
    "lost",
    "changes/s",
];

/// A row without its second column, which says nothing where no rival was tuned.
fn without_setting<T: Clone>(row: [T; 14]) -> [T; 13] {
    std::array::from_fn(|column| row[if column == 0 { 0 } else { column + 1 }].clone())
}

/// The table of the yardsticks.
fn yardsticks(page: &mut String, results: &Results) {
    page.push_str("<h2>Yardsticks</h2>\n");
    let percent = |gap: Option<f64>| gap.map_or("-".into(), |gap| format!("{:.2}", gap * 100.0));
    table(
        page,
        [
            "traffic",
            "server",
            "seed",
            "p99 us",
            "bound J",
            "schedule above it %",
            "best fixed above it %",
            "best fixed",
        ],
        results.envelopes.iter().map(|row| {
            let envelope = &row.envelope;
            let (bound, fixed) = (envelope.lower_bound_joules, envelope.static_best_joules);
            [
                row.traffic.clone(),
                row.server.clone(),
                row.seed.to_string(),
                format!("{:.0}", row.budget_seconds * 1e6),
                bound.map_or_else(
                    || "no schedule keeps the budget".into(),
                    |joules| format!("{joules:.3}"),
                ),
                percent(envelope.feasible_gap),
                percent(fixed.zip(bound).map(|(joules, bound)| joules / bound - 1.0)),
                envelope.static_best.clone().unwrap_or_else(|| "none".into()),
            ]
        }),
    );
}

fn cells(row: &Standing) -> [String; 14] {
    let percent = |value: f64| {
        if value.is_finite() { format!("{:.2}", value * 100.0) } else { "-".into() }
    };
    [
        row.policy.clone(),
        if row.setting == row.policy { "as named".into() } else { row.setting.clone() },
        row.server.clone(),
        row.traffic.clone(),
        format!("{:.0}", row.budget_seconds * 1e6),
        format!("{} of {}", row.feasible, row.seeds),
        percent(row.gap),
        percent(row.gap_within),
        percent(row.gap_above_base),
        percent(row.beside_first),
        percent(row.beside_first_within),
        percent(row.worst_late),
        row.dropped_packets.to_string(),
        format!("{:.0}", row.changes_per_second),
    ]
}

/// A plot per server and budget: a group of bars for each traffic; what did not keep the budget
/// on every seed is left out.
fn plot(page: &mut String, standings: &[Standing]) {
    let mut kinds: Vec<(&str, f64)> = Vec::new();
    for row in standings {
        if !kinds.contains(&(&row.server, row.budget_seconds)) {
            kinds.push((&row.server, row.budget_seconds));
        }
    }
    // Without a bound, rows are told beside the first policy, which has no difference from itself.
    let with_bound = standings.iter().any(|row| row.gap.is_finite());
    page.push_str("<div class=\"plots\">\n");
    for (server, budget) in kinds {
        let rows =
            || standings.iter().filter(|row| row.server == server && row.budget_seconds == budget);
        let mut traffics: Vec<&str> = Vec::new();
        let mut policies: Vec<&str> = Vec::new();
        for row in rows() {
            if !traffics.contains(&&*row.traffic) {
                traffics.push(&row.traffic);
            }
            if !policies.contains(&&*row.policy) {
                policies.push(&row.policy);
            }
        }
        let value = |policy: &str, traffic: &str| {
            let row = rows().find(|row| row.policy == policy && row.traffic == traffic);
            let above = |row: &Standing| if with_bound { row.gap } else { row.beside_first };
            row.filter(|row| row.feasible == row.seeds).map_or(f64::NAN, |row| above(row) * 100.0)
        };
        let series = policies.iter().map(|policy| BarSeries {
            name: (*policy).to_owned(),
            values: traffics.iter().map(|traffic| value(policy, traffic)).collect(),
            published: vec![None; traffics.len()],
        });
        let bars = Bars {
            title: format!("{server}, p99 {:.0} us", budget * 1e6),
            x_label: "traffic, numbered as below".into(),
            y: Axis::new(if with_bound {
                "energy above the lower bound (%)"
            } else {
                "energy beside the first policy (%)"
            }),
            groups: (1..=traffics.len()).map(|number| number.to_string()).collect(),
            series: series.collect(),
            stacked: false,
            ordered: false,
            halves: Vec::new(),
            published: vec![None; traffics.len()],
        };
        page.push_str(&bars.svg());
        page.push_str(&late(server, budget, &policies, &traffics, standings));
        page.push_str("<ol>\n");
        for traffic in traffics {
            put(page, format_args!("<li>{}</li>\n", escape(traffic)));
        }
        page.push_str("</ol>\n");
    }
    page.push_str("</div>\n");
}

/// The late packets of every policy, kept or not: what left out bars of the other plot did.
fn late(
    server: &str,
    budget: f64,
    policies: &[&str],
    traffics: &[&str],
    standings: &[Standing],
) -> String {
    let of = |policy: &str, traffic: &str| {
        let row = standings.iter().find(|row| {
            row.server == server
                && row.budget_seconds == budget
                && row.policy == policy
                && row.traffic == traffic
        });
        row.map_or(f64::NAN, |row| row.worst_late * 100.0)
    };
    let series = policies.iter().map(|policy| BarSeries {
        name: (*policy).to_owned(),
        values: traffics.iter().map(|traffic| of(policy, traffic)).collect(),
        published: vec![None; traffics.len()],
    });
    let bars = Bars {
        title: format!("{server}, p99 {:.0} us: allowed is 1 %", budget * 1e6),
        x_label: "traffic, numbered as below".into(),
        y: Axis::new("late packets on the worst seed (%)"),
        groups: (1..=traffics.len()).map(|number| number.to_string()).collect(),
        series: series.collect(),
        stacked: false,
        ordered: false,
        halves: Vec::new(),
        published: vec![None; traffics.len()],
    };
    bars.svg()
}
