//! Results of the steps, by knob, and the rests of knobs that fail.

pub use super::knob::Knob;
pub use super::place::place_of;
pub use wattline_status::KnobSteps as Entry;

use super::machine::Taken;
use std::collections::BTreeMap;
use wattline_units::{Span, Time};

/// Longest rest of a knob that keeps failing, and the rest of a knob that another program has set.
pub(super) const LEFT_ALONE: Span = Span::from_millis(1_000);
/// Rest after a first failure. It is short, because a device that was only busy will accept the
/// next write.
const FIRST_REST: Span = Span::from_micros(100);
/// Number of short rests in a row. Writes that fail at random, say one in ten, rarely fail three
/// times in a row.
const SHORT_RESTS: u32 = 2;
/// Factor from each further rest to the next, up to [`LEFT_ALONE`].
const REST_GROWS: u64 = 10;
/// Number of steps without any effect after which a knob counts as ineffective.
const TRIES: u64 = 3;

/// Returns true if some steps had an effect, or too few were tried.
fn has_effect(entry: &Entry) -> bool {
    let problems = entry.altered + entry.foreign + entry.failed;
    problems < TRIES || problems < entry.steps
}

fn sum(before: &Entry, later: &Entry) -> Entry {
    let last_problem = later.last_problem.as_ref().or(before.last_problem.as_ref()).cloned();
    let mut sum = Entry {
        steps: before.steps + later.steps,
        altered: before.altered + later.altered,
        foreign: before.foreign + later.foreign,
        failed: before.failed + later.failed,
        last_problem,
        ..later.clone()
    };
    sum.effective = has_effect(&sum);
    sum
}

/// Returns the sums of two governors' entries, one after the other.
pub fn sums_of(before: &[Entry], later: &[Entry]) -> Vec<Entry> {
    let of = |entries: &[Entry], knob| entries.iter().find(|entry| entry.knob == knob).cloned();
    let both = |knob: Knob| match (of(before, knob), of(later, knob)) {
        (Some(before), Some(later)) => Some(sum(&before, &later)),
        (before, later) => before.or(later),
    };
    Knob::ALL.into_iter().filter_map(both).collect()
}

/// Results of all steps.
#[derive(Debug, Clone)]
pub struct Ledger {
    entries: [Entry; Knob::ALL.len()],
    /// Knobs and places whose last step failed or was altered.
    resting: BTreeMap<(Knob, usize), Rest>,
}

/// The rest of a knob after such a step.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Time,
    /// Duration of the rest.
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
    /// Records the result of a step on a knob and its place ([`place_of`]). If the machine differs
    /// from the step's request (not `done`), the knob rests: briefly after the first failure, and
    /// longer after each further failure in a row.
    pub fn note(&mut self, now: Time, knob: Knob, place: usize, taken: Taken, done: bool) {
        let entry = &mut self.entries[knob as usize];
        entry.steps += 1;
        let foreign = matches!(taken, Taken::Foreign { .. });
        let problem = match taken {
            // A slow step is recorded again once its result is known.
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
        entry.effective = has_effect(entry);
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

    /// Returns true if a knob rests at a place.
    pub fn rests(&self, now: Time, knob: Knob, place: usize) -> bool {
        self.resting.get(&(knob, place)).is_some_and(|rest| now < rest.until)
    }

    /// Returns the end of a knob's rest at a place; [`Time::ZERO`] if it does not rest.
    pub fn rests_until(&self, knob: Knob, place: usize) -> Time {
        self.resting.get(&(knob, place)).map_or(Time::ZERO, |rest| rest.until)
    }

    /// Returns resting knobs, with their places.
    pub fn left_alone(&self, now: Time) -> impl Iterator<Item = (Knob, usize)> {
        self.resting.iter().filter(move |(_, rest)| now < rest.until).map(|(place, _)| *place)
    }

    /// Returns the entries of knobs with at least one step.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.steps > 0)
    }

    /// Returns the numbers of steps taken, altered, and failed (including settings of other
    /// programs).
    pub fn sums(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&Entry) -> u64| self.entries.iter().map(of).sum();
        (sum(|e| e.steps), sum(|e| e.altered), sum(|e| e.failed + e.foreign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disobeying_knob_is_marked_and_failing_knob_rests() {
        let mut ledger = Ledger::default();
        let altered = || Taken::Altered { found: "2.4 GHz".into() };
        for time in 0..3 {
            assert!(ledger.entries().all(|entry| entry.effective));
            // Rounding counts as done, so the knob does not rest.
            ledger.note(Time::from_picos(time), Knob::Frequency, 0, altered(), true);
        }
        assert_eq!(ledger.left_alone(Time::from_picos(3)).count(), 0);
        let entry = ledger.entries().next().unwrap().clone();
        assert!(!entry.effective && entry.last_problem.unwrap().contains("2.4 GHz"));
        ledger.note(Time::ZERO, Knob::Frequency, 0, Taken::Done, true);
        assert!(ledger.entries().next().unwrap().effective, "it obeyed once");

        let now = Time::from_picos(5);
        let failed = Taken::Failed { why: "not permitted".into() };
        ledger.note(now, Knob::Wait, 1, failed, false);
        assert_eq!(ledger.left_alone(now).collect::<Vec<_>>(), [(Knob::Wait, 1)], "nothing else");
        assert_eq!(ledger.left_alone(now + FIRST_REST).count(), 0);
        ledger.note(now, Knob::Cores, 0, Taken::Foreign { found: "x".into() }, false);
        assert_eq!(ledger.sums(), (6, 3, 2));
    }

    #[test]
    fn entries_of_two_governors_add_up_by_knob() {
        let noted = |steps: &[(Knob, Taken)]| {
            let mut ledger = Ledger::default();
            for (knob, taken) in steps {
                ledger.note(Time::ZERO, *knob, 0, taken.clone(), true);
            }
            ledger.entries().cloned().collect::<Vec<_>>()
        };
        let altered = || Taken::Altered { found: "2.4 GHz".into() };
        let failed = || Taken::Failed { why: "busy".into() };
        let first = noted(&[(Knob::Wait, Taken::Done), (Knob::Batch, failed())]);
        let (once, twice) = ((Knob::Batch, failed()), (Knob::Frequency, altered()));
        let second = noted(&[once, twice.clone(), (Knob::Batch, altered())]);
        let sums = sums_of(&first, &second);
        let counts = |entry: &Entry| (entry.knob, entry.steps, entry.altered, entry.failed);
        assert_eq!(
            sums.iter().map(counts).collect::<Vec<_>>(),
            [(Knob::Frequency, 1, 1, 0), (Knob::Wait, 1, 0, 0), (Knob::Batch, 3, 1, 2)]
        );
        let batch = sums.last().unwrap();
        assert!(!batch.effective, "ineffective under both");
        assert!(batch.last_problem.as_ref().unwrap().contains("2.4 GHz"), "{batch:?}");
        assert_eq!(sums_of(&first, &[]), first);
        assert_eq!(sums_of(&[], &second), second);
    }

    #[test]
    fn knob_rests_briefly_after_one_failure_and_longer_after_more() {
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
