//! The monitor and the decision engine of Co-PI (Figure 5 of the paper).

use super::correction::{Correction, Stretch};
use super::options::Options;
use std::sync::Arc;
use wattline_policy::{CoreSet, Observation, OperatingPoint, Platform};
use wattline_server::tables::{Choice, ProfileTables};
use wattline_units::Time;

pub(super) struct Engine {
    tables: Arc<ProfileTables>,
    options: Options,
    asked: Time,
    /// Time of the last counts; cards are not read for every decision.
    counted: Time,
    /// Arrivals of each core at that time.
    arrivals: Vec<u64>,
    /// Requests per second of each core since the previous counts.
    loads: Vec<f64>,
    /// The point of each core; `None` for the highest state with the default moderation.
    chosen: Vec<Option<Choice>>,
    /// Core of each queue.
    core_of: Vec<usize>,
    /// Cores that serve no queue.
    without_queue: Vec<usize>,
    correction: Correction,
    /// Description of the moderation of a core without a point.
    moderation: &'static str,
    decisions: u64,
    without_point: u64,
}

impl Engine {
    pub fn new(tables: Arc<ProfileTables>, options: Options, platform: &Platform) -> Self {
        let core_of: Vec<usize> = platform.queues.iter().map(|queue| queue.core).collect();
        let without_queue = (0..platform.cores).filter(|core| !core_of.contains(core)).collect();
        Self {
            tables,
            options,
            asked: Time::ZERO,
            counted: Time::ZERO,
            arrivals: vec![0; platform.cores],
            loads: vec![0.0; platform.cores],
            chosen: vec![None; platform.cores],
            core_of,
            without_queue,
            correction: Correction::new(options.correction),
            moderation: if platform.can.driver_rules || platform.moderation_found.is_some() {
                "the driver's moderation"
            } else {
                "the shortest moderation"
            },
            decisions: 0,
            without_point: 0,
        }
    }

    pub fn begin(&mut self, seen: &Observation<'_>) {
        self.count(seen.now, seen);
        self.asked = seen.now;
    }

    /// Returns true if a queue's core has a point of the tables.
    pub fn has_chosen(&self, queue: usize) -> bool {
        let core = self.core_of.get(queue);
        core.and_then(|core| self.chosen.get(*core)).is_some_and(Option::is_some)
    }

    pub fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) {
        let (now, asked) = (seen.now, self.asked);
        if !self.count(now, seen) {
            return;
        }
        self.asked = now;
        // The last points were in force until now, at the loads just counted.
        let stretch = self.stretch();
        self.correction.learn((asked, now), stretch, seen.latency);
        for core in 0..self.chosen.len() {
            self.chosen[core] = self.choose(core, None, self.chosen[core]);
            self.decisions += 1;
            self.without_point += u64::from(self.chosen[core].is_none());
        }
        self.share_frequencies(seen.platform);
        let fastest = seen.platform.fastest();
        for (setting, chosen) in point.cores.iter_mut().zip(&self.chosen) {
            setting.frequency = chosen.map_or(fastest, |choice| choice.frequency);
        }
        for (queue, core) in self.core_of.iter().enumerate() {
            let choice = self.chosen.get(*core).copied().flatten();
            let period = choice.and_then(|choice| self.tables.periods().get(choice.period));
            point.moderate(seen.platform, queue, period.copied());
        }
    }

    /// Counts requests per second of each core (the paper's monitor). Returns false if there are no
    /// new counts.
    fn count(&mut self, now: Time, seen: &Observation<'_>) -> bool {
        let age = seen.queues.iter().map(|queue| queue.age).max().unwrap_or_default();
        let counted = Time::from_picos(now.as_picos().saturating_sub(age.as_picos()));
        let elapsed = counted.since(self.counted).as_seconds();
        if elapsed <= 0.0 {
            return false;
        }
        self.counted = counted;
        for core in 0..self.loads.len() {
            let queues = seen.queues.iter().zip(&self.core_of).filter(|(_, of)| **of == core);
            let arrivals: u64 = queues.map(|(queue, _)| queue.arrivals).sum();
            let new =
                arrivals.saturating_sub(std::mem::replace(&mut self.arrivals[core], arrivals));
            self.loads[core] = self.tables.load_of(new as f64 / elapsed);
        }
        // Applications may run on cores that receive no packets; those are assumed to be as busy as
        // the busiest core that does.
        let most = self.loads.iter().copied().fold(0.0, f64::max);
        for core in &self.without_queue {
            self.loads[*core] = most;
        }
        true
    }

    fn target(&self, load: f64) -> Option<f64> {
        match self.options.target {
            Some(target) => Some(target.as_seconds()),
            None => {
                let factor = (1.0 + self.options.slack) * self.correction.target_factor();
                self.tables.target(load).map(|target| target * factor)
            }
        }
    }

    /// Returns the point for a core at its load, at one frequency or at any.
    fn choose(&self, core: usize, frequency: Option<usize>, now: Option<Choice>) -> Option<Choice> {
        let load = self.loads[core];
        let target = self.target(load)?;
        let correction = self.correction.factor();
        let best = self.tables.choose(load, target, correction, frequency)?;
        let present = now.filter(|now| frequency.is_none_or(|one| now.frequency == one));
        let stays = present.and_then(|now| {
            let (frequency, period) = (now.frequency, now.period);
            let point = self.tables.feasible(load, target, correction, frequency, period)?;
            let now = Choice { point, ..now };
            self.tables.is_near(&now, &best, self.options.hysteresis).then_some(now)
        });
        Some(stays.unwrap_or(best))
    }

    /// Gives cores that share a frequency the highest that one of them needs, or the lowest above
    /// it at which each core that can meet its target does; each uses the best period for it. A
    /// core without a point requires the highest frequency.
    fn share_frequencies(&mut self, platform: &Platform) {
        for core in 0..self.chosen.len() {
            let sharers = platform.domain.sharers(core, self.chosen.len());
            if sharers.len() == 1 || sharers.lowest() != Some(core) {
                continue;
            }
            let frequency = self.shared_frequency(sharers, platform.fastest());
            for sharer in sharers.iter() {
                let Some(present) = self.chosen[sharer] else { continue };
                if present.frequency != frequency {
                    // Without an entry at this frequency, the core keeps its period: higher
                    // frequencies are not slower.
                    let raised = Choice { frequency, ..present };
                    let chosen = self.choose(sharer, Some(frequency), None);
                    self.chosen[sharer] = Some(chosen.unwrap_or(raised));
                }
            }
        }
    }

    fn shared_frequency(&self, sharers: CoreSet, fastest: usize) -> usize {
        let needs = |core: usize| self.chosen[core].map_or(fastest, |choice| choice.frequency);
        let highest = sharers.iter().map(needs).max().unwrap_or(fastest);
        // Entries need not improve with the frequency: noise, or a load that was not sustained.
        let served = |frequency: usize| {
            let served = |core: &usize| {
                self.chosen[*core].is_none_or(|own| {
                    own.frequency == frequency
                        || self.tables.at(self.loads[*core], frequency, own.period).is_none()
                        || self.choose(*core, Some(frequency), None).is_some()
                })
            };
            sharers.iter().filter(served).count()
        };
        // The lowest of the frequencies that serve the most.
        let most = (highest..=fastest).map(served).max().unwrap_or(0);
        (highest..=fastest).find(|frequency| served(*frequency) == most).unwrap_or(fastest)
    }

    /// Returns the tables' figures for the points in force at the present loads.
    fn stretch(&self) -> Stretch {
        let mut stretch = Stretch::default();
        for (load, chosen) in self.loads.iter().zip(&self.chosen) {
            let tabled = match chosen {
                Some(choice) => self.tables.at(*load, choice.frequency, choice.period),
                None => self.tables.default_at(*load),
            };
            let tabled = tabled.map(|point| point.latency_seconds);
            stretch.add(*load, tabled.zip(self.target(*load)), chosen.is_none());
        }
        stretch
    }

    pub fn remark(&self) -> Option<String> {
        (self.without_point > 0).then(|| {
            let target = match self.options.target {
                Some(_) => "",
                None => ", whose latency is the target",
            };
            format!(
                "copi: in {} of {} decisions of a core no other point of the tables was within the \
                 target: it ran at the highest V/F state with {}{target}",
                self.without_point, self.decisions, self.moderation
            )
        })
    }
}
