//! The plots of a league's page: watts against latency, a small plot for each kind of traffic.

use crate::outcome::written;
use crate::plan::Plan;
use crate::rows::{Kind, OfPolicy, Results, Row, by_kind};
use crate::span::in_words;
use wattline_report::escape;
use wattline_report::page::put;
use wattline_report::plot::{Axis, Dot, Multiples, Panel};
use wattline_units::Span;

/// Returns the mean power of a policy over its seeds, in watts.
pub(crate) fn watts(plan: &Plan, rows: &[&Row]) -> f64 {
    let joules: f64 = rows.iter().map(|row| row.energy_joules).sum();
    joules / rows.len() as f64 / plan.duration.as_seconds()
}

/// Returns the 99th percentile of latency on the worst seed; `None` if no packet came through on
/// some seed.
pub(crate) fn worst_p99(rows: &[&Row]) -> Option<Span> {
    let all: Option<Vec<f64>> = rows.iter().map(|row| row.p99_seconds).collect();
    all?.into_iter().reduce(f64::max).map(Span::from_seconds)
}

/// Appends a grid of plots for each server and budget, with one legend.
pub(crate) fn put_plots(page: &mut String, plan: &Plan, results: &Results) {
    let kinds = by_kind(&results.rows);
    let mut names: Vec<String> = Vec::new();
    let mut grids: Vec<(&str, u64)> = Vec::new();
    for ((server, _, nanos), policies) in &kinds {
        if !grids.contains(&(server, *nanos)) {
            grids.push((server, *nanos));
        }
        for (policy, _) in policies {
            let name = written(plan, policy, Span::from_nanos(*nanos));
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    page.push_str("<h2>Watts against latency</h2>\n");
    page.push_str(if results.envelopes.is_empty() {
        "<p>A mark is a policy: mean power, and latency of the worst seed. The dashed line is the budget. "
    } else {
        "<p>A mark is a policy: mean power, and latency of the worst seed. The dashed lines are the \
         budget and the lower bound. "
    });
    page.push_str("An outline did not keep the budget on every seed. Marks on each other are named under the pointer.</p>\n");
    page.push_str(&Multiples::legend(&names));
    for (server, nanos) in grids {
        let budget = Span::from_nanos(nanos);
        put(page, format_args!("<h3>{}, budget {}</h3>\n", escape(server), in_words(budget)));
        let panels = kinds.iter().filter(|((at, _, of), _)| (at.as_str(), *of) == (server, nanos));
        let panel = |((_, traffic, _), policies): (&Kind, &Vec<OfPolicy<'_>>)| {
            let dot = |name: &String| {
                let (_, rows) =
                    policies.iter().find(|(policy, _)| written(plan, policy, budget) == *name)?;
                let hollow = rows.iter().any(|row| !row.feasible);
                Some(Dot { x: micros(worst_p99(rows)?), y: watts(plan, rows), hollow })
            };
            let bounds = results.envelopes.iter().filter(|row| {
                let of = Span::from_seconds(row.budget_seconds);
                row.server == server && row.traffic == *traffic && of == budget
            });
            let joules: Option<Vec<f64>> =
                bounds.map(|row| row.envelope.lower_bound_joules).collect();
            let joules = joules.filter(|all| !all.is_empty());
            let mean = joules.map(|all| all.iter().sum::<f64>() / all.len() as f64);
            Panel {
                title: traffic.clone(),
                dots: names.iter().map(dot).collect(),
                limits: [Some(micros(budget)), mean.map(|it| it / plan.duration.as_seconds())],
            }
        };
        let multiples = Multiples {
            x: Axis::new("99 % within (µs)").logarithmic(),
            y: Axis::new("power (W)"),
            names: names.clone(),
            panels: panels.map(panel).collect(),
        };
        page.push_str(&multiples.html());
    }
}

fn micros(span: Span) -> f64 {
    span.as_seconds() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(traffic: &str, joules: f64, p99: Option<f64>, feasible: bool) -> Row {
        Row {
            policy: "poll".to_owned(),
            contender: "poll".to_owned(),
            tuned: false,
            server: "westmere-2010".to_owned(),
            traffic: traffic.to_owned(),
            seed: 1,
            budget_seconds: 100e-6,
            energy_joules: joules,
            gap_to_lower_bound: None,
            gap_above_base: None,
            late_fraction: 0.0,
            dropped_packets: 0,
            reordered_packets: 0,
            changes_per_second: 0.0,
            feasible,
            p99_seconds: p99,
        }
    }

    #[test]
    fn mark_shows_mean_power_and_worst_latency_and_outlines_a_missed_budget() {
        let text = "servers = [\"westmere-2010\"]\npolicies = [\"poll\"]\ntraffics = [\"poisson:1Mpps\"]\n\
                    budgets = [\"100us\"]\nseeds = [1]\nduration = \"500ms\"\nwarmup = \"1ms\"\n";
        let plan = Plan::parse("t", text).unwrap();
        let rows = vec![
            row("kept", 60.0, Some(20e-6), true),
            row("kept", 62.0, Some(30e-6), true),
            row("late", 70.0, Some(300e-6), false),
            row("dead", 70.0, None, false),
        ];
        let results = Results { rows, envelopes: Vec::new(), tunings: Vec::new() };
        let mut page = String::new();
        put_plots(&mut page, &plan, &results);
        let panels: Vec<&str> =
            page.split("<div class=\"multiples\">").nth(1).unwrap().split("<svg").skip(1).collect();
        assert_eq!(panels.len(), 3, "dead, kept, late");
        assert!(
            panels[1].contains(",30,122 \"") || panels[1].contains(",30,122\""),
            "{}",
            panels[1]
        );
        assert!(panels[2].contains(",300,140") && panels[2].contains("\"hollow "));
        assert!(!panels[1].contains("\"hollow ") && !panels[0].contains("data-name"));
        assert_eq!(page.matches("<li>").count(), 1);
        assert!(page.contains("<h3>westmere-2010, budget 100 us</h3>"), "{page:.900}");
    }
}
