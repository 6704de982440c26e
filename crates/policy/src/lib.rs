//! Governors as pure logic: observation in, operating point out.
//!
//! A [`Policy`] never reads a clock, never does I/O and never draws a random number but
//! from a seed that it was built with. So the very same code decides on simulated packets,
//! on emulated cores and on a real machine; [`Platform`] tells it which of the knobs exist.
//!
//! One file of [`policies`] is one policy; [`registry`] lists them.
#![forbid(unsafe_code)]

mod ask;
mod build;
mod core_set;
mod envelope;
mod indirection;
mod info;
mod looks;
pub mod moderation;
mod needs;
mod observation;
mod parameter;
mod platform;
mod point;
pub mod policies;
mod reason;
mod reference;
mod registry;
mod senses;
mod spec;
mod wait;

pub use ask::{AskAgain, FillLevel};
pub use build::build;
pub use core_set::{CoreSet, MAX_CORES};
pub use envelope::{Envelope, EnvelopeStep};
pub use indirection::IndirectionTable;
pub use info::{BuildContext, PolicyInfo};
pub use looks::Looks;
pub use needs::NeedsWorkers;
pub use observation::{
    CoreView, LatencyView, MAX_IDLE_STATES, Observation, PowerView, QueueView, Trigger,
};
pub use parameter::{Kind, Parameter, Parameters, Value};
pub use platform::{Can, FrequencyDomain, IdleState, Platform, PlatformError, Queue};
pub use point::{CoreSetting, OperatingPoint};
pub use reason::Reason;
pub use reference::reference_markdown;
pub use registry::{POLICIES, find};
pub use senses::{Asks, Sees, Timing, Waits};
pub use spec::{PolicySpec, SpecError, SpecProblem};
pub use wait::Wait;

use moderation::RuleKind;
use wattline_units::Time;

/// A governor: looks at what happens and says how the machine should run.
///
/// The caller asks once at the start ([`Trigger::Start`]) and then whenever [`AskAgain`]
/// said so. `point` holds the present operating point on the way in and the wanted one on
/// the way out; it is changed in place, so that a decision allocates nothing. What the
/// platform cannot do it ignores and reports; a policy may leave such fields as they are.
pub trait Policy: Send {
    /// The name under which the registry lists it.
    fn name(&self) -> &'static str;

    /// What of the observation it looks at, at every decision.
    fn looks_at(&self) -> Looks {
        Looks::WHOLE
    }

    /// Decides at time `now`, counted from the start of the run.
    fn decide(
        &mut self,
        now: Time,
        observation: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain;
    /// The driver's rule that a queue's interrupts are left to from the last decision on; `None`
    /// for the period of the operating point. A policy asks for a rule only of a platform that
    /// has them ([`Can::driver_rules`]).
    fn driver_rule(&self, _queue: usize) -> Option<RuleKind> {
        None
    }

    /// Why the last decision left the operating point as it is; `None` of a policy that has no
    /// words for it. It allocates nothing.
    fn reason(&self) -> Option<Reason> {
        None
    }

    /// What a user should know of its decisions, such as that no point meets its target.
    fn remark(&self) -> Option<String> {
        None
    }
}
