//! The model of a core at work: rings, batches, idle states, interrupts, energy.
//!
//! [`CoreMake`] makes the [`Core`]s of a server model. A core has no clock of its own: whoever
//! brings it through time calls [`Core::advance`] and leads packets to its [`Ring`]s. The
//! simulator (`sim`) does so from event to event, the platform `scale` by a clock, with real
//! packets; so both have the very same rules. All times are picoseconds since the start.
//!
//! What cores do is written to a [`Sink`]: latencies, when any of them was awake ([`AwakeLog`]),
//! what is held back to keep flows in order ([`Watch`]), output links ([`Egress`]). What it cost
//! says [`power_terms`]. [`platform_of`] is the server as policies see it.
#![forbid(unsafe_code)]

mod context;
mod egress;
mod energy;
mod error;
mod fixed;
mod histogram;
mod latency;
mod link;
mod make;
mod platform;
mod power;
mod reorder;
mod ring;
mod service;
mod states;
mod work;

pub use context::{Costs, Counts, Sink, Stop, Watched};
pub use egress::{Departure, Egress, EgressCounts};
pub use energy::AwakeLog;
pub use error::ModelError;
pub use latency::Latency;
pub use link::Link;
pub use make::CoreMake;
pub use platform::{platform_of, platform_part};
pub use power::power_terms;
pub use reorder::{OrderCounts, Watch};
pub use ring::Ring;
pub use service::ServiceTime;
pub use states::{CoreState, Spent, StateSpan, Totals as StateTotals};
pub use work::Core;
