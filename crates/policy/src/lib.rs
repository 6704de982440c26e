//! The contract of policies: observation in, operating point out.
//!
//! A [`Policy`] reads no clock and does no I/O. Random numbers come only from the seed that it was
//! built with. So the same code decides on simulated packets, on emulated cores and on a real
//! machine. [`Platform`] lists the available knobs.
//!
//! The policies themselves are in `wattline-policies`; programs hand its [`Registry`] to the code
//! that chooses by name.
#![forbid(unsafe_code)]

mod ask;
mod build;
mod core_set;
mod envelope;
mod estimator;
mod indirection;
mod info;
mod latency;
mod looks;
pub mod moderated;
pub mod moderation;
mod needs;
mod observation;
mod parameter;
mod platform;
mod point;
mod reason;
mod registry;
mod senses;
mod spec;
mod streaks;
pub mod tables;
pub mod testing;
mod wait;

pub use ask::{AskAgain, FillLevel};
pub use build::build;
pub use core_set::{CoreSet, MAX_CORES};
pub use envelope::{Envelope, EnvelopeStep};
pub use estimator::QueueEstimator;
pub use indirection::IndirectionTable;
pub use info::{BuildContext, PolicyInfo};
pub use latency::Latency;
pub use looks::Looks;
pub use needs::NeedsWorkers;
pub use observation::{
    CoreView, LatencyView, MAX_IDLE_STATES, Observation, PowerView, QueueView, Trigger,
};
pub use parameter::{Kind, Parameter, Parameters, Preset, Value};
pub use platform::{Can, FrequencyDomain, IdleState, Platform, PlatformError, Queue};
pub use point::{CoreSetting, OperatingPoint};
pub use reason::Reason;
pub use registry::Registry;
pub use senses::{Asks, Sees, Timing, Waits};
pub use spec::{PolicySpec, SpecError, SpecProblem};
pub use streaks::{BeyondPolls, FillRead, Level, StreakReset, StreakRule, Streaks};
pub use wait::Wait;

use moderation::RuleKind;

/// Decides from observations how a machine should run.
///
/// The caller asks once at the start ([`Trigger::Start`]) and then whenever the last [`AskAgain`]
/// requires. `point` holds the present operating point before the call and the wanted one after it.
/// It is changed in place, so that a decision allocates nothing. The platform ignores and reports
/// settings that it does not have; a policy may leave such fields unchanged.
pub trait Policy: Send {
    /// Returns the parts of the observation that the policy uses.
    fn looks_at(&self) -> Looks {
        Looks::WHOLE
    }

    /// Decides from the present observation.
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain;

    /// Returns the driver's rule that moderates a queue's interrupts after the last decision;
    /// `None` if the operating point's period moderates them. A policy uses rules only on a
    /// platform that has them ([`Can::driver_rules`]).
    fn driver_rule(&self, _queue: usize) -> Option<RuleKind> {
        None
    }

    /// Returns the reason for the last decision; `None` if the policy gives none. Allocates
    /// nothing.
    fn reason(&self) -> Option<Reason> {
        None
    }

    /// Returns a remark for the user about the decisions, for example that no operating point meets
    /// the target.
    fn remark(&self) -> Option<String> {
        None
    }
}
