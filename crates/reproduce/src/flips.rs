//! Applies the change that each predicted check names, and looks whether it comes out otherwise.

use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::reproduction::{Reproduction, reproduce, reproduce_changed};
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};
use wattline_report::{Check, Verdict};

/// Checks of the figures, by figure and place. Quantities may contain computed figures.
fn checks(results: &[Reproduction]) -> BTreeMap<(Paper, &'static str, usize), Check> {
    let figures = results.iter().flat_map(|one| one.figures.iter().map(|f| (one.paper, f)));
    figures
        .flat_map(|(paper, figure)| {
            let checks = figure.checks.iter().cloned().enumerate();
            checks.map(move |(place, check)| ((paper, figure.id, place), check))
        })
        .collect()
}

/// Every change of a plan is one, so that a misspelt flip is found without a simulation.
#[test]
fn planned_flips_change_an_input() {
    let plans = [planned::liao(), planned::copi()].map(Result::unwrap);
    for flip in plans.iter().flat_map(|plan| plan.flips()) {
        let inputs = Inputs::changed(flip).unwrap();
        let server = inputs.server("xeon-silver-4108").unwrap();
        let changed = server.requests().unwrap()
            != wattline_server::ServerFile::load("xeon-silver-4108").unwrap().requests().unwrap()
            || inputs.receive_path().unwrap() != Default::default();
        assert!(changed, "{flip}");
    }
}

#[test]
#[ignore = "half an hour, even with optimisation: `make test-long`"]
fn predicted_checks_come_out_otherwise_under_their_flip() {
    let base = checks(&reproduce(&Paper::ALL.map(Target::from), |_| ()).unwrap());
    let mut flips: BTreeMap<&'static str, BTreeSet<(Paper, &'static str)>> = BTreeMap::new();
    for ((paper, figure, _), check) in &base {
        if let Some(flip) = check.flip {
            flips.entry(flip).or_default().insert((*paper, figure));
        }
    }
    let mut same = Vec::new();
    for (flip, figures) in flips {
        let of = |(paper, figure): (Paper, &'static str)| Target { paper, figure: Some(figure) };
        let targets: Vec<Target> = figures.into_iter().map(of).collect();
        let changed = checks(&reproduce_changed(&targets, flip, |_| ()).unwrap());
        for (at, check) in changed {
            let before = &base[&at];
            let judged = matches!(before.verdict, Verdict::Meets | Verdict::Differs);
            if judged && before.flip == Some(flip) && before.verdict == check.verdict {
                same.push(format!("{flip}: {} {}", before.claims.join(" "), before.quantity));
            }
        }
    }
    assert!(same.is_empty(), "checks that their flip leaves as they are: {same:#?}");
}
