//! The governor of any Linux server, without a router: `wattline govern`.
//!
//! It takes the knobs that the machine has (frequency, idle states, interrupt moderation), lets a
//! policy decide by what the kernel counts, and leaves no trace when it ends, is killed or
//! crashes: every write goes through the journal of `wattline-knobs`. Without a configuration a
//! built-in [`profile`] holds. Where somebody measures latency ([`latency`]) and there is a target,
//! the target stands above what could be saved.
//!
//! [`Daemon`] is its life; [`plan`] says beforehand what it would do.
#![forbid(unsafe_code)]
// A daemon writes to its log: printing blocks on a stalled reader and panics without one.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod block;
mod choice;
pub mod config;
mod counters;
mod daemon;
mod error;
mod fingerprint;
mod guard;
mod hardware;
mod inventory;
pub mod latency;
mod left_alone;
mod metrics;
mod plan;
mod pressure;
pub mod profile;
pub mod profiling;
mod session;
#[cfg(test)]
mod simulated;
mod slept;
mod stats;
mod tell;
pub mod trial;

pub use block::{Block, NONE, without_address};
pub use choice::check;
pub use daemon::{Daemon, Options};
pub use error::GovernError;
pub use inventory::LeftOut;
pub use plan::{GovernPlan, GovernPlanError, plan};
pub use tell::SET_BY_ANOTHER_GOVERNOR;
