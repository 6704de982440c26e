//! Parts of an observation that a policy uses.

use wattline_units::Span;

/// Parts of an observation that a policy uses. The platform omits the rest, since gathering it
/// costs time: a simulated server of twelve cores and four ports has 48 queues, and PowerSave reads
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// All queues and all cores. Without it, only the queue of a [`crate::Trigger::Batch`],
    /// [`crate::Trigger::Fill`] or [`crate::Trigger::Streak`] is up to date.
    pub whole: bool,
    /// Kernel counters of the cores: time in idle states and in soft interrupts, and the present
    /// frequency. Without it, these figures may be missing.
    pub counters: bool,
    /// The latency of the packets that left since the policy was last asked, if it is measured.
    pub latency: bool,
    /// Bound above which [`crate::LatencyView::late`] counts a packet.
    pub late_after: Option<Span>,
    /// Watts.
    pub power: bool,
    /// Packets by entry of the indirection table.
    pub entries: bool,
    /// The present offered rate. This makes a policy clairvoyant: it is for comparison only.
    pub offered: bool,
}

impl Default for Looks {
    /// Uses all queues and cores.
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Looks {
    /// The trigger and its queue only.
    pub const TRIGGER: Self = Self {
        whole: false,
        counters: false,
        latency: false,
        late_after: None,
        power: false,
        entries: false,
        offered: false,
    };
    /// All queues and cores.
    pub const WHOLE: Self = Self { whole: true, ..Self::TRIGGER };

    /// Adds idle states, soft interrupts and frequencies, which cost a machine several files of
    /// each core.
    #[must_use]
    pub const fn and_counters(self) -> Self {
        Self { counters: true, ..self }
    }

    /// Adds latency. Its percentiles cost some microseconds per decision, so they are for policies
    /// that decide every millisecond, not at every batch.
    #[must_use]
    pub const fn and_latency(self) -> Self {
        Self { latency: true, ..self }
    }

    /// Adds latency with the number of packets that took longer than `bound`.
    #[must_use]
    pub const fn and_late(self, bound: Span) -> Self {
        Self { latency: true, late_after: Some(bound), ..self }
    }

    /// Adds watts.
    #[must_use]
    pub const fn and_power(self) -> Self {
        Self { power: true, ..self }
    }

    /// Adds the packets of each entry of the indirection table.
    #[must_use]
    pub const fn and_entries(self) -> Self {
        Self { entries: true, ..self }
    }

    /// Adds the present offered rate.
    #[must_use]
    pub const fn clairvoyant(self) -> Self {
        Self { offered: true, ..self }
    }
}
