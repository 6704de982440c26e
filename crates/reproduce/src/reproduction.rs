//! Reproduction of papers and its result.

use crate::claims::{self, ClaimReport};
use crate::copi;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::flips;
use crate::inputs::Inputs;
use crate::judged_sets::JudgedSets;
use crate::own::OwnTraffic;
use crate::paper::Paper;
use crate::powersave;
use crate::runner::{self, Progress};
use crate::sets::SetVerdict;
use crate::step::Step;
use crate::target::{Target, Wanted};
use serde::Serialize;
use wattline_report::Verdict;
use wattline_units::Build;

/// Result of reproducing one paper.
#[derive(Debug, Serialize)]
pub struct Reproduction {
    /// Build of the program that reproduced it.
    pub build: Build,
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
    /// Returns the number of claims with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

/// Returns the number of steps of these targets, for a progress bar.
pub fn steps(targets: &[Target]) -> usize {
    Wanted::of(targets).iter().map(|wanted| wanted.steps().count()).sum()
}

/// Reproduces papers or single figures, several steps side by side. It calls `progress` when a step
/// begins or ends. For single figures of a paper, only the claims that these figures answer are
/// reported.
///
/// # Errors
/// Fails when a model, a simulation or the shipped table of claims fails, and when a claim of a
/// whole paper has neither a check nor a reason for having none. Results that differ from the paper
/// are not errors.
pub fn reproduce(
    targets: &[Target],
    progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Vec<Reproduction>, ReproduceError> {
    reproduce_with(targets, &Inputs::default(), None, progress)
}

/// Reproduces papers or single figures, and repeats the search for accepted sets of unprinted
/// parameters instead of reading their record.
///
/// # Errors
/// As [`reproduce`].
pub fn reproduce_fresh(
    targets: &[Target],
    progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Vec<Reproduction>, ReproduceError> {
    reproduce_with(targets, &Inputs::with_new_search(), None, progress)
}

/// Reproduces papers or single figures with one input changed, as a predicted check names it:
/// `FILE: KEY = VALUE` or `FILE: KEY * FACTOR`.
///
/// # Errors
/// As [`reproduce`], and when the text is not a change of an input, or an absurd one: a constant
/// may change by a factor of at most two, and its effect may be switched off.
pub fn reproduce_changed(
    targets: &[Target],
    change: &str,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Vec<Reproduction>, ReproduceError> {
    reproduce_with(targets, &Inputs::changed(change)?, None, progress)
}

/// Reproduces single figures with the reader's own traffic in place of the paper's. Nothing is
/// compared with what the paper prints.
///
/// # Errors
/// As [`reproduce`], and for a figure that has no traffic.
pub fn reproduce_own(
    targets: &[Target],
    own: &OwnTraffic,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Vec<Reproduction>, ReproduceError> {
    reproduce_with(targets, &Inputs::default(), Some(own), progress)
}

/// Returns the verdict on a claim over the accepted sets on record, and its robustness by the
/// record of flips.
///
/// # Errors
/// When a record is damaged or belongs to other inputs.
pub fn recorded(claim: &str) -> Result<(Option<SetVerdict>, Option<bool>), ReproduceError> {
    let mut over = None;
    for paper in Paper::ALL {
        if let Some(sets) = judged_sets(paper, false)? {
            over = over.or(sets.range(claim)?);
        }
    }
    Ok((over.map(|over| over.verdict), flips::robust(claim)?))
}

/// Returns the judged sets of a paper, if it has any.
fn judged_sets(paper: Paper, fresh: bool) -> Result<Option<JudgedSets>, ReproduceError> {
    match paper {
        Paper::Copi => copi::judged_sets(fresh).map(Some),
        Paper::Powersave => powersave::judged_sets(fresh).map(Some),
        _ => Ok(None),
    }
}

fn reproduce_with(
    targets: &[Target],
    inputs: &Inputs,
    own: Option<&OwnTraffic>,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Vec<Reproduction>, ReproduceError> {
    let wanted = Wanted::of(targets);
    let steps: Vec<&'static Step> = wanted.iter().flat_map(Wanted::steps).collect();
    if own.is_some()
        && let Some(target) = targets.iter().find(|target| !target.takes_traffic())
    {
        let with_traffic = Target::all().filter(Target::takes_traffic).map(|target| target.name());
        return Err(ReproduceError::NoTraffic {
            figure: target.name(),
            with_traffic: with_traffic.collect::<Vec<_>>().join(", "),
        });
    }
    let mut made = runner::run(&steps, inputs, own, progress)?.into_iter();
    let mut all = Vec::new();
    for wanted in wanted {
        let mut figures = Vec::new();
        for (step, made) in wanted.steps().zip(made.by_ref()) {
            if !made.iter().map(|figure| figure.id).eq(step.figures.iter().copied()) {
                return Err(ReproduceError::Model(format!("{}: not its figures", step.name)));
            }
            figures.extend(made.into_iter().filter(|figure| wanted.has(figure.id)));
        }
        let paper = wanted.paper;
        let mut claims = claims::report(paper, &figures, wanted.whole())?;
        if let Some(sets) = judged_sets(paper, inputs.fresh)? {
            sets.add_ranges(&mut claims)?;
        }
        flips::add(inputs, &mut claims)?;
        all.push(Reproduction {
            build: Build::default(),
            paper,
            title: paper.title(),
            figures,
            claims,
        });
    }
    Ok(all)
}
