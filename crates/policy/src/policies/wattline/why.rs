//! States in words why the policy changed the machine.

use super::choose::Choice;
use crate::Reason;
use wattline_units::PacketsPerSecond;

/// Reason for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Nothing is known yet.
    Start,
    /// More packets came at once than random arrivals explain.
    Leap,
    /// Leaps come at even distances, and the next one is due.
    Expected,
    /// A queue grew although the rate did not rise.
    Crowded,
    /// The load exceeds the capacity of the point.
    Need,
    /// No nap at this point keeps the budget, or withstands a leap.
    Guard,
    /// A leap is over, and the new rate is known.
    Settled,
    /// Waiting has cost as much energy as a change.
    Cheaper,
}

impl Why {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Leap,
        Self::Expected,
        Self::Crowded,
        Self::Need,
        Self::Guard,
        Self::Settled,
        Self::Cheaper,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Start => "no rate was measured yet",
            Self::Leap => "the load rose suddenly",
            Self::Expected => "a sudden rise was due",
            Self::Crowded => "a queue grew though the load did not rise",
            Self::Need => "the load exceeded the capacity",
            Self::Guard => "a sudden rise would have made too many packets late",
            Self::Settled => "a sudden rise was over and the new load known",
            Self::Cheaper => "waiting had cost as much energy as the change",
        }
    }
}

/// Counts the changes by reason, and keeps the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct Reasons {
    counts: [u64; Why::ALL.len()],
    last: Option<(Why, usize, usize, f64)>,
}

impl Reasons {
    /// Notes that cores or frequency changed to this choice, for this rate in packets per second.
    pub fn note(&mut self, why: Why, choice: &Choice, rate: f64) {
        self.counts[why as usize] += 1;
        self.last = Some((why, choice.cores, choice.frequency, rate));
    }

    /// The reason of the last change; `None` before the first one.
    pub fn last(&self) -> Option<Reason> {
        let (why, _, _, rate) = self.last?;
        let rate = (why != Why::Start).then_some(PacketsPerSecond(rate));
        Some(Reason { words: why.words(), rate })
    }

    /// The last change and all counts in words; `None` before the first change.
    pub fn tell(&self, frequencies: &[f64]) -> Option<String> {
        let (why, cores, frequency, rate) = self.last?;
        let gigahertz = frequencies.get(frequency).copied().unwrap_or(0.0) * 1e-9;
        let counts = Why::ALL.iter().map(|why| (why.words(), self.counts[*why as usize]));
        let counts: Vec<String> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(words, count)| format!("{count} x {words}"))
            .collect();
        Some(format!(
            "Last change: {cores} cores at {gigahertz:.2} GHz for {:.2} Mpps, since {}. All changes: {}.",
            rate * 1e-6,
            why.words(),
            counts.join(", ")
        ))
    }
}
