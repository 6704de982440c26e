//! The loop that makes power follow traffic: observe, decide, act, account.
//!
//! A policy decides ([`wattline_policy`]), [`step`] puts the way from one operating point to the
//! next into a safe order, and a [`machine`] takes the steps: this one, or the emulated cores
//! of a server model.

pub mod host;
pub mod machine;
pub mod step;
