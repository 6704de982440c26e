//! What of an observation a policy looks at.

/// What a policy looks at when it is asked. Gathering what nobody looks at costs time: a
/// simulated server of twelve cores and four ports has 48 queues, and PowerSave reads one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// All queues, all cores and the offered rate. Without it only the queue of a
    /// [`crate::Trigger::Batch`] is shown up to date; the rest may be out of date.
    pub whole: bool,
}

impl Looks {
    /// At everything that costs nothing where the policy runs on a machine.
    pub const WHOLE: Self = Self { whole: true };
    /// At the trigger and its queue alone.
    pub const TRIGGER: Self = Self { whole: false };
}
