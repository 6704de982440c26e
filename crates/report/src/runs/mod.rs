//! Runs compared with each other: what differs between repetitions of one thing and repetitions of
//! another, and how sure that is.
//!
//! A run is a folder of results in JSON, one file for each repetition ([`Run::read`]). Every number in
//! them is a figure, by its path, but for the points of curves. [`Comparison`] gives their means with 95 % confidence intervals, and
//! the difference of each run from the first with one of its own.

mod compare;
mod figures;
mod page;
mod quantity;
mod read;
mod show;

pub use compare::{Comparison, Difference, Figure, Mean, Outcome};
pub use read::{LeftOut, Run, RunError};
