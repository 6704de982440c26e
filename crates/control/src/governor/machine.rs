//! What a governor drives: the emulated cores of a server model, or this machine.

use super::step::Step;
use wattline_policy::{CoreView, LatencyView, Platform, QueueView};
use wattline_units::Time;

/// What was seen of a machine; kept and overwritten, so that looking allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// By number of the queue, as the platform counts them.
    pub queues: Vec<QueueView>,
    /// By number of the core.
    pub cores: Vec<CoreView>,
    /// Latency since the last look, where it is measured.
    pub latency: Option<LatencyView>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Taken {
    /// Done, and read back as asked where it can be read back.
    Done,
    /// The machine made something else of it.
    Altered {
        /// What it shows now.
        found: String,
    },
    /// Somebody else has changed the setting; it was left as it is.
    Foreign {
        /// What it shows.
        found: String,
    },
    /// It was refused or failed; the machine is as before.
    Failed {
        /// Why, and what to do.
        why: String,
    },
}

/// A machine that can be watched and set.
pub trait Machine: Send {
    /// What a policy is told about it; fixed during a run.
    fn platform(&self) -> &Platform;

    /// The time on its clock since the run began: model time on an emulated machine.
    fn now(&self) -> Time;

    /// Looks at it. Counters in the view never go back.
    fn observe(&mut self, now: Time, view: &mut View);

    /// Takes one step towards another operating point.
    fn take(&mut self, step: &Step) -> Taken;
}
