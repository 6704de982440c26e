//! Comparison of runs: differences between the repetitions of two settings, with their confidence.
//!
//! A run is a folder of results in JSON, one file for each repetition ([`Run::read`]). Every number
//! in them is a figure, named by its path, except the points of curves. [`Comparison`] gives means
//! with 95 % confidence intervals, and the difference of each run from the first with its own
//! interval.

mod compare;
mod figures;
mod page;
mod quantity;
mod read;
mod show;

pub use compare::{Comparison, Difference, Figure, Mean, Outcome};
pub use read::{LeftOut, Run, RunError};
