//! What became of the steps, by the knob that they turned.

use super::machine::Taken;
use super::step::Step;
use serde::Serialize;
use wattline_units::{Span, Time};

/// A knob that failed, or that somebody else holds, is left alone for so long.
const LEFT_ALONE: Span = Span::from_millis(1_000);
/// A knob that so many times never did as it was told is said to have no effect.
const TRIES: u64 = 3;

/// What a step turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// Frequencies.
    Frequency,
    /// The deepest idle state of a core.
    IdleLimit,
    /// How a core waits.
    Wait,
    /// Which cores are active: waking, parking, redirect tables.
    Cores,
    /// Interrupt moderation.
    Moderation,
    /// Packets of a batch.
    Batch,
}

impl Knob {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Frequency, Self::IdleLimit, Self::Wait, Self::Cores, Self::Moderation, Self::Batch];

    /// The knob that a step turns.
    pub fn of(step: &Step) -> Self {
        match step {
            Step::Frequency { .. } => Self::Frequency,
            Step::IdleLimit { .. } => Self::IdleLimit,
            Step::Wait { .. } => Self::Wait,
            Step::Wake { .. } | Step::Redirect { .. } | Step::Park { .. } => Self::Cores,
            Step::Moderation { .. } => Self::Moderation,
            Step::Batch { .. } => Self::Batch,
        }
    }
}

/// What became of the steps of one knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The knob.
    pub knob: Knob,
    /// Steps taken.
    pub steps: u64,
    /// Steps of which the machine made something else.
    pub altered: u64,
    /// Steps not taken because somebody else had changed the setting.
    pub foreign: u64,
    /// Steps that were refused or failed.
    pub failed: u64,
    /// What was said about the last one that was not simply done.
    pub last_problem: Option<String>,
    /// Whether it ever does as it is told, as far as can be said.
    pub effective: bool,
    #[serde(skip)]
    left_alone_until: Time,
}

/// What became of all steps.
#[derive(Debug, Clone)]
pub struct Ledger {
    entries: [Entry; Knob::ALL.len()],
}

impl Default for Ledger {
    fn default() -> Self {
        let entry = |knob| Entry {
            knob,
            steps: 0,
            altered: 0,
            foreign: 0,
            failed: 0,
            last_problem: None,
            effective: true,
            left_alone_until: Time::ZERO,
        };
        Self { entries: Knob::ALL.map(entry) }
    }
}

impl Ledger {
    /// Notes what became of a step; true when the machine now is as the step wanted it, as
    /// nearly as it can be.
    pub fn note(&mut self, now: Time, knob: Knob, taken: Taken) -> bool {
        let entry = &mut self.entries[knob as usize];
        entry.steps += 1;
        let (problem, done) = match taken {
            Taken::Done => (None, true),
            Taken::Altered { found } => {
                entry.altered += 1;
                (Some(format!("was made into {found}")), true)
            }
            Taken::Foreign { found } => {
                entry.foreign += 1;
                (Some(format!("somebody else has set it to {found}")), false)
            }
            Taken::Failed { why } => {
                entry.failed += 1;
                (Some(why), false)
            }
        };
        let problems = entry.altered + entry.foreign + entry.failed;
        entry.effective = problems < TRIES || problems < entry.steps;
        if !done {
            entry.left_alone_until = now + LEFT_ALONE;
        }
        if let Some(problem) = problem {
            if entry.last_problem.as_ref() != Some(&problem) {
                tracing::warn!("{knob:?}: {problem}");
            }
            entry.last_problem = Some(problem);
        }
        done
    }

    /// Whether a knob is not to be touched now.
    pub fn left_alone(&self, now: Time, knob: Knob) -> bool {
        now < self.entries[knob as usize].left_alone_until
    }

    /// The entries of knobs that were turned.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.steps > 0)
    }

    /// Steps that were taken, were altered, and failed (somebody else's settings included).
    pub fn sums(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&Entry) -> u64| self.entries.iter().map(of).sum();
        (sum(|e| e.steps), sum(|e| e.altered), sum(|e| e.failed + e.foreign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_that_never_obeys_is_marked_and_one_that_fails_rests() {
        let mut ledger = Ledger::default();
        let altered = || Taken::Altered { found: "2.4 GHz".into() };
        for time in 0..3 {
            assert!(ledger.entries().all(|entry| entry.effective));
            assert!(ledger.note(Time::from_picos(time), Knob::Frequency, altered()));
        }
        let entry = ledger.entries().next().unwrap().clone();
        assert!(!entry.effective && entry.last_problem.unwrap().contains("2.4 GHz"));
        assert!(ledger.note(Time::ZERO, Knob::Frequency, Taken::Done));
        assert!(ledger.entries().next().unwrap().effective, "once it did obey");

        let now = Time::from_picos(5);
        assert!(!ledger.note(now, Knob::Wait, Taken::Failed { why: "not permitted".into() }));
        assert!(ledger.left_alone(now, Knob::Wait) && !ledger.left_alone(now, Knob::Batch));
        assert!(!ledger.left_alone(now + LEFT_ALONE, Knob::Wait));
        assert!(!ledger.note(now, Knob::Cores, Taken::Foreign { found: "x".into() }));
        assert_eq!(ledger.sums(), (6, 3, 2));
    }
}
