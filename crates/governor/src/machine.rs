//! The machine that a governor drives: the emulated cores of a server model, or this machine.

use super::energy::Energy;
use super::pace::Pace;
use super::step::Step;
use std::thread::Thread;
use wattline_policy::{
    AskAgain, CoreView, LatencyView, Looks, OperatingPoint, Platform, PowerView, QueueView, Trigger,
};
use wattline_units::Time;

/// The last observation of a machine. It is kept and overwritten, so that observing allocates
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Queues, by the platform's queue number.
    pub queues: Vec<QueueView>,
    /// Cores, by core number.
    pub cores: Vec<CoreView>,
    /// Latency since the last observation; `None` if it is not measured or `looks` does not ask for
    /// it.
    pub latency: Option<LatencyView>,
    /// Power since the last observation; `None` if it is not known or `looks` does not ask for it.
    pub power: Option<PowerView>,
    /// Packets by entry of the indirection tables; empty if they are not counted or `looks` does
    /// not ask for them.
    pub entries: Vec<u64>,
    /// Parts to observe. A machine skips other parts that take time to read.
    pub looks: Looks,
}

impl View {
    /// Returns a view for a platform, before the first observation.
    pub fn new(platform: &Platform) -> Self {
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

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Taken {
    /// Done. If the setting can be read back, it has the wanted value.
    Done,
    /// The machine chose another value.
    Altered {
        /// The value that is read back.
        found: String,
    },
    /// Another program has changed the setting; nothing was written.
    Foreign {
        /// The present value.
        found: String,
    },
    /// The step was refused or failed. The machine is unchanged, except for
    /// [`Machine::tables_differ`].
    Failed {
        /// Reason and advice.
        why: String,
    },
    /// The step is under way and its result is not known yet. The next steps have to wait.
    Slow {
        /// When the result is known.
        until: Time,
    },
}

/// Event noticed by the machine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// An event for which the policy may ask.
    Event(Trigger),
    /// None. Without a wake-up the next may come at this time.
    Nothing {
        /// [`Time::NEVER`] if only a wake-up announces the next one.
        until: Time,
    },
}

/// A machine that a governor can observe and set.
pub trait Machine: Send {
    /// Returns the description that the policy gets; it does not change during a run.
    fn platform(&self) -> &Platform;

    /// Returns the time since the run began, by the machine's clock. An emulated machine uses model
    /// time.
    fn now(&self) -> Time;

    /// Returns the operating point before the governor takes over.
    fn present(&mut self) -> OperatingPoint {
        OperatingPoint::full(self.platform())
    }

    /// Observes the machine; `now` was read from its clock. Counters in the view never decrease.
    /// The lists of the view are as long as those of the platform.
    fn observe(&mut self, now: Time, view: &mut View);

    /// Takes one step towards another operating point, at the time of the last observation.
    fn take(&mut self, step: &Step) -> Taken;

    /// Returns the present setting as a step of the same kind, or `None` if it cannot be read.
    /// Called after a step that was not done as asked.
    fn held(&mut self, _step: &Step) -> Option<Step> {
        None
    }

    /// Returns true if a failed [`Step::Redirect`] changed only some of the indirection tables.
    fn tables_differ(&self) -> bool {
        false
    }

    /// Returns the number of writes that a step takes from the budget of [`Self::pace`].
    fn writes(&self, _step: &Step) -> u32 {
        1
    }

    /// Returns the limits on how often its knobs may be set.
    fn pace(&self) -> Pace {
        Pace::FREE
    }

    /// Carries out the steps that [`Self::take`] only collected. Called after the last step of a
    /// decision.
    fn settle(&mut self) {}

    /// Watches for the events for which the policy asks, on a machine that notices some itself.
    fn watch(&mut self, _ask: &AskAgain) {}

    /// Makes events that the machine notices itself wake this parked thread.
    fn wake_at_events(&mut self, _thread: Thread) {}

    /// Returns the next of these events. The previous one has been answered.
    fn notice(&mut self, _now: Time) -> Notice {
        Notice::Nothing { until: Time::NEVER }
    }

    /// Returns the energy drawn since the run began.
    fn energy(&mut self, _now: Time) -> Energy {
        Energy::default()
    }

    /// Returns the number of indirection table entries moved since the run began.
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
    fn watch(&mut self, ask: &AskAgain) {
        (**self).watch(ask);
    }
    fn wake_at_events(&mut self, thread: Thread) {
        (**self).wake_at_events(thread);
    }
    fn notice(&mut self, now: Time) -> Notice {
        (**self).notice(now)
    }
    fn energy(&mut self, now: Time) -> Energy {
        (**self).energy(now)
    }
    fn entries_moved(&self) -> u64 {
        (**self).entries_moved()
    }
}
