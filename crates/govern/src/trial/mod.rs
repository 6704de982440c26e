//! A trial: does setting B draw less power than setting A on a machine whose load moves all the time?
//!
//! The machine runs under A and B in blocks. Two blocks are a pair, one of each setting, in random order
//! ([`order`]); what a meter still shows of the last setting is left out ([`block`]). Load, temperature
//! and meters drift, and what they did a minute ago they mostly do now. So the difference is judged by the
//! order itself, the one thing that is known to be random ([`analysis`]). [`experiment`] is the whole.
//! A setting is a configuration of the governor, or what commands do ([`setting_file`]).

pub mod analysis;
pub mod block;
mod command;
pub mod experiment;
pub mod order;
pub mod setting_file;

pub use analysis::{Comparison, Difference, LEAST_PAIRS, METHOD, TooFewPairs};
pub use block::{Energy, Figure, Means, Meter, Reading};
pub use experiment::{
    Course, Design, Estimate, Experiment, Limits, Passed, Progress, Setting, State, estimate,
};
pub use setting_file::{InForce, SettingFile, undo_after};

#[cfg(test)]
mod validation;
