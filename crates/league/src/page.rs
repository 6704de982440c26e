//! A league as a page: one table to rule on, and plots.

use crate::outcome::{conditions, outcome};
use crate::page_tables;
use crate::plan::Plan;
use crate::rows::Results;
use crate::span::in_words;
use crate::standings::{Standing, standings};
use wattline_report::escape;
use wattline_report::page::{begin, end, is_titled, put};
use wattline_report::plot::{Axis, BarSeries, Bars};
use wattline_units::Span;

/// Title of the page.
const TITLE: &str = "league";

/// Whether a file's text is the page of some league.
pub fn is_page(text: &str) -> bool {
    is_titled(text, TITLE)
}

/// The page as HTML; `again` is the command that makes it.
pub fn page(plan: &Plan, results: &Results, again: &str) -> String {
    let standings = standings(results);
    // Without a bound, rows are told beside the first policy, which has no difference from itself.
    let with_bound = standings.iter().any(|row| row.gap.is_finite());
    let beside = if with_bound { "above the lower bound" } else { "beside the first policy" };
    let mut page = begin(TITLE);
    put(&mut page, format_args!("<h1>League of governors: energy {beside}</h1>\n"));
    page.push_str(&outcome(plan, &standings));
    page.push_str(&conditions(plan));
    page.push_str(if with_bound {
        "<p>Energy is told above the lower bound of every schedule that keeps the budget, on paired seeds."
    } else {
        "<p>Energy is told beside that of the first policy, on paired seeds; there is no lower bound."
    });
    page.push_str(
        " The budget is kept where at most 1 % of the packets are late and none is lost; a policy that \
        did not keep it on every seed is not ranked. All figures are of the simulator and the server's \
        model, nothing is measured. Intervals are 95 % over seeds.</p>\n",
    );
    if !results.tunings.is_empty() {
        page.push_str(
            "<p>Policies called \"tuned\" play the setting that was best on other seeds for this \
            traffic and budget; the first policy has one set of constants for all.</p>\n",
        );
    }
    plot(&mut page, &standings, with_bound);
    page.push_str("<h2>Table</h2>\n");
    page_tables::standings(&mut page, results, &standings);
    if !results.envelopes.is_empty() {
        page_tables::yardsticks(&mut page, results);
    }
    put(&mut page, format_args!("<p>Again: <code>{}</code></p>\n", escape(again)));
    end(&mut page);
    page
}

/// A plot per server and budget: a group of bars for each traffic; what did not keep the budget
/// on every seed is left out.
fn plot(page: &mut String, standings: &[Standing], with_bound: bool) {
    let mut kinds: Vec<(&str, f64)> = Vec::new();
    for row in standings {
        if !kinds.contains(&(&row.server, row.budget_seconds)) {
            kinds.push((&row.server, row.budget_seconds));
        }
    }
    // All servers and budgets have the same traffics in the same order.
    let mut numbered: Vec<&str> = Vec::new();
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
            title: format!("{server}, budget {}", in_words(Span::from_seconds(budget))),
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
        for traffic in traffics {
            if !numbered.contains(&traffic) {
                numbered.push(traffic);
            }
        }
    }
    page.push_str("</div>\n<ol>\n");
    for traffic in numbered {
        put(page, format_args!("<li>{}</li>\n", escape(traffic)));
    }
    page.push_str("</ol>\n");
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
        title: format!("{server}, budget {}: allowed is 1 %", in_words(Span::from_seconds(budget))),
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
