//! What became of the steps, by the knob that they turned.

pub use super::knob::Knob;
pub use super::place::place_of;

use super::machine::Taken;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_units::{Span, Time};

/// A knob of a core or queue that somebody else holds, or that goes on failing, is left alone for
/// so long.
pub(super) const LEFT_ALONE: Span = Span::from_millis(1_000);
/// One that fails for the first time is tried again after so long: what was only busy costs little.
const FIRST_REST: Span = Span::from_micros(100);
/// So many rests in a row are that short. Of writes that fail by chance, one in ten say, hardly any
/// fails three times.
const SHORT_RESTS: u32 = 2;
/// Each further rest is so many times as long as the one before, until [`LEFT_ALONE`].
const REST_GROWS: u64 = 10;
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
    /// What was not done when it was last tried.
    resting: BTreeMap<(Knob, usize), Rest>,
}

/// The rest of a knob after a step that was not done.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Time,
    /// How long it lasts.
    lasts: Span,
    /// Failures in a row.
    failures: u32,
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
    /// is as the step wanted it (`done`), the knob is left alone for a while: shortly after its
    /// first failure, longer after each further one in a row.
    pub fn note(&mut self, now: Time, knob: Knob, place: usize, taken: Taken, done: bool) {
        let entry = &mut self.entries[knob as usize];
        entry.steps += 1;
        let foreign = matches!(taken, Taken::Foreign { .. });
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
        if done {
            self.resting.remove(&(knob, place));
        } else {
            let before = self.resting.get(&(knob, place));
            let failures = before.map_or(0, |rest| rest.failures).saturating_add(1);
            let lasts = match before {
                _ if foreign => LEFT_ALONE,
                Some(rest) if failures > SHORT_RESTS => (rest.lasts * REST_GROWS).min(LEFT_ALONE),
                _ => FIRST_REST,
            };
            self.resting.insert((knob, place), Rest { until: now + lasts, lasts, failures });
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
        self.resting.get(&(knob, place)).is_some_and(|rest| now < rest.until)
    }

    /// Until when a knob is left alone at a place; [`Time::ZERO`] where it is not.
    pub fn rests_until(&self, knob: Knob, place: usize) -> Time {
        self.resting.get(&(knob, place)).map_or(Time::ZERO, |rest| rest.until)
    }

    /// What is not to be touched now: knobs with their places.
    pub fn left_alone(&self, now: Time) -> impl Iterator<Item = (Knob, usize)> {
        self.resting.iter().filter(move |(_, rest)| now < rest.until).map(|(place, _)| *place)
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
        assert_eq!(ledger.left_alone(now + FIRST_REST).count(), 0);
        ledger.note(now, Knob::Cores, 0, Taken::Foreign { found: "x".into() }, false);
        assert_eq!(ledger.sums(), (6, 3, 2));
    }

    #[test]
    fn a_knob_that_fails_once_is_soon_tried_again_and_one_that_goes_on_failing_is_not() {
        let mut ledger = Ledger::default();
        let place = (Knob::Frequency, 2);
        let failed = || Taken::Failed { why: "busy".into() };
        let fail = |ledger: &mut Ledger, now: Time, taken: Taken| {
            ledger.note(now, place.0, place.1, taken, false);
            let rests = |micros| ledger.rests(now + Span::from_micros(micros), place.0, place.1);
            let ends = [0, 99, 100, 999, 1_000, 9_999, 10_000, 99_999, 100_000, 999_999, 1_000_000];
            ends.into_iter().find(|micros| !rests(*micros)).unwrap()
        };
        let mut now = Time::ZERO;
        for rest in [100, 100, 1_000, 10_000, 100_000, 1_000_000, 1_000_000] {
            assert_eq!(fail(&mut ledger, now, failed()), rest);
            now += Span::from_micros(rest);
        }
        ledger.note(now, place.0, place.1, Taken::Done, true);
        assert_eq!(fail(&mut ledger, now, failed()), 100, "it obeyed in between");
        let foreign = Taken::Foreign { found: "x".into() };
        assert_eq!(fail(&mut ledger, now, foreign), 1_000_000, "another program holds it");
    }
}
