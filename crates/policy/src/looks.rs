//! What of an observation a policy looks at.

/// What a policy looks at when it is asked. Gathering what nobody looks at costs time: a
/// simulated server of twelve cores and four ports has 48 queues, and PowerSave reads one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// All queues, all cores and the offered rate. Without it only the queue of a
    /// [`crate::Trigger::Batch`] is shown up to date; the rest may be out of date.
    pub whole: bool,
    /// The latency of the packets that left since it was asked last, where it is measured.
    pub latency: bool,
}

impl Looks {
    /// At everything but latency.
    pub const WHOLE: Self = Self { whole: true, latency: false };
    /// At the trigger and its queue alone.
    pub const TRIGGER: Self = Self { whole: false, latency: false };

    /// And at latency. Its percentiles take some microseconds of every decision: for
    /// policies that decide by the millisecond, not by the batch.
    #[must_use]
    pub const fn and_latency(self) -> Self {
        Self { latency: true, ..self }
    }
}
