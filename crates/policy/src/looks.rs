//! What of an observation a policy looks at.

use wattline_units::Span;

/// What a policy looks at when it is asked. Gathering what nobody looks at costs time: a
/// simulated server of twelve cores and four ports has 48 queues, and PowerSave reads one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// All queues and all cores. Without it only the queue of a [`crate::Trigger::Batch`] or
    /// [`crate::Trigger::Fill`] is shown up to date; the rest may be out of date.
    pub whole: bool,
    /// What the kernel counts of the cores beside their work: time in idle states and in soft
    /// interrupts, and the frequency that holds. Without it these figures may be missing.
    pub counters: bool,
    /// The latency of the packets that left since it was asked last, where it is measured.
    pub latency: bool,
    /// The bound beyond which [`crate::LatencyView::late`] counts a packet.
    pub late_after: Option<Span>,
    /// Watts.
    pub power: bool,
    /// Packets by entry of the redirect table.
    pub entries: bool,
    /// The rate offered now. It makes a policy clairvoyant: a yardstick, not a governor.
    pub offered: bool,
}

impl Default for Looks {
    /// At all queues and cores, as policies do that say nothing else.
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Looks {
    /// At the trigger and its queue alone.
    pub const TRIGGER: Self = Self {
        whole: false,
        counters: false,
        latency: false,
        late_after: None,
        power: false,
        entries: false,
        offered: false,
    };
    /// At all queues and cores.
    pub const WHOLE: Self = Self { whole: true, ..Self::TRIGGER };

    /// And at idle states, soft interrupts and frequencies, which cost a machine several files of
    /// each core.
    #[must_use]
    pub const fn and_counters(self) -> Self {
        Self { counters: true, ..self }
    }

    /// And at latency. Its percentiles take some microseconds of every decision: for
    /// policies that decide by the millisecond, not by the batch.
    #[must_use]
    pub const fn and_latency(self) -> Self {
        Self { latency: true, ..self }
    }

    /// And at latency with the number of packets that took longer than `bound`.
    #[must_use]
    pub const fn and_late(self, bound: Span) -> Self {
        Self { latency: true, late_after: Some(bound), ..self }
    }

    /// And at watts.
    #[must_use]
    pub const fn and_power(self) -> Self {
        Self { power: true, ..self }
    }

    /// And at the packets of each entry of the redirect table.
    #[must_use]
    pub const fn and_entries(self) -> Self {
        Self { entries: true, ..self }
    }

    /// And at the rate offered now.
    #[must_use]
    pub const fn clairvoyant(self) -> Self {
        Self { offered: true, ..self }
    }
}
