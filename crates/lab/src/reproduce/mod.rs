//! What the papers print, computed anew and held against it.
//!
//! Every figure gives its data, plots and [`Check`]s; every row of `published/claims.csv`
//! is reported, with a verdict. Where a paper contradicts itself, or its figure is lost,
//! that is said and nothing is mended.

pub mod bolla;
mod claims;
mod liao;
mod output;
mod page;
mod planned;
pub mod powersave;
mod report;
mod sohan;
mod table;
mod target;

pub use claims::{Claim, ClaimReport};
pub(crate) use page::{STYLE, checks};
pub use report::{Check, Figure, Grounds, Verdict};
pub use table::Table;
pub use target::Target;

use serde::Serialize;
use std::path::{Path, PathBuf};
use target::Wanted;

/// A paper that can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// L. Niccolini et al., Building a power-proportional software router, 2012.
    Powersave,
    /// R. Bolla et al., Green support for PC-based software router, 2011.
    Bolla,
    /// G. Liao, L. Bhuyan, Analyzing performance and power efficiency of network processing, 2012.
    Liao,
    /// R. Sohan et al., Characterizing 10 Gbps network interface energy consumption, 2010.
    Sohan,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Powersave, Self::Bolla, Self::Liao, Self::Sohan];

    /// Its name on the command line and in `claims.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Powersave => "powersave",
            Self::Bolla => "bolla",
            Self::Liao => "liao",
            Self::Sohan => "sohan",
        }
    }

    /// As one would cite it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Powersave => {
                "L. Niccolini, G. Iannaccone, S. Ratnasamy, J. Chandrashekar, L. Rizzo: \
                 Building a power-proportional software router"
            }
            Self::Bolla => {
                "R. Bolla, R. Bruschi, A. Ranieri: Green support for PC-based software router: \
                 performance evaluation and modeling"
            }
            Self::Liao => {
                "G. Liao, L. Bhuyan: Analyzing performance and power efficiency of network \
                 processing over 10 GbE"
            }
            Self::Sohan => {
                "R. Sohan, A. Rice, A. W. Moore, K. Mansley: Characterizing 10 Gbps network \
                 interface energy consumption"
            }
        }
    }

    fn steps(self) -> &'static [Step] {
        match self {
            Self::Powersave => powersave::STEPS,
            Self::Bolla => bolla::STEPS,
            Self::Liao => liao::STEPS,
            Self::Sohan => sohan::STEPS,
        }
    }

    fn context(self) -> &'static [claims::Context] {
        match self {
            Self::Powersave => powersave::CONTEXT,
            Self::Bolla => bolla::CONTEXT,
            Self::Liao => liao::CONTEXT,
            Self::Sohan => sohan::CONTEXT,
        }
    }
}

/// A piece of work.
pub(crate) struct Step {
    /// What it is called while it runs.
    name: &'static str,
    /// Ids of the figures that it gives, in their order.
    figures: &'static [&'static str],
    run: Run,
}

type Run = fn() -> Result<Vec<Figure>, ReproduceError>;

impl Step {
    const fn new(name: &'static str, figures: &'static [&'static str], run: Run) -> Self {
        Self { name, figures, run }
    }
}

/// Why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No paper or figure of this name.
    #[error("\"{0}\" is no paper or figure that can be reproduced; allowed:{1}")]
    UnknownTarget(String, String),
    /// The model of the server could not be had.
    #[error(transparent)]
    Server(#[from] wattline_server::LoadError),
    /// Measured costs of applications say nothing of the server.
    #[error(transparent)]
    Costs(#[from] wattline_server::CostsError),
    /// The model of the server lacks figures.
    #[error(transparent)]
    Incomplete(#[from] wattline_server::Incomplete),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] wattline_sim::SimError),
    /// A policy of the comparison is not known.
    #[error(transparent)]
    Policy(#[from] wattline_policy::SpecError),
    /// The traffic of a figure could not be made.
    #[error(transparent)]
    Traffic(#[from] wattline_traffic::spec::BuildError),
    /// A fit failed.
    #[error(transparent)]
    Fit(#[from] wattline_server::fit::FitError),
    /// A step did not get what it needs from the model.
    #[error("{0}")]
    Model(String),
    /// The table of claims that is shipped is broken.
    #[error("published/claims.csv: {0}")]
    Claims(#[from] csv::Error),
    /// A result could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

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

/// Writes data, plots, `summary.json` and one page with everything below `out`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(reproductions: &[Reproduction], out: &Path) -> Result<(), ReproduceError> {
    output::write(reproductions, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every claim of a paper is either checked by some figure or has a word in its context.
    #[test]
    fn no_claim_is_forgotten() {
        let checked = [
            include_str!("powersave/baseline.rs"),
            include_str!("powersave/breakdown.rs"),
            include_str!("powersave/bursts.rs"),
            include_str!("powersave/day.rs"),
            include_str!("powersave/grid.rs"),
            include_str!("powersave/ladder.rs"),
            include_str!("powersave/latency.rs"),
            include_str!("powersave/mod.rs"),
            include_str!("powersave/rules.rs"),
            include_str!("powersave/sleep.rs"),
        ]
        .concat();
        for claim in claims::claims_of(Paper::Powersave).unwrap() {
            assert!(checked.contains(&format!("\"{}\"", claim.id)), "{}", claim.id);
        }
    }
}
