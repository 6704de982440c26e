//! Options of Co-PI.

use wattline_units::Span;

/// Settings of [`super::with_tables`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Tail latency target; `None` for that of the tables.
    pub target: Option<Span>,
    /// Time between two decisions.
    pub period: Span,
    /// Share by which the tables' target may be exceeded.
    pub slack: f64,
    /// Minimum saving for a change of point, as a share.
    pub hysteresis: f64,
    /// Share of a gap corrected per measurement.
    pub correction: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: None,
            period: Span::from_millis(100),
            slack: 0.0,
            hysteresis: 0.01,
            correction: 0.5,
        }
    }
}
