//! Reproduction of papers and its result.

use crate::claims::{self, ClaimReport};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::paper::Paper;
use crate::target::{Target, Wanted};
use serde::Serialize;
use wattline_report::Verdict;

/// Result of reproducing one paper.
#[derive(Debug, Serialize)]
pub struct Reproduction {
    /// The paper.
    pub paper: Paper,
    /// Title of the paper.
    pub title: &'static str,
    /// Figures in the order of the paper.
    pub figures: Vec<Figure>,
    /// Every claim of the paper with its verdict.
    pub claims: Vec<ClaimReport>,
}

impl Reproduction {
    /// Number of claims with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

/// Number of steps that the targets take, for a progress bar.
pub fn steps(targets: &[Target]) -> usize {
    Wanted::of(targets).iter().map(|wanted| wanted.steps().count()).sum()
}

/// Reproduces papers or single figures. `begins` is called with the name of every step before the
/// step runs. If only some figures of a paper are wanted, only the claims that these figures answer
/// are reported.
///
/// # Errors
/// Fails when a model, a simulation or the shipped table of claims fails, but not when results
/// differ from the paper.
pub fn reproduce(
    targets: &[Target],
    mut begins: impl FnMut(&str),
) -> Result<Vec<Reproduction>, ReproduceError> {
    let mut all = Vec::new();
    for wanted in Wanted::of(targets) {
        let paper = wanted.paper;
        let mut figures = Vec::new();
        for step in wanted.steps() {
            begins(step.name);
            let made = (step.run)()?;
            if !made.iter().map(|figure| figure.id).eq(step.figures.iter().copied()) {
                return Err(ReproduceError::Model(format!("{}: not its figures", step.name)));
            }
            figures.extend(made.into_iter().filter(|figure| wanted.has(figure.id)));
        }
        let mut claims = claims::report(paper, &figures)?;
        if !wanted.whole() {
            let answers: Vec<&str> =
                figures.iter().flat_map(|f| &f.checks).flat_map(|c| c.claims.clone()).collect();
            claims.retain(|report| answers.contains(&report.claim.id.as_str()));
        }
        all.push(Reproduction { paper, title: paper.title(), figures, claims });
    }
    Ok(all)
}
