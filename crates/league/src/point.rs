//! An operating point of all cores alike.

use serde::Serialize;
use wattline_policy::Wait;
use wattline_units::Span;

/// An operating point at which all active cores are alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FixedPoint {
    /// Active cores.
    pub cores: usize,
    /// Index of their frequency.
    pub frequency: usize,
    /// Deepest idle state of an active core, an index; the others may sleep as deep as they can.
    pub nap: usize,
    /// Wait mode of active cores.
    pub wait: Wait,
    /// Shortest span between two interrupts of a queue.
    pub moderation: Span,
}
