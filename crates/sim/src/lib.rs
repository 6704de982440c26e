//! A router in virtual time: queues, cores and watts, under a policy.
//!
//! [`run`] takes packets from a [`wattline_traffic::Source`] through link, redirect table,
//! ring, interrupt, idle state and core of a [`wattline_server::ServerModel`], while a
//! [`wattline_policy::Policy`] moves its operating point, and gives a [`Report`].
//! Every packet is simulated; no figure comes from a closed form.
//!
//! Between two events that concern all cores (a decision, a change of frequency, the end of
//! a block of packets) the cores do not influence each other. So each is run through that
//! stretch on its own, in a tight loop over its packets, and there is no list of events.
//! `docs/explanation/simulator.md` tells more.
#![forbid(unsafe_code)]

mod context;
mod cores;
mod egress;
mod energy;
mod engine;
mod error;
mod histogram;
mod latency;
mod make;
mod nic;
mod platform;
mod profile;
mod reorder;
mod report;
mod ring;
mod run;
mod scenario;
mod service;
mod setting;
mod states;
mod sweep;
mod totals;
mod views;

/// What the simulator is made of, for whoever brings cores through time in another way than
/// it: the platform `scale` does so by a clock, with real packets.
pub mod parts {
    pub use crate::context::{Costs, Counts, Sink, Stop, Watched};
    pub use crate::cores::Core;
    pub use crate::energy::AwakeLog;
    pub use crate::latency::Latency;
    pub use crate::make::CoreMake;
    pub use crate::nic::Link;
    pub use crate::report::power_terms;
    pub use crate::ring::Ring;
    pub use crate::service::ServiceTime;
    pub use crate::states::{Spent, Totals as StateTotals};
}

pub use error::SimError;
pub use platform::{platform_of, platform_part};
pub use profile::{Phase, Profile};
pub use report::{CoreResidency, Report, Residency};
pub use run::{run, run_with};
pub use scenario::Scenario;
pub use setting::Setting;
pub use states::{CoreState, StateSpan};
pub use sweep::sweep;
