//! Figures that a platform can show to a policy, and events at which it can ask the policy.

use serde::{Deserialize, Serialize};
use wattline_units::Span;

/// Figures that a platform measures. A figure that it does not measure stays `None`, or empty, in
/// every [`crate::Observation`]. A figure that it promises here is shown whenever the policy looks
/// at it ([`crate::Looks`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sees {
    /// Percentiles of latency ([`crate::Observation::latency`]).
    pub latency: bool,
    /// Packets later than a bound that the policy names ([`crate::LatencyView::late`]).
    pub late: bool,
    /// Watts, with their source ([`crate::Observation::power`]).
    pub power: bool,
    /// The frequency that each core really runs at ([`crate::CoreView::frequency`]).
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
    /// The rate offered now ([`crate::Observation::offered`]): only a simulator can tell.
    pub offered: bool,
}

impl Sees {
    /// Nothing but queues and cores.
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
    /// By looking once per period. A trigger then stands for all events since the last one
    /// ([`crate::Trigger::Batch`] says for how many batches).
    Sampled(Span),
}

impl Timing {
    /// Whether the platform notices it at all.
    pub fn is_noticed(self) -> bool {
        self != Self::Never
    }
}

/// On which events a platform can ask a policy. All platforms also have timers.
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
    /// On no event.
    pub const NOTHING: Self = Self {
        batch: Timing::Never,
        fill: Timing::Never,
        empty_polls: Timing::Never,
        streaks: Timing::Never,
    };
    /// On every event, exactly.
    pub const EXACT: Self = Self {
        batch: Timing::Exact,
        fill: Timing::Exact,
        empty_polls: Timing::Exact,
        streaks: Timing::Exact,
    };
}

/// In which ways the cores of a platform can wait for packets ([`crate::Wait`]).
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
    /// No wait can be chosen: cores wait in their own way.
    pub const NONE: Self = Self { poll: false, pause: false, sleep: false, interrupt: false };
    /// Every way.
    pub const ALL: Self = Self { poll: true, pause: true, sleep: true, interrupt: true };

    /// Whether a core can be told to wait like this.
    pub fn allows(self, wait: crate::Wait) -> bool {
        match wait {
            crate::Wait::Poll => self.poll,
            crate::Wait::Pause => self.pause,
            crate::Wait::Sleep(_) => self.sleep,
            crate::Wait::Interrupt => self.interrupt,
        }
    }

    /// Whether any wait can be chosen.
    pub fn any(self) -> bool {
        self != Self::NONE
    }
}
