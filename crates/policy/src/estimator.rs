//! PowerSave's queue estimator (PowerSave, section 6.1): counts streaks of batches.

use crate::{FillRead, Level, StreakReset, StreakRule};
use wattline_units::{Span, Time};

/// Samples in a row above and below the levels (c_h and c_l) of a queue.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    high: u64,
    low: u64,
    /// Batches since the last sample, and the time of the next one.
    batches: u64,
    due: Time,
}

/// Estimator of one core, with a pair of counters for each port. The simulated core and the workers
/// of a router run the same one. Taking a sample allocates nothing.
#[derive(Debug)]
pub struct QueueEstimator {
    rule: StreakRule,
    counters: Vec<Counters>,
    /// Time of the last batch or empty pass.
    last: Time,
}

impl QueueEstimator {
    /// Creates an estimator for so many ports, for which nothing is an event.
    pub fn new(ports: usize) -> Self {
        Self {
            rule: StreakRule::NEVER,
            counters: vec![Counters::default(); ports],
            last: Time::ZERO,
        }
    }

    /// Restarts the estimator under a rule.
    pub fn start(&mut self, now: Time, rule: StreakRule) {
        self.rule = rule;
        self.restart(now);
    }

    /// Returns the rule.
    pub fn rule(&self) -> &StreakRule {
        &self.rule
    }

    /// Resets all counters, as after a silence.
    pub fn restart(&mut self, now: Time) {
        self.counters.fill(Counters::default());
        self.last = now;
    }

    /// Returns the time at which a core without samples counts as silent; [`Time::NEVER`] without
    /// that rule.
    pub fn silent_at(&self) -> Time {
        let silence = self.rule.silence;
        if silence == Span::ZERO { Time::NEVER } else { self.last + silence }
    }

    /// Counts a batch of `taken` packets from a port's queue that held `found` packets. Returns
    /// true at a streak above the upper level, false at one below the lower level.
    #[inline]
    pub fn batch(&mut self, now: Time, port: usize, found: u32, taken: u32) -> Option<bool> {
        self.end_silence(now);
        let after = self.rule.read == FillRead::After;
        let fill = if after { found.saturating_sub(taken) } else { found };
        let counters = self.counters.get_mut(port)?;
        let batches = if self.rule.look == Span::ZERO {
            1
        } else {
            counters.batches += 1;
            if now < counters.due {
                return None;
            }
            counters.due = now + self.rule.look;
            std::mem::take(&mut counters.batches)
        };
        self.sample(port, fill, batches)
    }

    /// Counts a pass that found no queue with a packet, for the queue of this port.
    pub fn empty_pass(&mut self, now: Time, port: usize) -> Option<bool> {
        if self.rule.read != FillRead::Pass {
            return None;
        }
        self.end_silence(now);
        self.sample(port, 0, 1)
    }

    fn end_silence(&mut self, now: Time) {
        if now >= self.silent_at() {
            self.restart(now);
        }
        self.last = now;
    }

    fn sample(&mut self, port: usize, fill: u32, batches: u64) -> Option<bool> {
        let StreakRule { above, below, reset, .. } = self.rule;
        let counters = self.counters.get_mut(port)?;
        let worth = |level: Level| batches.clamp(1, level.most_of_a_sample().into());
        let event = if fill > above.packets {
            counters.low = 0;
            counters.high += worth(above);
            (counters.high > u64::from(above.samples)).then_some(true)
        } else if fill < below.packets {
            counters.high = 0;
            counters.low += worth(below);
            (counters.low > u64::from(below.samples)).then_some(false)
        } else {
            (counters.high, counters.low) = (0, 0);
            None
        };
        if event.is_some() {
            let restart_counters = |counters: &mut Counters| (counters.high, counters.low) = (0, 0);
            match reset {
                StreakReset::All => self.counters.iter_mut().for_each(restart_counters),
                StreakReset::Own => restart_counters(&mut self.counters[port]),
            }
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(c_up: u32, c_down: u32, change: impl Fn(&mut StreakRule)) -> QueueEstimator {
        let mut rule = StreakRule {
            above: Level { packets: 32, samples: c_up },
            below: Level { packets: 4, samples: c_down },
            ..StreakRule::NEVER
        };
        change(&mut rule);
        let mut estimator = QueueEstimator::new(2);
        estimator.start(Time::ZERO, rule);
        estimator
    }

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    /// Returns the events of these fill levels, ten microseconds apart, in batches of 32.
    fn events(estimator: &mut QueueEstimator, fills: &[(usize, u32)]) -> Vec<Option<bool>> {
        let fills = fills.iter().zip(1..);
        let batch = |(&(port, fill), turn): (&(usize, u32), u64)| {
            estimator.batch(at(10 * turn), port, fill, fill.min(32))
        };
        fills.map(batch).collect()
    }

    #[test]
    fn fill_levels_at_and_next_to_both_limits_give_these_events() {
        // More than two samples in a row act; 32 is not above, and 4 is not below.
        let (up, down, no) = (Some(true), Some(false), None);
        let script = [
            (40, no),
            (40, no),
            (40, up),
            (40, no),
            (40, no),
            (32, no),
            (40, no),
            (40, no),
            (3, no),
            (4, no),
            (3, no),
            (3, no),
            (3, down),
            (3, no),
            (33, no),
            (33, no),
            (33, up),
        ];
        let fills = script.map(|(fill, _)| (0, fill));
        let expected = script.map(|(_, event)| event);
        assert_eq!(events(&mut estimator(2, 2, |_| {}), &fills), expected);
    }

    #[test]
    fn each_port_counts_separately_and_an_event_resets_all_or_its_own() {
        let fills = [(0, 50), (1, 50), (0, 50), (1, 50)];
        let all = events(&mut estimator(1, 9, |_| {}), &fills);
        assert_eq!(all, [None, None, Some(true), None]);
        let own = events(&mut estimator(1, 9, |rule| rule.reset = StreakReset::Own), &fills);
        assert_eq!(own, [None, None, Some(true), Some(true)]);
        let nowhere = events(&mut estimator(0, 0, |_| {}), &[(7, 50)]);
        assert_eq!(nowhere, [None]);
    }

    #[test]
    fn queue_is_read_before_or_after_the_batch_or_at_each_pass() {
        let read = |read, fill| {
            let mut estimator = estimator(0, 0, |rule| rule.read = read);
            (events(&mut estimator, &[(0, fill)])[0], estimator.empty_pass(at(20), 1))
        };
        // Of 40 packets 8 are left after the batch of 32; of 20 none.
        assert_eq!(read(FillRead::Before, 40), (Some(true), None));
        assert_eq!(read(FillRead::After, 40), (None, None));
        assert_eq!(read(FillRead::Before, 20), (None, None));
        assert_eq!(read(FillRead::After, 20), (Some(false), None));
        assert_eq!(read(FillRead::Pass, 20), (None, Some(false)));
    }

    #[test]
    fn silence_restarts_the_counters() {
        let mut estimator = estimator(1, 9, |rule| rule.silence = Span::from_micros(50));
        assert_eq!(estimator.batch(at(10), 0, 40, 8), None);
        assert_eq!(estimator.silent_at(), at(60));
        assert_eq!(estimator.batch(at(59), 0, 40, 8), Some(true));
        assert_eq!(estimator.batch(at(70), 0, 40, 8), None);
        assert_eq!(estimator.batch(at(120), 0, 40, 8), None, "it had been silent");
        assert_eq!(estimator.batch(at(121), 0, 40, 8), Some(true));
    }

    /// A streak takes as long, but several samples have to agree.
    #[test]
    fn sample_counts_for_the_batches_since_the_last_one() {
        let looks_until_an_event = |batches: u64| {
            let mut estimator = estimator(0, 80, |rule| rule.look = Span::from_micros(1_000));
            let pause = 1_000 / batches;
            let event = (0..).find(|turn| estimator.batch(at(turn * pause), 0, 1, 1).is_some());
            event.unwrap() / batches + 1
        };
        assert_eq!(looks_until_an_event(1), 81);
        assert_eq!(looks_until_an_event(10), 9);
        assert_eq!(looks_until_an_event(1000), 9);
    }
}
