//! Numbers of claims by basis and verdict.

use crate::claims::ClaimReport;
use crate::reproduction::Reproduction;
use crate::sets::SetVerdict;
use wattline_report::{Basis, Verdict};

/// Claims of one or several papers.
#[derive(Debug)]
pub struct Summary<'a>(Vec<&'a ClaimReport>);

/// Returns all bases, and `None` for claims without a check.
pub(crate) fn bases() -> impl Iterator<Item = Option<Basis>> {
    Basis::ALL.into_iter().map(Some).chain([None])
}

impl<'a> Summary<'a> {
    /// Collects the claims of these papers.
    pub fn new(reproductions: &'a [Reproduction]) -> Self {
        Self(reproductions.iter().flat_map(|one| &one.claims).collect())
    }

    /// Returns the number of claims with this basis and verdict; `None` for no basis.
    pub fn count(&self, basis: Option<Basis>, verdict: Verdict) -> usize {
        self.0.iter().filter(|claim| (claim.basis, claim.verdict) == (basis, verdict)).count()
    }

    /// Returns the number of claims of a basis that agree, and the number that agree or differ.
    pub fn agreeing(&self, basis: Basis) -> (usize, usize) {
        let meets = self.count(Some(basis), Verdict::Meets);
        (meets, meets + self.count(Some(basis), Verdict::Differs))
    }

    /// Returns the number of predicted claims with this verdict over accepted sets.
    pub fn over_sets(&self, verdict: SetVerdict) -> usize {
        let predicted = self.0.iter().filter(|claim| claim.basis == Some(Basis::Predicted));
        predicted.filter_map(|claim| claim.sets).filter(|over| over.verdict == verdict).count()
    }

    /// Returns the number of robust, or fragile, predicted claims.
    fn robust(&self, robust: bool) -> usize {
        let predicted = self.0.iter().filter(|claim| claim.basis == Some(Basis::Predicted));
        predicted.filter(|claim| claim.robust == Some(robust)).count()
    }

    /// Returns the sentence about predicted claims, the only evidence.
    pub fn headline(&self) -> String {
        let (meets, of) = self.agreeing(Basis::Predicted);
        let (robust, fragile) = (self.robust(true), self.robust(false));
        let dependence = match robust + fragile {
            0 => String::new(),
            _ => format!(" Robust {robust}, fragile {fragile}."),
        };
        let over = SetVerdict::ALL.map(|verdict| (verdict, self.over_sets(verdict)));
        let over: Vec<String> = over
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(verdict, count)| format!("{} {count}", verdict.text()))
            .collect();
        let over = match over.is_empty() {
            true => String::new(),
            false => format!(" Over accepted sets of unprinted numbers: {}.", over.join(", ")),
        };
        format!("Predicted: {meets} of {of} agree.{dependence}{over}")
    }

    /// Returns the sentence about all other claims.
    pub fn others(&self) -> String {
        let rest = Basis::ALL.into_iter().skip(1).map(|basis| {
            let (meets, of) = self.agreeing(basis);
            format!("{} {meets} of {of}", basis.text())
        });
        let rest: Vec<String> = rest.collect();
        let without = [Verdict::PaperContradictsItself, Verdict::FigureLost, Verdict::NotTestable]
            .map(|verdict| {
                let count = bases().map(|basis| self.count(basis, verdict)).sum::<usize>();
                format!("{} {count}", verdict.text())
            });
        let again = [Verdict::Meets, Verdict::Differs].map(|verdict| self.count(None, verdict));
        let again = match again.iter().sum::<usize>() {
            0 => String::new(),
            again => format!(", repeats of a counted figure {again}"),
        };
        format!("No evidence: {}; {}{again}.", rest.join(", "), without.join(", "))
    }
}
