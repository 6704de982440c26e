//! A trial: does setting B draw less power than setting A on a machine with constantly changing
//! load?
//!
//! The machine runs under A and B in blocks. Two blocks, one of each setting in random order, are a
//! pair ([`order`]). The time in which a meter still shows the last setting is left out
//! ([`block`]). Load, temperature and meters drift, and neighbouring blocks are mostly alike. So
//! the test of the difference rests on the order itself, the one thing that is known to be random
//! ([`analysis`]). [`experiment`] combines all this. A setting is a configuration of the governor,
//! or a set of commands ([`setting_file`]).

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
