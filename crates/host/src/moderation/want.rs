//! Requested moderation of a queue.

use wattline_units::Span;

/// Requested moderation of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Fixed time between its interrupts.
    Every(Span),
    /// All values that its driver had, adaptive moderation included; with its distance at that
    /// time.
    AsFound(Span),
}

impl Want {
    pub fn period(self) -> Span {
        match self {
            Self::Every(period) | Self::AsFound(period) => period,
        }
    }

    pub fn is_as_found(self) -> bool {
        matches!(self, Self::AsFound(_))
    }
}
