//! What a governor drives: the emulated cores of a server model, or this machine.

use super::energy::Energy;
use super::pace::Pace;
use super::step::Step;
use wattline_policy::{
    CoreView, LatencyView, Looks, OperatingPoint, Platform, PowerView, QueueView,
};
use wattline_units::Time;

/// What was seen of a machine; kept and overwritten, so that looking allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// By number of the queue, as the platform counts them.
    pub queues: Vec<QueueView>,
    /// By number of the core.
    pub cores: Vec<CoreView>,
    /// Latency since the last look at it, where it is measured and looked at.
    pub latency: Option<LatencyView>,
    /// Power since the last look at it, where it is known and looked at.
    pub power: Option<PowerView>,
    /// Packets by entry of the indirection tables, where they are counted and looked at.
    pub entries: Vec<u64>,
    /// What is looked at: a machine gathers nothing else that costs time.
    pub looks: Looks,
}

impl View {
    /// Of a machine of which nothing has been seen yet.
    pub fn of(platform: &Platform) -> Self {
        Self {
            queues: vec![QueueView::default(); platform.queues.len()],
            cores: vec![CoreView::default(); platform.cores],
            latency: None,
            power: None,
            entries: Vec::new(),
            looks: Looks::WHOLE.and_counters(),
        }
    }
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
    /// It is being done, and what follows it has to wait: until then nobody knows what becomes
    /// of it.
    Slow {
        /// When it is done.
        until: Time,
    },
}

/// A machine that can be watched and set.
pub trait Machine: Send {
    /// What a policy is told about it; fixed during a run.
    fn platform(&self) -> &Platform;

    /// The time on its clock since the run began: model time on an emulated machine.
    fn now(&self) -> Time;

    /// How it runs before it is governed.
    fn present(&mut self) -> OperatingPoint {
        OperatingPoint::full(self.platform())
    }

    /// Looks at it at a time that has been read from its clock. Counters in the view never go
    /// back. The view is as long as the platform's lists.
    fn observe(&mut self, now: Time, view: &mut View);

    /// Takes one step towards another operating point, at the time of the last look.
    fn take(&mut self, step: &Step) -> Taken;

    /// What holds instead, as a step of the same kind, after one that was not simply done;
    /// `None` where that cannot be read.
    fn held(&mut self, _step: &Step) -> Option<Step> {
        None
    }

    /// Whether, after a [`Step::Redirect`] that failed, some indirection tables are as it wanted them
    /// and others are not.
    fn tables_differ(&self) -> bool {
        false
    }

    /// Writes to the machine that a step costs of its budget ([`Self::pace`]).
    fn writes(&self, _step: &Step) -> u32 {
        1
    }

    /// How often its knobs may be turned.
    fn pace(&self) -> Pace {
        Pace::FREE
    }

    /// All steps of a decision have been taken: what was only collected is done now.
    fn settle(&mut self) {}

    /// The energy that it has drawn since the run began.
    fn energy(&mut self, _now: Time) -> Energy {
        Energy::default()
    }

    /// Entries of indirection tables that it has moved since the run began.
    fn entries_moved(&self) -> u64 {
        0
    }
}

impl<M: Machine + ?Sized> Machine for Box<M> {
    fn platform(&self) -> &Platform {
        (**self).platform()
    }
    fn now(&self) -> Time {
        (**self).now()
    }
    fn present(&mut self) -> OperatingPoint {
        (**self).present()
    }
    fn observe(&mut self, now: Time, view: &mut View) {
        (**self).observe(now, view);
    }
    fn take(&mut self, step: &Step) -> Taken {
        (**self).take(step)
    }
    fn held(&mut self, step: &Step) -> Option<Step> {
        (**self).held(step)
    }
    fn tables_differ(&self) -> bool {
        (**self).tables_differ()
    }
    fn writes(&self, step: &Step) -> u32 {
        (**self).writes(step)
    }
    fn pace(&self) -> Pace {
        (**self).pace()
    }
    fn settle(&mut self) {
        (**self).settle();
    }
    fn energy(&mut self, now: Time) -> Energy {
        (**self).energy(now)
    }
    fn entries_moved(&self) -> u64 {
        (**self).entries_moved()
    }
}
