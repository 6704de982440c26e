//! Figures that a platform can report to a policy, and events at which it can ask the policy.

use serde::{Deserialize, Serialize};
use wattline_units::Span;

/// Figures that a platform measures. Other figures stay `None`, or empty, in every
/// [`crate::Observation`]. A figure promised here is present whenever the policy requests it
/// ([`crate::Looks`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sees {
    /// Percentiles of latency ([`crate::Observation::latency`]).
    pub latency: bool,
    /// Packets later than the policy's bound ([`crate::LatencyView::late`]).
    pub late: bool,
    /// Watts, with their source ([`crate::Observation::power`]).
    pub power: bool,
    /// Real frequency of each core ([`crate::CoreView::frequency`]).
    pub frequency: bool,
    /// Bytes per queue ([`crate::QueueView::bytes`]).
    pub bytes: bool,
    /// Packets per entry of the indirection table ([`crate::Observation::entries`]).
    pub entries: bool,
    /// Time in each idle state ([`crate::CoreView::residency`]).
    pub residency: bool,
    /// Time of each core in soft interrupts ([`crate::CoreView::softirq`]).
    pub softirq: bool,
    /// Age of the oldest waiting packet ([`crate::QueueView::oldest`]).
    pub oldest: bool,
    /// The present offered rate ([`crate::Observation::offered`]): only a simulator knows it.
    pub offered: bool,
}

impl Sees {
    /// Only queues and cores.
    pub const NOTHING: Self = Self {
        latency: false,
        late: false,
        power: false,
        frequency: false,
        bytes: false,
        entries: false,
        residency: false,
        softirq: false,
        oldest: false,
        offered: false,
    };
}

/// Accuracy with which a platform notices an event at which a policy wants to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// Not at all.
    #[default]
    Never,
    /// Each time it happens.
    Exact,
    /// By sampling once per period. A trigger then stands for all events since the last one
    /// ([`crate::Trigger::Batch`] contains the number of batches).
    Sampled(Span),
}

impl Timing {
    /// Returns true if the platform notices the event.
    pub fn is_noticed(self) -> bool {
        self != Self::Never
    }
}

/// Events at which a platform can ask a policy. All platforms also have timers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asks {
    /// [`crate::Trigger::Batch`].
    pub batch: Timing,
    /// [`crate::Trigger::Fill`].
    pub fill: Timing,
    /// [`crate::Trigger::EmptyPolls`].
    pub empty_polls: Timing,
    /// [`crate::Trigger::Streak`] and [`crate::Trigger::Silence`].
    #[serde(default)]
    pub streaks: Timing,
}

impl Asks {
    /// No events.
    pub const NOTHING: Self = Self {
        batch: Timing::Never,
        fill: Timing::Never,
        empty_polls: Timing::Never,
        streaks: Timing::Never,
    };
    /// Every event, exactly.
    pub const EXACT: Self = Self {
        batch: Timing::Exact,
        fill: Timing::Exact,
        empty_polls: Timing::Exact,
        streaks: Timing::Exact,
    };
}

/// Wait modes that the cores of a platform support ([`crate::Wait`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// [`crate::Wait::Poll`].
    pub poll: bool,
    /// [`crate::Wait::Pause`].
    pub pause: bool,
    /// [`crate::Wait::Sleep`].
    pub sleep: bool,
    /// [`crate::Wait::Interrupt`].
    pub interrupt: bool,
}

impl Waits {
    /// No wait mode can be chosen: cores wait in their own way.
    pub const NONE: Self = Self { poll: false, pause: false, sleep: false, interrupt: false };
    /// Every wait mode.
    pub const ALL: Self = Self { poll: true, pause: true, sleep: true, interrupt: true };

    /// Returns true if a core supports this wait mode.
    pub fn allows(self, wait: crate::Wait) -> bool {
        match wait {
            crate::Wait::Poll => self.poll,
            crate::Wait::Pause => self.pause,
            crate::Wait::Sleep(_) => self.sleep,
            crate::Wait::Interrupt => self.interrupt,
        }
    }

    /// Returns true if any wait mode can be chosen.
    pub fn any(self) -> bool {
        self != Self::NONE
    }
}
