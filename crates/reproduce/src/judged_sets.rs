//! Ranges of a paper's claims over the judged sets of its unprinted parameters.

use crate::claims::ClaimReport;
use crate::error::ReproduceError;
use crate::paper::Paper;
use crate::planned;
use crate::sets::{Found, OverSets, SearchPlan};
use wattline_report::Verdict;

/// Judged sets of a paper.
pub(crate) struct JudgedSets {
    pub paper: Paper,
    pub plan: &'static SearchPlan,
    pub found: Found,
}

impl JudgedSets {
    /// Returns the judged checks.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        let first = self.found.judged.first();
        first.into_iter().flat_map(|one| one.figures.keys().map(String::as_str))
    }

    /// Judges a check over the sets that were simulated with these numbers of connections. A run
    /// without a finite figure does not meet the claim.
    pub fn over(
        &self,
        check: &str,
        connections: &[u32],
    ) -> Result<Option<OverSets>, ReproduceError> {
        let checks = planned::made_for(self.paper)?;
        let runs = self.found.judged.iter().filter(|one| connections.contains(&one.connections));
        let all = runs.map(|one| match one.figures.get(check) {
            Some(ours) => Ok((checks.check(check, ours)?.verdict == Verdict::Meets, ours.clone())),
            None => Ok((false, Vec::new())),
        });
        let all: Vec<_> = all.collect::<Result<_, ReproduceError>>()?;
        Ok(OverSets::of(&all, checks.widest(check, self.plan.range)?))
    }

    /// Returns the range of a claim that depends on unprinted parameters, taken from the check that
    /// the fewest sets meet.
    pub fn range(&self, claim: &str) -> Result<Option<OverSets>, ReproduceError> {
        let checks = planned::made_for(self.paper)?;
        let mut least: Option<OverSets> = None;
        for check in self.checks() {
            if checks.claims_of(check)?.contains(&claim)
                && let Some(over) = self.over(check, &self.plan.judged.connections)?
                && least.is_none_or(|known| over.held < known.held)
            {
                least = Some(over);
            }
        }
        Ok(least)
    }

    /// Adds the ranges to the claims that depend on unprinted parameters.
    pub fn add_ranges(&self, claims: &mut [ClaimReport]) -> Result<(), ReproduceError> {
        for claim in claims {
            claim.sets = self.range(&claim.claim.id)?;
            if let Some(over) = claim.sets {
                let separator = if claim.note.is_empty() { "" } else { "; " };
                claim.note.push_str(&format!("{separator}over accepted sets {}", over.text()));
            }
        }
        Ok(())
    }
}
