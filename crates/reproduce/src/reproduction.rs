//! The work on a paper, and what came of it.

use crate::claims::{self, ClaimReport};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::paper::Paper;
use crate::target::{Target, Wanted};
use serde::Serialize;
use wattline_report::Verdict;

/// One paper, reproduced.
#[derive(Debug, Serialize)]
pub struct Reproduction {
    /// Which one.
    pub paper: Paper,
    /// Its title.
    pub title: &'static str,
    /// In the order of the paper.
    pub figures: Vec<Figure>,
    /// Every claim of the paper with its verdict.
    pub claims: Vec<ClaimReport>,
}

impl Reproduction {
    /// How many claims have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

/// How many steps the targets take, for a progress bar.
pub fn steps(targets: &[Target]) -> usize {
    Wanted::of(targets).iter().map(|wanted| wanted.steps().count()).sum()
}

/// Reproduces papers, or figures of them. `begins` is told the name of every step before it
/// runs. Of a paper that is not wanted as a whole, only those claims are reported that the
/// figures answer.
///
/// # Errors
/// When a model, a simulation or the shipped table of claims fails; not when figures differ.
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
