//! Why the policy changed the machine, in words.

use super::choose::Choice;

/// What led to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Nothing is known yet.
    Start,
    /// More came than chance brings.
    Leap,
    /// A queue grew although no more came.
    Crowded,
    /// More comes than the point carries.
    Need,
    /// The naps that fit would be too short for a leap, or for the budget.
    Guard,
    /// Waiting has cost as much as a change does.
    Cheaper,
}

impl Why {
    const ALL: [Self; 6] =
        [Self::Start, Self::Leap, Self::Crowded, Self::Need, Self::Guard, Self::Cheaper];

    fn words(self) -> &'static str {
        match self {
            Self::Start => "nothing was known yet",
            Self::Leap => "more came at once than chance brings",
            Self::Crowded => "a queue grew though no more came",
            Self::Need => "more came than the point carried",
            Self::Guard => "a leap would have made too many packets late",
            Self::Cheaper => "waiting had cost as much as the change does",
        }
    }
}

/// The changes so far, by their reason, and the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct Reasons {
    counts: [u64; Why::ALL.len()],
    last: Option<(Why, usize, usize, f64)>,
}

impl Reasons {
    /// Cores or frequency changed to this choice, for this rate.
    pub fn note(&mut self, why: Why, choice: &Choice, rate: f64) {
        self.counts[why as usize] += 1;
        self.last = Some((why, choice.cores, choice.frequency, rate));
    }

    /// Of the last change; nothing before the first.
    pub fn last(&self) -> Option<&'static str> {
        self.last.map(|(why, ..)| why.words())
    }

    /// In words; nothing before the first change.
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
