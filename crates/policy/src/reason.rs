//! Reasons of decisions.

use serde::Serialize;
use std::fmt;
use wattline_units::PacketsPerSecond;

/// Reason for the operating point after the last decision. It is cheap to copy, so that every
/// decision may be asked for it; it becomes text where somebody reads it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reason {
    /// The reason in words, as a clause: "the load exceeded the capacity".
    pub words: &'static str,
    /// The rate that the policy planned for, where it plans for one.
    pub rate: Option<PacketsPerSecond>,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Some(rate) => write!(formatter, "for {:.3} Mpps, {}", rate.0 * 1e-6, self.words),
            None => formatter.write_str(self.words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_rate_where_one_was_planned_for() {
        let words = "the load exceeded the capacity";
        assert_eq!(Reason { words, rate: None }.to_string(), words);
        let planned = Reason { words, rate: Some(PacketsPerSecond(8e6)) };
        assert_eq!(planned.to_string(), "for 8.000 Mpps, the load exceeded the capacity");
    }
}
