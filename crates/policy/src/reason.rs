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
    /// The phase that the policy was in, where it has phases.
    pub phase: Option<&'static str>,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rate) = self.rate {
            write!(formatter, "for {:.3} Mpps, ", rate.0 * 1e-6)?;
        }
        formatter.write_str(self.words)?;
        self.phase.map_or(Ok(()), |phase| write!(formatter, " (phase {phase})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_rate_and_phase_where_there_are_some() {
        let words = "the load exceeded the capacity";
        let bare = Reason { words, rate: None, phase: None };
        assert_eq!(bare.to_string(), words);
        let rate = Some(PacketsPerSecond(8e6));
        let planned = Reason { rate, phase: Some("Follow"), ..bare };
        let said = "for 8.000 Mpps, the load exceeded the capacity (phase Follow)";
        assert_eq!(planned.to_string(), said);
    }
}
