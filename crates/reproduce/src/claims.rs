//! Verdicts on the claims of a paper.

use crate::claim::{self, Claim};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::paper::Paper;
use serde::Serialize;
use wattline_report::{Check, Verdict};

/// A claim and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimReport {
    /// The row of the claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Verdict; the worst one if several checks answer the claim.
    pub verdict: Verdict,
    /// Results of the checks; empty if no figure checks the claim.
    pub ours: String,
    /// Explanation of the verdict.
    pub note: String,
}

/// Where a row of `claims.csv` stands that no paper prints: it follows from the fitted model.
const OUR_MODEL: &str = "derived model";

pub(super) fn claims_of(paper: Paper) -> Result<Vec<Claim>, ReproduceError> {
    Ok(claim::all()?.into_iter().filter(|claim| claim.paper == paper.name()).collect())
}

/// Verdicts on the claims that `figures` check and, of a `whole` paper, on all others too.
///
/// # Errors
/// Fails when a claim of a whole paper has neither a check nor an entry in the paper's context.
pub(super) fn report(
    paper: Paper,
    figures: &[Figure],
    whole: bool,
) -> Result<Vec<ClaimReport>, ReproduceError> {
    let checks: Vec<&Check> = figures.iter().flat_map(|figure| &figure.checks).collect();
    let (mut reports, mut silent) = (Vec::new(), Vec::new());
    for claim in claims_of(paper)? {
        let own: Vec<&Check> = checks
            .iter()
            .filter(|check| check.claims.contains(&claim.id.as_str()))
            .copied()
            .collect();
        let context = paper.context().iter().find(|(id, ..)| *id == claim.id);
        let report = match context {
            _ if !own.is_empty() => checked(claim, &own),
            _ if !whole => continue,
            Some((_, verdict, note)) => ClaimReport {
                claim,
                verdict: *verdict,
                ours: String::new(),
                note: (*note).to_owned(),
            },
            None => {
                silent.push(format!("{} has neither a check nor a reason for none", claim.id));
                continue;
            }
        };
        reports.push(report);
    }
    if silent.is_empty() { Ok(reports) } else { Err(ReproduceError::Model(silent.join("\n"))) }
}

/// The verdict of a claim's own checks.
fn checked(claim: Claim, own: &[&Check]) -> ClaimReport {
    let rank = |verdict: Verdict| match verdict {
        Verdict::Differs => 0,
        Verdict::PaperContradictsItself => 1,
        Verdict::FigureLost => 2,
        Verdict::NotTestable => 3,
        Verdict::Data => 4,
        Verdict::Fitted => 5,
        Verdict::Meets => 6,
    };
    let verdicts = own.iter().map(|check| check.verdict);
    let mut verdict = verdicts.min_by_key(|v| rank(*v)).unwrap_or(Verdict::NotTestable);
    let join = |of: fn(&Check) -> String| {
        own.iter().map(|c| of(c)).filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ")
    };
    let ours = join(|check| format!("{}: {}", check.quantity, check.ours));
    let mut note = join(|check| check.note.clone());
    if claim.section_or_figure == OUR_MODEL && verdict == Verdict::Meets {
        verdict = Verdict::Fitted;
        let why = "a figure of the fitted model, which the paper does not print";
        note = if note.is_empty() { why.to_owned() } else { format!("{note}; {why}") };
    }
    ClaimReport { claim, verdict, ours, note }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn claim(section: &str) -> Claim {
        let mut claim = claims_of(Paper::Powersave).unwrap().remove(0);
        claim.section_or_figure = section.to_owned();
        claim
    }

    #[test]
    fn a_claim_gets_the_worst_verdict_and_our_own_figures_confirm_nothing() {
        let met = Check::near(&[], "watts", 1.0, 1.0, 0.1);
        let missed = Check::near(&[], "joules", 2.0, 1.0, 0.1).note("too warm");
        assert_eq!(checked(claim("6"), &[&met]).verdict, Verdict::Meets);
        let both = checked(claim("6"), &[&met, &missed]);
        assert_eq!((both.verdict, both.note.as_str()), (Verdict::Differs, "too warm"));
        let own = checked(claim(OUR_MODEL), &[&met]);
        assert_eq!(own.verdict, Verdict::Fitted);
        assert!(own.note.contains("does not print"), "{}", own.note);
        assert_eq!(checked(claim(OUR_MODEL), &[&missed]).verdict, Verdict::Differs);
    }

    #[test]
    fn a_paper_without_its_figures_is_refused_with_the_claims_that_nothing_answers() {
        let error = report(Paper::Bolla, &[], true).unwrap_err().to_string();
        assert!(error.contains("BO-080 has neither a check nor a reason"), "{error}");
        assert!(!error.contains("BO-001"), "its context has it: {error}");
        assert_eq!(report(Paper::Bolla, &[], false).unwrap(), []);
    }

    #[test]
    fn context_names_claims_that_exist_once_each() {
        for paper in Paper::ALL {
            let ids: BTreeSet<String> =
                claims_of(paper).unwrap().into_iter().map(|claim| claim.id).collect();
            let mut seen = BTreeSet::new();
            for (id, verdict, why) in paper.context() {
                assert!(ids.contains(*id), "{id}");
                assert!(seen.insert(id), "{id} twice");
                assert!(!why.is_empty() && *verdict != Verdict::Meets, "{id}");
            }
        }
    }
}
