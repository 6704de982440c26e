//! The page of a league: one decisive table, and plots.

use crate::outcome::{conditions, outcome};
use crate::page_plots::put_plots;
use crate::page_tables;
use crate::plan::Plan;
use crate::rows::Results;
use crate::standings::standings;
use wattline_report::FigurePage;
use wattline_report::page::is_titled;

/// Title of the page.
const TITLE: &str = "league";

/// Returns true if a file's text is the page of some league.
pub fn is_page(text: &str) -> bool {
    is_titled(text, TITLE)
}

/// Makes the page; `again` is the command that reproduces it.
pub fn page(plan: &Plan, results: &Results, again: &str) -> FigurePage {
    let standings = standings(results);
    // Without a bound, rows are relative to the first policy, which has no difference from itself.
    let with_bound = standings.iter().any(|row| row.gap.is_finite());
    let basis = if with_bound { "above the lower bound" } else { "relative to the first policy" };
    let mut page = FigurePage::headed(TITLE, &format!("League of governors: energy {basis}"));
    let (leader, others) = outcome(plan, &standings);
    page.strong(&leader);
    page.remarks(others);
    page.text(&conditions(plan));
    let measure = if with_bound {
        "Energy is given above the lower bound of every schedule that keeps the budget, on paired seeds."
    } else {
        "Energy is relative to that of the first policy, on paired seeds; there is no lower bound."
    };
    page.text(&format!(
        "{measure} The budget is kept where at most 1 % of the packets are late and none is lost; a policy that \
        did not keep it on every seed is not ranked. All figures are of the simulator and the server's \
        model, nothing is measured. Intervals are 95 % over seeds."
    ));
    if !results.tunings.is_empty() {
        page.text(
            "Policies called \"tuned\" play the setting that was best on other seeds for this \
            traffic and budget; the first policy has one set of constants for all.",
        );
    }
    put_plots(page.html(), plan, results);
    page.heading("Table");
    page_tables::standings(&mut page, plan, results, &standings);
    if !results.envelopes.is_empty() {
        page_tables::yardsticks(&mut page, results);
    }
    page.again(again);
    page
}
