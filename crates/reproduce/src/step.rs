//! The pieces of work that papers are made of.

use crate::error::ReproduceError;
use crate::figure::Figure;
use wattline_report::Verdict;

/// What is said to a claim that no figure checks: its id, a verdict, and why.
pub(crate) type Context = (&'static str, Verdict, &'static str);

/// A piece of work.
pub(crate) struct Step {
    /// What it is called while it runs.
    pub(crate) name: &'static str,
    /// Ids of the figures that it gives, in their order.
    pub(crate) figures: &'static [&'static str],
    /// Makes them.
    pub(crate) run: Run,
}

pub(crate) type Run = fn() -> Result<Vec<Figure>, ReproduceError>;

impl Step {
    /// Of this name, with figures of these ids, made so.
    pub(crate) const fn new(
        name: &'static str,
        figures: &'static [&'static str],
        run: Run,
    ) -> Self {
        Self { name, figures, run }
    }
}
