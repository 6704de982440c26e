//! A rate that changes with time.

use wattline_units::{PacketsPerSecond, Span};

/// A piece of a trace with a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// Duration of the piece.
    pub length: Span,
    /// Offered packets per second.
    pub rate: PacketsPerSecond,
}
