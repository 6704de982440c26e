//! The model of a core at work: rings, batches, idle states, interrupts, energy.
//!
//! [`CoreMake`] makes the [`Core`]s of a server model. A core has no clock of its own: its driver
//! calls [`Core::advance`] and directs packets to its [`Ring`]s. The simulator (`sim`) does so from
//! event to event, and the platform `scale` by a clock, with real packets. Both therefore have the
//! same rules. All times are in picoseconds since the start.
//!
//! Cores write their output to a [`Sink`]: latencies, times at which any core was awake
//! ([`AwakeLog`]), packets held back to keep flows in order ([`Watch`]), and packets for the output
//! links ([`Egress`]). [`power_terms`] gives the power, and [`platform_of`] the server as policies
//! see it.
#![forbid(unsafe_code)]

mod context;
mod egress;
mod energy;
mod error;
mod fixed;
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
pub use link::Link;
pub use make::CoreMake;
pub use platform::{domain_of, idle_state, platform_of, platform_part};
pub use power::power_terms;
pub use reorder::{OrderCounts, Watch};
pub use ring::Ring;
pub use service::ServiceTime;
pub use states::{CoreState, Spent, StateSpan, Totals as StateTotals};
pub use work::Core;
