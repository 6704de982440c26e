//! Reasons of decisions.

use serde::Serialize;
use std::fmt;
use wattline_units::PacketsPerSecond;

/// Reason for the operating point after the last decision. It is cheap to copy, so that it may be
/// requested for every decision; it is formatted only when displayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reason {
    /// The reason in words, as a clause: "the load exceeded the capacity".
    pub words: &'static str,
    /// Rate that the policy planned for, if any.
    pub rate: Option<PacketsPerSecond>,
    /// Phase of the policy, if it has phases.
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
    fn reason_has_rate_and_phase_if_known() {
        let words = "the load exceeded the capacity";
        let bare = Reason { words, rate: None, phase: None };
        assert_eq!(bare.to_string(), words);
        let rate = Some(PacketsPerSecond(8e6));
        let planned = Reason { rate, phase: Some("Follow"), ..bare };
        let said = "for 8.000 Mpps, the load exceeded the capacity (phase Follow)";
        assert_eq!(planned.to_string(), said);
    }
}
