//! Targets of a reproduction: a paper, or one figure of it.

use crate::error::ReproduceError;
use crate::paper::Paper;
use crate::step::Step;
use crate::{bolla, copi, liao, powersave, sohan};
use std::str::FromStr;

/// Name of all papers together.
const EVERYTHING: &str = "all";

/// Steps that make the figures of a paper, in the order of the figures.
fn steps_of(paper: Paper) -> &'static [Step] {
    match paper {
        Paper::Powersave => powersave::STEPS,
        Paper::Bolla => bolla::STEPS,
        Paper::Liao => liao::STEPS,
        Paper::Sohan => sohan::STEPS,
        Paper::Copi => copi::STEPS,
    }
}

/// A paper, or one figure of it, written as `powersave` or `powersave/fig12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The paper.
    pub paper: Paper,
    /// Id of the figure; `None` for all figures.
    pub figure: Option<&'static str>,
}

impl Target {
    /// Returns all targets: each paper, followed by its figures.
    pub fn all() -> impl Iterator<Item = Self> {
        Paper::ALL.into_iter().flat_map(|paper| {
            let ids = steps_of(paper).iter().flat_map(|step| step.figures);
            let figures = ids.map(move |id| Self { paper, figure: Some(id) });
            std::iter::once(Self::from(paper)).chain(figures)
        })
    }

    /// Returns the targets of a name on the command line: one, or every paper for [`EVERYTHING`].
    ///
    /// # Errors
    /// An unknown name; the message lists all names.
    pub fn named(name: &str) -> Result<Vec<Self>, ReproduceError> {
        if name == EVERYTHING {
            return Ok(Paper::ALL.map(Self::from).to_vec());
        }
        name.parse().map(|target| vec![target])
    }

    /// Returns true if this is a figure whose traffic can be replaced by the reader's own.
    pub fn takes_traffic(&self) -> bool {
        let of = |step: &&Step| self.figure.is_some_and(|id| step.figures.contains(&id));
        steps_of(self.paper).iter().filter(of).any(|step| step.own.is_some())
    }

    /// Returns the name of the target on the command line.
    pub fn name(&self) -> String {
        let paper = self.paper.name();
        self.figure.map_or(paper.to_owned(), |figure| format!("{paper}/{figure}"))
    }
}

impl From<Paper> for Target {
    fn from(paper: Paper) -> Self {
        Self { paper, figure: None }
    }
}

impl FromStr for Target {
    type Err = ReproduceError;
    fn from_str(name: &str) -> Result<Self, ReproduceError> {
        Self::all()
            .find(|target| target.name() == name)
            .ok_or_else(|| ReproduceError::UnknownTarget(name.to_owned(), listed()))
    }
}

/// Lists the names of all targets, one line per paper.
fn listed() -> String {
    let mut text = format!("\n  {EVERYTHING}");
    for target in Target::all() {
        text.push_str(if target.figure.is_none() { "\n  " } else { ", " });
        text.push_str(&target.name());
    }
    text
}

/// Targets within one paper.
pub(super) struct Wanted {
    pub(super) paper: Paper,
    figures: Option<Vec<&'static str>>,
}

impl Wanted {
    /// Groups targets by paper, in the order of first appearance of the papers.
    pub(super) fn of(targets: &[Target]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for target in targets {
            let figures = target.figure.map(|id| vec![id]);
            match all.iter_mut().find(|wanted| wanted.paper == target.paper) {
                None => all.push(Self { paper: target.paper, figures }),
                Some(wanted) => match (&mut wanted.figures, target.figure) {
                    (Some(ids), Some(id)) => ids.push(id),
                    (ids, _) => *ids = None,
                },
            }
        }
        all
    }

    /// Returns true if the whole paper is wanted.
    pub(super) fn whole(&self) -> bool {
        self.figures.is_none()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.figures.as_ref().is_none_or(|ids| ids.contains(&id))
    }

    /// Returns the steps that make a wanted figure.
    pub(super) fn steps(&self) -> impl Iterator<Item = &'static Step> {
        steps_of(self.paper).iter().filter(|step| step.figures.iter().any(|id| self.has(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_leads_to_its_target_and_names_are_unique() {
        let names: Vec<String> = Target::all().map(|target| target.name()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.len() > 20, "{names:?}");
        for (name, target) in names.iter().zip(Target::all()) {
            assert_eq!(name.parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn all_is_every_paper_and_unknown_name_is_refused() {
        let all = Target::named("all").unwrap();
        assert_eq!(all.len(), Paper::ALL.len());
        assert!(all.iter().all(|target| target.figure.is_none()));
        assert_eq!(Target::named("liao/rings").unwrap(), ["liao/rings".parse().unwrap()]);
        let error = Target::named("nobody").unwrap_err().to_string();
        assert!(error.contains("\n  all\n  powersave, "), "{error}");
    }

    #[test]
    fn figure_and_its_paper_are_the_paper() {
        let targets = ["powersave/fig3", "bolla/fig7", "powersave", "bolla/fig3"]
            .map(|name| name.parse().unwrap());
        let wanted = Wanted::of(&targets);
        assert_eq!(wanted.len(), 2);
        assert!(wanted[0].whole() && wanted[0].steps().count() == steps_of(Paper::Powersave).len());
        assert!(!wanted[1].whole() && wanted[1].has("fig3") && !wanted[1].has("fig5"));
        assert_eq!(wanted[1].steps().count(), 2);
    }
}
