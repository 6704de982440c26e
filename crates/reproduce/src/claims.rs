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

pub(super) fn claims_of(paper: Paper) -> Result<Vec<Claim>, ReproduceError> {
    Ok(claim::all()?.into_iter().filter(|claim| claim.paper == paper.name()).collect())
}

pub(super) fn report(paper: Paper, figures: &[Figure]) -> Result<Vec<ClaimReport>, ReproduceError> {
    let checks: Vec<&Check> = figures.iter().flat_map(|figure| &figure.checks).collect();
    let answer = |claim: Claim| {
        let own: Vec<&&Check> =
            checks.iter().filter(|check| check.claims.contains(&claim.id.as_str())).collect();
        if own.is_empty() {
            let context = paper.context().iter().find(|(id, ..)| *id == claim.id);
            let (verdict, note) = context.map_or(
                (Verdict::NotTestable, "nothing is known of it here"),
                |(_, verdict, note)| (*verdict, *note),
            );
            return ClaimReport { claim, verdict, ours: String::new(), note: note.to_owned() };
        }
        let rank = |verdict: Verdict| match verdict {
            Verdict::Differs => 0,
            Verdict::PaperContradictsItself => 1,
            Verdict::FigureLost => 2,
            Verdict::NotTestable => 3,
            Verdict::Fitted => 4,
            Verdict::Meets => 5,
        };
        let verdicts = own.iter().map(|check| check.verdict);
        let verdict = verdicts.min_by_key(|v| rank(*v)).unwrap_or(Verdict::NotTestable);
        let join = |of: fn(&Check) -> String| {
            own.iter().map(|c| of(c)).filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ")
        };
        ClaimReport {
            claim,
            verdict,
            ours: join(|check| format!("{}: {}", check.quantity, check.ours)),
            note: join(|check| check.note.clone()),
        }
    };
    Ok(claims_of(paper)?.into_iter().map(answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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
