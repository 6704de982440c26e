//! Tracks the machine's response to decisions: refused frequencies, and slow changes of cores.

use super::constants::*;
use super::machine::At;
use wattline_policy::CoreView;
use wattline_units::{Span, Time};

/// Frequencies that the machine accepts, as indices. A frequency that is refused for [`STEADY`]
/// seconds is excluded for a second; a write that fails only now and then is repeated sooner.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frequencies {
    all: (usize, usize),
    /// Start and last time of the refusal, and the frequency that held instead.
    refused: Option<(Time, Time, usize)>,
    limits: Option<((usize, usize), Time)>,
}

impl Frequencies {
    pub fn new(fastest: usize) -> Self {
        Self { all: (0, fastest), refused: None, limits: None }
    }

    /// Compares the requested frequency with the one that holds. Returns the lowest and the highest
    /// accepted one.
    pub fn update(&mut self, now: Time, asked: usize, held: usize) -> (usize, usize) {
        self.limits = self.limits.filter(|(_, until)| now < *until);
        // A request for the present frequency does not show that the machine accepts it.
        let still = |(_, last, before): &(Time, Time, usize)| {
            *before == held && now.since(*last).as_seconds() < RECENT
        };
        self.refused = self.refused.filter(still);
        let usable = self.limits.map_or(self.all, |(usable, _)| usable);
        if asked == held {
            return usable;
        }
        let since = self.refused.map_or(now, |refused| refused.0);
        self.refused = Some((since, now, held));
        if now.since(since).as_seconds() < STEADY {
            return usable;
        }
        let usable =
            if held > asked { (held, usable.1.max(held)) } else { (usable.0.min(held), held) };
        self.limits = Some((usable, now + Span::from_seconds(1.0)));
        usable
    }
}

/// Time that the machine takes for each core that is added or parked. A decision only sees if a
/// change is complete, so only the time from the change to the last incomplete observation is
/// certain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    /// A change not yet seen complete: its time and cores, and either the packets that added cores
    /// had served or the idle state that parked ones should reach.
    change: Option<(Time, At, Result<u64, usize>)>,
    /// The last two measurements, initially the worst case that the machine promises. The lower one
    /// counts: a single slow step may be due to a failure. A step longer than a failure counts as
    /// both.
    last: [f64; 2],
}

impl Steps {
    /// Creates the account of a machine whose cores take at most `worst` seconds to wake.
    pub fn new(worst: f64) -> Self {
        Self { change: None, last: [worst; 2] }
    }

    /// Returns the seconds per core including the tables; zero if negligible.
    pub fn seconds(&self) -> f64 {
        self.last[0].min(self.last[1])
    }

    /// Notes a change of cores. Parked cores sleep at least as deep as `parked`.
    pub fn ask(&mut self, now: Time, (from, to): (usize, usize), parked: usize, seen: &[CoreView]) {
        let (low, high) = (from.min(to), from.max(to));
        if low < high {
            let goal = if to > from { Ok(packets(&seen[low..high])) } else { Err(parked) };
            // With few cores, leaving an idle state dominates the time.
            self.change = (high > low + 2).then_some((now, (low, high), goal));
        }
    }

    /// Checks if the change is complete: added cores serve packets, which takes `usual` in any
    /// case, and parked ones sleep. `before` is the time of the last decision.
    pub fn update(&mut self, before: Time, usual: Span, seen: &[CoreView]) {
        let Some((asked, (low, high), goal)) = self.change else { return };
        let cores = &seen[low..high];
        let complete = match goal {
            Ok(had) => packets(cores) > had,
            Err(parked) => cores.iter().all(|core| core.idle_state.is_some_and(|at| at >= parked)),
        };
        if complete {
            self.change = None;
            let usual = goal.map_or(0.0, |_| usual.as_seconds());
            let took = before.max(asked).since(asked).as_seconds() - usual;
            let each = took.max(0.0) / (high - low + 1) as f64;
            let each = if took <= ALERT.as_seconds() { 0.0 } else { each };
            self.last =
                [each, if took > (PERIOD + ALERT).as_seconds() { each } else { self.last[0] }];
        }
    }
}

fn packets(cores: &[CoreView]) -> u64 {
    cores.iter().map(|core| core.packets).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn refused_frequency_is_left_out_for_a_second() {
        let mut frequencies = Frequencies::new(13);
        // One write fails and is repeated.
        frequencies.update(at(0), 3, 13);
        frequencies.update(at(200), 3, 13);
        frequencies.update(at(400), 3, 3);
        let feed = |frequencies: &mut Frequencies, range: std::ops::Range<u64>| {
            range.map(|index| frequencies.update(at(1_000 + 200 * index), 3, 13)).last()
        };
        assert_eq!(feed(&mut frequencies, 0..39), Some((0, 13)));
        assert_eq!(feed(&mut frequencies, 39..42), Some((13, 13)), "it cannot be slower");
        assert_eq!(frequencies.update(at(900_000), 13, 13), (13, 13));
        assert_eq!(frequencies.update(at(1_100_000), 13, 13), (0, 13), "it is tried again");
        let fast =
            (0..42).map(|index| frequencies.update(at(2_000_000 + 200 * index), 9, 4)).last();
        assert_eq!(fast, Some((0, 4)), "it cannot be faster");
    }

    /// Every other time the policy requests the frequency that holds.
    #[test]
    fn frequency_asked_for_every_other_time_is_refused_all_the_time() {
        let mut frequencies = Frequencies::new(13);
        let asked = |index: u64| if index.is_multiple_of(2) { 3 } else { 13 };
        let usable =
            (0..90).map(|index| frequencies.update(at(100 * index), asked(index), 13)).last();
        assert_eq!(usable, Some((13, 13)));
        // It was granted in between, or refused only briefly.
        for (again, held) in [(100, 3), (2_000, 13)] {
            let mut frequencies = Frequencies::new(13);
            for index in 0..90 {
                frequencies.update(at(2 * again * index), 3, 13);
                let usable = frequencies.update(at(2 * again * index + again), held, held);
                assert_eq!(usable, (0, 13), "{again}");
            }
        }
    }

    /// Adds or parks eleven cores, and observes them every 50 us, until the change is complete.
    fn changes(steps: &mut Steps, from: u64, cores: (usize, usize), until: u64) {
        let mut seen = [CoreView::default(); 12];
        steps.ask(at(from), cores, 2, &seen);
        for index in 1..14u64 {
            if index * 50 > until {
                let there = |core: &mut CoreView| (core.packets, core.idle_state) = (10, Some(2));
                seen.iter_mut().for_each(there);
            }
            // The next decisions change no cores.
            steps.ask(at(from + index * 50), (cores.1, cores.1), 2, &seen);
            steps.update(at(from + (index - 1) * 50), Span::from_micros(90), &seen);
        }
    }

    #[test]
    fn slow_steps_are_timed_when_two_changes_were_slow_or_one_was_longer_than_a_failure() {
        let mut steps = Steps::new(0.0);
        changes(&mut steps, 0, (1, 12), 250);
        assert_eq!(steps.seconds(), 0.0, "once says nothing");
        changes(&mut steps, 10_000, (1, 12), 250);
        assert!((10e-6..20e-6).contains(&steps.seconds()), "{}", steps.seconds());
        for cores in [(1, 12), (12, 1)] {
            changes(&mut steps, 20_000, cores, 600);
            assert!((40e-6..=50e-6).contains(&steps.seconds()), "{}", steps.seconds());
            changes(&mut steps, 30_000, cores, 0);
            assert_eq!(steps.seconds(), 0.0, "the machine is quick again");
        }
    }

    #[test]
    fn worst_promised_time_of_a_step_counts_until_one_is_timed() {
        for (took, expected) in [(0, 0.0..1e-9), (600, 40e-6..51e-6)] {
            let mut steps = Steps::new(90e-6);
            changes(&mut steps, 0, (1, 3), took);
            assert_eq!(steps.seconds(), 90e-6, "few cores say little");
            changes(&mut steps, 10_000, (12, 1), took);
            assert!(expected.contains(&steps.seconds()), "{took}: {}", steps.seconds());
        }
    }
}
