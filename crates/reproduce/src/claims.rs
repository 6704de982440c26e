//! Verdicts on the claims of a paper.

use crate::claim::{self, Claim};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::paper::Paper;
use crate::planned;
use crate::sets::OverSets;
use serde::Serialize;
use std::collections::BTreeSet;
use wattline_report::{Basis, Check, Verdict};

/// A claim and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimReport {
    /// The row of the claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Basis; the weakest one if several checks answer the claim, `None` if none does.
    pub basis: Option<Basis>,
    /// Verdict; the worst one if several checks answer the claim.
    pub verdict: Verdict,
    /// Results of the checks; empty if no figure checks the claim.
    pub ours: String,
    /// Explanation of the verdict.
    pub note: String,
    /// Range over the accepted sets of unprinted parameters, if the claim depends on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sets: Option<OverSets>,
    /// True if moving any unprinted input by a quarter leaves the verdict unchanged; `None` unless
    /// the claim is predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robust: Option<bool>,
}

/// Section in `claims.csv` of rows that no paper prints: they follow from the fitted model.
const OUR_MODEL: &str = "derived model";

pub(super) fn claims_of(paper: Paper) -> Result<Vec<Claim>, ReproduceError> {
    Ok(claim::all()?.into_iter().filter(|claim| claim.paper == paper.name()).collect())
}

/// Returns verdicts on the claims that `figures` check; for a `whole` paper, on all other claims
/// too.
///
/// # Errors
/// Fails when a claim of a whole paper has neither a check nor a reason for having none.
pub(super) fn report(
    paper: Paper,
    figures: &[Figure],
    whole: bool,
) -> Result<Vec<ClaimReport>, ReproduceError> {
    let checks: Vec<&Check> = figures.iter().flat_map(|figure| &figure.checks).collect();
    let (mut reports, mut silent) = (Vec::new(), Vec::new());
    for check in checks.iter().filter(|check| check.basis.is_none() && !check.claims.is_empty()) {
        silent.push(format!("{}: \"{}\" has no basis", check.claims.join(" "), check.quantity));
    }
    let unchecked = &planned::made_for(paper)?.unchecked;
    for claim in claims_of(paper)? {
        let own: Vec<&Check> = checks
            .iter()
            .filter(|check| check.claims.contains(&claim.id.as_str()))
            .copied()
            .collect();
        let context = unchecked.iter().find(|context| context.claims.contains(&claim.id));
        let report = match context {
            _ if !own.is_empty() => checked(claim, &own),
            _ if !whole => continue,
            Some(context) => ClaimReport {
                claim,
                basis: context.basis,
                verdict: context.verdict,
                ours: String::new(),
                note: context.why.clone(),
                sets: None,
                robust: None,
            },
            None => {
                silent.push(format!("{} has neither a check nor a reason for none", claim.id));
                continue;
            }
        };
        reports.push(report);
    }
    rate(&mut reports, &checks, &planned::constraints()?);
    if silent.is_empty() { Ok(reports) } else { Err(ReproduceError::Model(silent.join("\n"))) }
}

/// Leaves one predicted claim per computed figure. A figure that constrained a search is fitted for
/// all its claims; of several claims on one figure, only the first is predicted.
fn rate(reports: &mut [ClaimReport], checks: &[&Check], constraints: &BTreeSet<&str>) {
    let (mut fitted, mut counted) = (BTreeSet::<&str>::new(), Vec::<String>::new());
    for check in checks.iter().filter(|c| c.claims.iter().any(|id| constraints.contains(id))) {
        fitted.extend(&check.claims);
    }
    for report in reports.iter_mut().filter(|report| report.basis == Some(Basis::Predicted)) {
        let id = report.claim.id.as_str();
        let beside = |other: &&String| {
            let both = |check: &&&Check| [id, other].iter().all(|id| check.claims.contains(id));
            checks.iter().any(|check| both(&check))
        };
        let why = if fitted.contains(&id) {
            report.basis = Some(Basis::Fitted);
            "the figure constrained a search".to_owned()
        } else if let Some(first) = counted.iter().find(beside) {
            report.basis = None;
            format!("the same figure as {first}, which counts")
        } else {
            counted.push(id.to_owned());
            continue;
        };
        let separator = if report.note.is_empty() { "" } else { "; " };
        report.note.push_str(&format!("{separator}{why}"));
    }
}

/// Judges a claim by its own checks: the weakest basis, the worst verdict.
fn checked(claim: Claim, own: &[&Check]) -> ClaimReport {
    let rank = |verdict: Verdict| match verdict {
        Verdict::Differs => 0,
        Verdict::PaperContradictsItself => 1,
        Verdict::FigureLost => 2,
        Verdict::NotTestable => 3,
        Verdict::Meets => 4,
    };
    let verdicts = own.iter().map(|check| check.verdict);
    let verdict = verdicts.min_by_key(|v| rank(*v)).unwrap_or(Verdict::NotTestable);
    let mut basis = own.iter().map(|check| check.basis).max().flatten();
    let join = |of: fn(&Check) -> String| {
        own.iter().map(|c| of(c)).filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ")
    };
    let ours = join(|check| format!("{}: {}", check.quantity, check.ours));
    let mut note = join(|check| check.note.clone());
    if claim.section_or_figure == OUR_MODEL {
        basis = Some(Basis::Fitted);
        let why = "a figure of the fitted model, which the paper does not print";
        note = if note.is_empty() { why.to_owned() } else { format!("{note}; {why}") };
    }
    ClaimReport { claim, basis, verdict, ours, note, sets: None, robust: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(section: &str) -> Claim {
        let mut claim = claims_of(Paper::Powersave).unwrap().remove(0);
        claim.section_or_figure = section.to_owned();
        claim
    }

    #[test]
    fn claim_gets_the_worst_verdict_and_the_weakest_basis() {
        let near = |ours: f64| Check::near(&[], "watts", ours, 1.0, 0.1);
        let met = near(1.0).predicted("none");
        let missed = near(2.0).fitted("too warm");
        let report = checked(claim("6"), &[&met]);
        assert_eq!((report.basis, report.verdict), (Some(Basis::Predicted), Verdict::Meets));
        let both = checked(claim("6"), &[&met, &missed]);
        assert_eq!((both.basis, both.verdict), (Some(Basis::Fitted), Verdict::Differs));
        assert_eq!(both.note, "too warm");
        let arithmetic = near(1.0).basis(Basis::Arithmetic);
        assert_eq!(arithmetic.clone().predicted("none").basis, Some(Basis::Arithmetic));
        assert_eq!(checked(claim("6"), &[&arithmetic, &met]).basis, Some(Basis::Arithmetic));
    }

    #[test]
    fn figure_has_one_row_among_the_predicted() {
        let check = Check::near(&["PS-001", "PS-130"], "watts", 1.0, 1.0, 0.1).predicted("none");
        let rated = |constraints: &[&str]| {
            let mut reports = ["PS-001", "PS-130"].map(|id| {
                let claim = Claim { id: id.to_owned(), ..claim("6") };
                checked(claim, &[&check])
            });
            rate(&mut reports, &[&check], &constraints.iter().copied().collect());
            reports.map(|report| (report.basis, report.verdict))
        };
        let [predicted, fitted] = [Basis::Predicted, Basis::Fitted].map(Some);
        assert_eq!(rated(&[]), [predicted, None].map(|basis| (basis, Verdict::Meets)));
        assert_eq!(rated(&["PS-001"]), [fitted; 2].map(|basis| (basis, Verdict::Meets)));
    }

    #[test]
    fn figures_of_our_own_model_are_fitted_at_best() {
        let met = Check::near(&[], "watts", 1.0, 1.0, 0.1).basis(Basis::Rule);
        let own = checked(claim(OUR_MODEL), &[&met]);
        assert_eq!((own.basis, own.verdict), (Some(Basis::Fitted), Verdict::Meets));
        assert!(own.note.contains("does not print"), "{}", own.note);
    }

    #[test]
    fn check_without_a_basis_is_refused() {
        let figure = |check: Check| Figure {
            id: "fig",
            title: String::new(),
            about: String::new(),
            table: wattline_report::Table::new(["none"]),
            plots: Vec::new(),
            checks: vec![check],
        };
        let check = Check::near(&["BO-080"], "watts", 1.0, 1.0, 0.1);
        let error = report(Paper::Bolla, &[figure(check.clone())], false).unwrap_err().to_string();
        assert!(error.contains("BO-080: \"watts\" has no basis"), "{error}");
        assert!(report(Paper::Bolla, &[figure(check.basis(Basis::Rule))], false).is_ok());
    }

    #[test]
    fn paper_without_its_figures_is_refused_with_its_unanswered_claims() {
        let error = report(Paper::Bolla, &[], true).unwrap_err().to_string();
        assert!(error.contains("BO-080 has neither a check nor a reason"), "{error}");
        assert!(!error.contains("BO-001"), "its context has it: {error}");
        assert_eq!(report(Paper::Bolla, &[], false).unwrap(), []);
    }
}
