//! Measures how long the machine takes to add or to park a core.
//!
//! A change of many cores is many steps: each core wakes or parks, and the tables are written. A slow
//! machine takes one after the other. A look shows only whether a change is complete, so the time
//! between the change and the last look at which it was not is certain.

use crate::CoreView;
use wattline_units::{Span, Time};

/// A change of fewer cores says little: leaving an idle state, or draining, takes most of its time.
const FEW: usize = 4;
/// In a change that takes longer than this, beyond what is usual, more than one write was slow: one that
/// fails is repeated after 0.1 ms.
const LONG: f64 = 250e-6;
/// A time that is shorter than this is no obstacle, in seconds: a leap takes longer to be noticed.
const NO_OBSTACLE: f64 = 2e-6;

/// A change of cores that is not seen to be complete.
#[derive(Debug, Clone, Copy)]
struct Change {
    asked: Time,
    /// The cores that it adds or parks are those from the first number up to the second.
    cores: (usize, usize),
    /// Packets that they had served; none where they are parked.
    had: Option<u64>,
    /// The lightest idle state of parked cores.
    state: usize,
}

/// Seconds for each step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    change: Option<Change>,
    /// The last two measurements, of which the lower one counts: a step that is slow once may have
    /// failed once. A long one counts as both.
    last: [f64; 2],
}

impl Steps {
    /// Seconds for each core and for the tables; zero if that is not known or does not matter.
    pub fn seconds(&self) -> f64 {
        let seconds = self.last[0].min(self.last[1]);
        if seconds < NO_OBSTACLE { 0.0 } else { seconds }
    }

    /// Notes that the number of cores is to change. Parked cores sleep in this idle
    /// state, or deeper.
    pub fn ask(&mut self, now: Time, (from, to): (usize, usize), state: usize, seen: &[CoreView]) {
        if from == to {
            return;
        }
        self.change = None;
        if from.abs_diff(to) < FEW {
            return;
        }
        let cores = (from.min(to), from.max(to));
        let had = (to > from).then(|| packets(&seen[cores.0..cores.1]));
        self.change = Some(Change { asked: now, cores, had, state });
    }

    /// Looks whether the change is complete. `before` is the time of the last look, `exit` what a core
    /// takes from its idle state to its first packet in any case, and `drain` until it is empty.
    pub fn look(&mut self, before: Time, exit: Span, drain: Span, seen: &[CoreView]) {
        let Some(change) = self.change else { return };
        let cores = &seen[change.cores.0..change.cores.1];
        let complete = match change.had {
            Some(had) => packets(cores) > had,
            None if cores.iter().all(|core| core.idle_state.is_none()) => false,
            None => cores.iter().all(|core| core.idle_state >= Some(change.state)),
        };
        if !complete {
            return;
        }
        self.change = None;
        let certain = before.max(change.asked).since(change.asked);
        let usual = if change.had.is_some() { exit } else { drain };
        let took = certain.as_seconds() - usual.as_seconds();
        let steps = (change.cores.1 - change.cores.0 + 1) as f64;
        let each = took.max(0.0) / steps;
        self.last = [each, if took > LONG { each } else { self.last[0] }];
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

    const EXIT: Span = Span::from_micros(90);
    const DRAIN: Span = Span::from_micros(50);

    /// Eleven cores wake in 550 us, then the tables are written.
    fn wakes(steps: &mut Steps, from: u64, slow: bool) {
        let mut cores = [CoreView::default(); 12];
        steps.ask(at(from), (1, 12), 2, &cores);
        for look in 1..14u64 {
            if !slow || look * 50 > 600 {
                cores.iter_mut().for_each(|core| core.packets += 10);
            }
            steps.look(at(from + (look - 1) * 50), EXIT, DRAIN, &cores);
        }
    }

    fn parks(steps: &mut Steps, from: u64) {
        let mut cores = [CoreView::default(); 12];
        steps.ask(at(from), (12, 1), 2, &cores);
        for look in 1..5u64 {
            let parked = (look * 200 / 50).saturating_sub(1).min(11) as usize;
            cores[12 - parked..].iter_mut().for_each(|core| core.idle_state = Some(2));
            steps.look(at(from + (look - 1) * 200), EXIT, DRAIN, &cores);
        }
    }

    #[test]
    fn slow_steps_are_timed_when_cores_wake_and_when_they_park() {
        let mut steps = Steps::default();
        wakes(&mut steps, 0, true);
        assert!((40e-6..=50e-6).contains(&steps.seconds()), "{}", steps.seconds());
        let mut steps = Steps::default();
        parks(&mut steps, 0);
        assert!((25e-6..=50e-6).contains(&steps.seconds()), "{}", steps.seconds());
        wakes(&mut steps, 20_000, false);
        assert_eq!(steps.seconds(), 0.0, "the machine is quick again");
    }

    #[test]
    fn few_cores_that_drain_and_a_write_that_fails_say_nothing() {
        let (mut steps, cores) = (Steps::default(), [CoreView::default(); 12]);
        let parked = [CoreView { idle_state: Some(2), ..CoreView::default() }; 12];
        for round in 0..3u64 {
            steps.ask(at(round * 1_000), (5, 4), 2, &cores);
            steps.look(at(round * 1_000 + 60), EXIT, DRAIN, &cores);
            steps.look(at(round * 1_000 + 120), EXIT, DRAIN, &parked);
        }
        assert_eq!(steps.seconds(), 0.0);
        // One of four wakes after 0.1 ms more.
        let awake = [CoreView { packets: 1, ..CoreView::default() }; 12];
        steps.ask(at(10_000), (2, 6), 2, &cores);
        steps.look(at(10_190), EXIT, DRAIN, &awake);
        assert_eq!(steps.seconds(), 0.0, "once says nothing");
        steps.ask(at(20_000), (2, 6), 2, &cores);
        steps.look(at(20_190), EXIT, DRAIN, &awake);
        assert!((19e-6..=21e-6).contains(&steps.seconds()), "{}", steps.seconds());
    }
}
