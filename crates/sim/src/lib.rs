//! A router in virtual time: queues, cores and watts, under a policy.
//!
//! [`run`] takes packets from a [`wattline_traffic::Source`] through link, indirection table, ring,
//! interrupt, idle state and core of a [`wattline_server::ServerModel`], while a
//! [`wattline_policy::Policy`] moves its operating point. The result is a [`Report`]. Every packet
//! is simulated; no figure comes from a closed form.
//!
//! Between two events that concern all cores (a decision, a change of frequency, the end of a block
//! of packets) the cores do not influence each other. Each core is therefore run through that span
//! separately, in a tight loop over its packets, and there is no list of events.
//! `docs/explanation/simulator.md` explains this.
//!
//! [`requests`] simulates servers that answer requests through the kernel's stack.
#![forbid(unsafe_code)]

mod engine;
mod error;
mod knobs;
mod nic;
mod profile;
mod report;
pub mod requests;
mod run;
mod scenario;
mod setting;
mod sweep;
mod tally;
mod totals;
mod views;

pub use error::SimError;
pub use knobs::{BehaviourError, Fault, KnobBehaviour};
pub use profile::{Phase, Profile};
pub use report::{CoreResidency, Report, Residency};
pub use run::{run, run_with};
pub use scenario::Scenario;
pub use setting::Setting;
pub use sweep::sweep;
pub use tally::Tally;
