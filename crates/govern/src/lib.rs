//! The governor of any Linux server, without a router: `wattline govern`.
//!
//! The governor takes the machine's knobs (frequency, idle states, interrupt moderation), lets a
//! policy decide by the kernel's counters, and leaves no trace when it ends, is killed or crashes:
//! every write goes through the journal of `wattline-knobs`. Without a configuration, a built-in
//! [`profile`] applies. If latency is measured ([`latency`]) and has a target, the target takes
//! precedence over savings.
//!
//! [`Daemon`] governs; [`plan`] shows its writes beforehand.
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
mod messages;
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
pub mod trial;

pub use block::{Block, NONE, without_address};
pub use choice::check;
pub use daemon::{Daemon, Options};
pub use error::GovernError;
pub use inventory::LeftOut;
pub use messages::SET_BY_ANOTHER_GOVERNOR;
pub use plan::{GovernPlan, GovernPlanError, plan};
