//! What became of the steps, by the knob that they turned.

pub use super::knob::Knob;
pub use super::place::place_of;

use super::machine::Taken;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_units::{Span, Time};

/// A knob of a core or queue that failed, or that somebody else holds, is left alone for so long.
pub(super) const LEFT_ALONE: Span = Span::from_millis(1_000);
/// A knob that so many times never did as it was told is said to have no effect.
const TRIES: u64 = 3;

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
}

/// What became of all steps.
#[derive(Debug, Clone)]
pub struct Ledger {
    entries: [Entry; Knob::ALL.len()],
    /// What is left alone, and until when.
    resting: BTreeMap<(Knob, usize), Time>,
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
        };
        Self { entries: Knob::ALL.map(entry), resting: BTreeMap::new() }
    }
}

impl Ledger {
    /// Notes what became of a step on a knob and its place ([`place_of`]). Unless the machine now
    /// is as the step wanted it (`done`), the knob is left alone for a while.
    pub fn note(&mut self, now: Time, knob: Knob, place: usize, taken: Taken, done: bool) {
        let entry = &mut self.entries[knob as usize];
        entry.steps += 1;
        let problem = match taken {
            // One that takes time is noted when it is over.
            Taken::Done | Taken::Slow { .. } => None,
            Taken::Altered { found } => {
                entry.altered += 1;
                Some(format!("the machine set {found} instead"))
            }
            Taken::Foreign { found } => {
                entry.foreign += 1;
                Some(format!("another program has set it to {found}"))
            }
            Taken::Failed { why } => {
                entry.failed += 1;
                Some(why)
            }
        };
        let problems = entry.altered + entry.foreign + entry.failed;
        entry.effective = problems < TRIES || problems < entry.steps;
        if !done {
            self.resting.insert((knob, place), now + LEFT_ALONE);
        }
        if let Some(problem) = problem {
            if entry.last_problem.as_ref() != Some(&problem) {
                tracing::warn!("{knob:?}: {problem}");
            }
            entry.last_problem = Some(problem);
        }
    }

    /// Whether a knob is left alone at a place.
    pub fn rests(&self, now: Time, knob: Knob, place: usize) -> bool {
        self.resting.get(&(knob, place)).is_some_and(|until| now < *until)
    }

    /// What is not to be touched now: knobs with their places.
    pub fn left_alone(&mut self, now: Time) -> impl Iterator<Item = (Knob, usize)> {
        self.resting.retain(|_, until| now < *until);
        self.resting.keys().copied()
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
            // The nearest that there is, so that it does not rest.
            ledger.note(Time::from_picos(time), Knob::Frequency, 0, altered(), true);
        }
        assert_eq!(ledger.left_alone(Time::from_picos(3)).count(), 0);
        let entry = ledger.entries().next().unwrap().clone();
        assert!(!entry.effective && entry.last_problem.unwrap().contains("2.4 GHz"));
        ledger.note(Time::ZERO, Knob::Frequency, 0, Taken::Done, true);
        assert!(ledger.entries().next().unwrap().effective, "once it did obey");

        let now = Time::from_picos(5);
        let failed = Taken::Failed { why: "not permitted".into() };
        ledger.note(now, Knob::Wait, 1, failed, false);
        assert_eq!(ledger.left_alone(now).collect::<Vec<_>>(), [(Knob::Wait, 1)], "nothing else");
        assert_eq!(ledger.left_alone(now + LEFT_ALONE).count(), 0);
        ledger.note(now, Knob::Cores, 0, Taken::Foreign { found: "x".into() }, false);
        assert_eq!(ledger.sums(), (6, 3, 2));
    }
}
