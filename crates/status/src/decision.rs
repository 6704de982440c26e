//! Changes of the operating point with their reasons.

use crate::rule::RuleName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Wait mode of active cores, without the length of their naps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// They poll again at once.
    Poll,
    /// They poll again after a pause of the processor.
    Pause,
    /// They sleep by timer.
    Sleep,
    /// They sleep until an interrupt comes.
    Interrupt,
}

/// A change of the operating point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Number since the policy took charge, from 1; discarded changes count.
    pub number: u64,
    /// Time on the machine's clock, in seconds since its governor began.
    pub at_seconds: f64,
    /// Active cores.
    pub cores_active: usize,
    /// Lowest and highest frequency of the active cores; null if the platform has no such knob.
    pub frequency_hertz: Option<(f64, f64)>,
    /// Wait mode of the active cores.
    pub wait: Waiting,
    /// Length of timed naps, or the shortest span between two interrupts; null if there is neither.
    pub nap_seconds: Option<f64>,
    /// Reason, in words.
    pub reason: String,
}

/// The last decisions of a daemon, as `explain` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Name of the policy.
    pub policy: String,
    /// Rule in force; null for a router.
    pub rule: Option<RuleName>,
    /// Reason of the last change.
    pub reason: Option<String>,
    /// The last changes, the oldest first.
    pub last_changes: Vec<Decision>,
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = self.cores_active;
        write!(formatter, "{cores} core{}", if cores == 1 { "" } else { "s" })?;
        match self.frequency_hertz {
            Some((low, high)) if low < high => {
                write!(formatter, " at {:.2} to {:.2} GHz", low * 1e-9, high * 1e-9)?;
            }
            Some((_, high)) => write!(formatter, " at {:.2} GHz", high * 1e-9)?,
            None => {}
        }
        match (self.wait, self.nap_seconds) {
            (Waiting::Sleep, nap) => {
                write!(formatter, ", naps of {:.1} us", nap.unwrap_or(0.0) * 1e6)?;
            }
            (Waiting::Interrupt, Some(span)) => {
                write!(formatter, ", interrupts {:.1} us apart", span * 1e6)?;
            }
            (Waiting::Interrupt, None) => formatter.write_str(", interrupts")?,
            (Waiting::Pause, _) => formatter.write_str(", pausing")?,
            (Waiting::Poll, _) => formatter.write_str(", polling")?,
        }
        write!(formatter, ": {}", self.reason)
    }
}
