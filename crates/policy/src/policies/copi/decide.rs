//! The monitor and the decision engine of Co-PI (Figure 5 of the paper).

use super::options::Options;
use crate::{LatencyView, Observation, OperatingPoint, Platform};
use std::sync::Arc;
use wattline_server::tables::{Choice, ProfileTables};
use wattline_units::Time;

/// Fewer answers than this say nothing of a 95th percentile: twenty of them lie beyond it.
const LEAST_SAMPLES: u64 = 400;
/// A measured latency may exceed the target by so much before it counts as missed: the noise of a
/// percentile over a tenth of a second.
const NOISE: f64 = 1.05;
/// No correction beyond this: tables that are wrong fourfold are of another workload.
const MOST_CORRECTION: f64 = 4.0;
/// Share of a correction that a decision takes back where the target is met.
const RECOVERY: f64 = 0.05;
/// A smaller correction is none.
const FORGOTTEN: f64 = 1.005;

pub(super) struct Engine {
    tables: Arc<ProfileTables>,
    options: Options,
    asked: Time,
    /// Arrivals of each core when it was asked last.
    arrivals: Vec<u64>,
    /// Requests per second of each core since then.
    loads: Vec<f64>,
    /// The point of each core; `None` for the highest state with the driver's moderation.
    chosen: Vec<Option<Choice>>,
    /// Core of each queue.
    core_of: Vec<usize>,
    /// Cores that no queue leads to.
    without_queue: Vec<usize>,
    /// Latencies of the tables are taken so many times.
    correction: f64,
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
            arrivals: vec![0; platform.cores],
            loads: vec![0.0; platform.cores],
            chosen: vec![None; platform.cores],
            core_of,
            without_queue,
            correction: 1.0,
            decisions: 0,
            without_point: 0,
        }
    }

    pub fn begin(&mut self, now: Time, seen: &Observation<'_>) {
        self.count(now, seen);
    }

    /// Whether a queue's core has a point of the tables.
    pub fn has_chosen(&self, queue: usize) -> bool {
        let core = self.core_of.get(queue);
        core.and_then(|core| self.chosen.get(*core)).is_some_and(Option::is_some)
    }

    pub fn decide(&mut self, now: Time, seen: &Observation<'_>, point: &mut OperatingPoint) {
        if !self.count(now, seen) {
            return;
        }
        self.correct(seen.latency);
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
        for (period, core) in point.moderation.iter_mut().zip(&self.core_of) {
            let choice = self.chosen.get(*core).copied().flatten();
            let chosen = choice.and_then(|choice| self.tables.periods().get(choice.period));
            *period = chosen.copied().unwrap_or(seen.platform.moderation.0);
        }
    }

    /// The monitor: requests per second of each core. False where no time has passed.
    fn count(&mut self, now: Time, seen: &Observation<'_>) -> bool {
        let elapsed = now.since(self.asked).as_seconds();
        self.asked = now;
        for core in 0..self.loads.len() {
            let queues = seen.queues.iter().zip(&self.core_of).filter(|(_, of)| **of == core);
            let arrivals: u64 = queues.map(|(queue, _)| queue.arrivals).sum();
            let new =
                arrivals.saturating_sub(std::mem::replace(&mut self.arrivals[core], arrivals));
            let arrivals = if elapsed > 0.0 { new as f64 / elapsed } else { 0.0 };
            self.loads[core] = self.tables.load_of(arrivals);
        }
        // What answers the requests may run where no packet comes in: it has as much to do as the
        // busiest of those where they do.
        let most = self.loads.iter().copied().fold(0.0, f64::max);
        for core in &self.without_queue {
            self.loads[*core] = most;
        }
        elapsed > 0.0
    }

    fn target(&self, load: f64) -> Option<f64> {
        match self.options.target {
            Some(target) => Some(target.as_seconds()),
            None => self.tables.target(load).map(|target| target * (1.0 + self.options.slack)),
        }
    }

    /// The point for a core at its load, at one frequency or at any.
    fn choose(&self, core: usize, frequency: Option<usize>, now: Option<Choice>) -> Option<Choice> {
        let load = self.loads[core];
        let target = self.target(load)?;
        let best = self.tables.choose(load, target, self.correction, frequency)?;
        let present = now.filter(|now| frequency.is_none_or(|one| now.frequency == one));
        let stays = present.and_then(|now| {
            let (frequency, period) = (now.frequency, now.period);
            let point = self.tables.feasible(load, target, self.correction, frequency, period)?;
            let now = Choice { point, ..now };
            self.tables.is_near(&now, &best, self.options.hysteresis).then_some(now)
        });
        Some(stays.unwrap_or(best))
    }

    /// Where cores share a frequency, the highest that one of them needs holds for all, and each
    /// takes the best period for it. A core without a point needs the highest of all.
    fn share_frequencies(&mut self, platform: &Platform) {
        for core in 0..self.chosen.len() {
            let sharers = platform.domain.sharers(core, self.chosen.len());
            if sharers.len() == 1 || sharers.lowest() != Some(core) {
                continue;
            }
            let needs = |core: usize| {
                self.chosen[core].map_or(platform.fastest(), |choice| choice.frequency)
            };
            let highest = sharers.iter().map(needs).max().unwrap_or(platform.fastest());
            for sharer in sharers.iter() {
                let Some(present) = self.chosen[sharer] else { continue };
                if present.frequency != highest {
                    // What no table knows at this frequency keeps its own period: a faster core
                    // is not slower.
                    let raised = Choice { frequency: highest, ..present };
                    let chosen = self.choose(sharer, Some(highest), None);
                    self.chosen[sharer] = Some(chosen.unwrap_or(raised));
                }
            }
        }
    }

    /// Takes over part of the gap between what was measured and what the tables say.
    fn correct(&mut self, measured: Option<LatencyView>) {
        let Some(measured) = measured.filter(|view| view.samples >= LEAST_SAMPLES) else { return };
        // The last points were in force while this was measured: weigh them by their answers.
        let (mut weight, mut tabled, mut target) = (0.0, 0.0, 0.0);
        for (load, chosen) in self.loads.iter().zip(&self.chosen) {
            let Some(choice) = chosen else { return };
            let at = self.tables.at(*load, choice.frequency, choice.period);
            let (Some(point), Some(wanted)) = (at, self.target(*load)) else { return };
            if !point.latency_seconds.is_finite() {
                return;
            }
            weight += load;
            tabled += point.latency_seconds * load;
            target += wanted * load;
        }
        if weight <= 0.0 || tabled <= 0.0 {
            return;
        }
        let (tabled, target) = (tabled / weight, target / weight);
        let p95 = measured.p95.as_seconds();
        if p95 > target * NOISE {
            let gap = (p95 / tabled).clamp(1.0, MOST_CORRECTION) - self.correction;
            self.correction += self.options.correction * gap.max(0.0);
        } else {
            self.correction += RECOVERY * (1.0 - self.correction);
            // A hair above 1 would rule out points that meet the target exactly, for good.
            if self.correction < FORGOTTEN {
                self.correction = 1.0;
            }
        }
    }

    pub fn remark(&self) -> Option<String> {
        (self.without_point > 0).then(|| {
            format!(
                "copi: no point of the tables met the target in {} of {} decisions of a core; \
                 it ran at the highest V/F state with the driver's moderation then",
                self.without_point, self.decisions
            )
        })
    }
}
