//! Operating points: the state in which a machine runs, or should.

use crate::{CoreSet, FrequencyDomain, Platform, Wait};
use serde::{Deserialize, Serialize};
use wattline_units::Span;

/// Setting of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreSetting {
    /// Index into [`Platform::frequencies`], 0 is the slowest.
    pub frequency: usize,
    /// Index into [`Platform::idle_states`]: the deepest allowed state.
    pub idle_limit: usize,
    /// Wait mode.
    pub wait: Wait,
}

/// Operating point of a machine: the active cores, their frequencies, idle limits and wait modes,
/// and the moderation of interrupts.
#[derive(Debug, Clone, Eq, Serialize, Deserialize)]
pub struct OperatingPoint {
    /// Cores that receive packets from the indirection table; never empty.
    pub active: CoreSet,
    /// By number of the core, inactive ones included.
    pub cores: Vec<CoreSetting>,
    /// Relative share of each core in the indirection table, by number of the core; at least 1.
    /// Values of inactive cores are ignored. Equal shares are all 1.
    pub weights: Vec<u8>,
    /// Shortest span between two interrupts, by number of the queue.
    pub moderation: Vec<Span>,
    /// True if the driver moderates a queue as it did before it was first changed, with its own
    /// period and logic; by number of the queue. [`Self::moderation`] then holds that period.
    #[serde(default)]
    pub as_found: Vec<bool>,
    /// Maximum number of packets that a core takes from a queue at once, at least one.
    pub batch: u32,
    /// Index into [`Platform::uncore`]: the uncore's upper limit. With `None` it follows the
    /// fastest active core ([`Self::uncore_limit`]), as for policies without an uncore setting.
    pub uncore: Option<usize>,
}

/// Compares field by field. Written out because of the list of spans: points are compared at each
/// decision.
impl PartialEq for OperatingPoint {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let Self { active, cores, weights, moderation, as_found, batch, uncore } = self;
        *active == other.active
            && *batch == other.batch
            && *uncore == other.uncore
            && *cores == other.cores
            && *weights == other.weights
            && *as_found == other.as_found
            && Span::lists_equal(moderation, &other.moderation)
    }
}

impl OperatingPoint {
    /// Packets of a batch unless a policy sets another number: the budget of one NAPI poll (Linux,
    /// `NAPI_POLL_WEIGHT`).
    pub const NAPI_BUDGET: u32 = 64;

    /// Returns the point with which a run begins before the policy is asked: all cores active at
    /// the fastest frequency, waiting for interrupts in the lightest idle state, without
    /// moderation.
    pub fn full(platform: &Platform) -> Self {
        let setting =
            CoreSetting { frequency: platform.fastest(), idle_limit: 0, wait: Wait::Interrupt };
        Self {
            active: CoreSet::first(platform.cores),
            cores: vec![setting; platform.cores],
            weights: vec![1; platform.cores],
            moderation: vec![platform.moderation.0; platform.queues.len()],
            as_found: vec![false; platform.queues.len()],
            batch: Self::NAPI_BUDGET,
            uncore: None,
        }
    }

    /// Copies the other point, without allocating if both belong to one platform.
    pub fn copy_from(&mut self, other: &Self) {
        let Self { active, cores, weights, moderation, as_found, batch, uncore } = self;
        (*active, *batch, *uncore) = (other.active, other.batch, other.uncore);
        cores.clone_from(&other.cores);
        weights.clone_from(&other.weights);
        moderation.clone_from(&other.moderation);
        as_found.clone_from(&other.as_found);
    }

    /// Gives all cores one frequency.
    pub fn set_frequency(&mut self, frequency: usize) {
        self.cores.iter_mut().for_each(|core| core.frequency = frequency);
    }
    /// Gives all cores one wait mode.
    pub fn set_wait(&mut self, wait: Wait) {
        self.cores.iter_mut().for_each(|core| core.wait = wait);
    }
    /// Makes the cores `0..count` active (at least one); active ones may sleep down to `nap`, the
    /// others down to `park`.
    pub fn set_active(&mut self, count: usize, nap: usize, park: usize) {
        self.active = CoreSet::first(count.clamp(1, self.cores.len()));
        let active = self.active;
        for (number, core) in self.cores.iter_mut().enumerate() {
            core.idle_limit = if active.contains(number) { nap } else { park };
        }
    }
    /// Gives all queues one moderation, as near to `period` as the platform allows.
    pub fn set_moderation(&mut self, platform: &Platform, period: Span) {
        self.moderation.fill(period.max(platform.moderation.0).min(platform.moderation.1));
        self.as_found.fill(false);
    }
    /// Sets the moderation of a queue. With `None` its driver moderates as it originally did, or
    /// the shortest period applies if that is unknown.
    pub fn moderate(&mut self, platform: &Platform, queue: usize, period: Option<Span>) {
        let (Some(own), Some(as_found)) =
            (self.moderation.get_mut(queue), self.as_found.get_mut(queue))
        else {
            return;
        };
        *own = period.unwrap_or(platform.default_moderation());
        *as_found = period.is_none() && platform.moderation_found.is_some();
    }
    /// Leaves the moderation of all queues to their drivers, as in [`Self::moderate`].
    pub fn leave_moderation(&mut self, platform: &Platform) {
        (0..self.moderation.len()).for_each(|queue| self.moderate(platform, queue, None));
    }
    /// Replaces settings that the platform does not support, so that a policy may request the
    /// impossible without harm: cores that do not exist, an empty set of cores (those of `present`
    /// stay), frequencies, idle states and interrupt moderations beyond the range, an empty or too
    /// large batch, too few or too many entries. Settings without a knob keep their present value.
    pub fn bound(&mut self, platform: &Platform, present: &Self) {
        self.active = self.active.intersection(platform.all_cores());
        let can = &platform.can;
        if self.active.is_empty() || !can.set_cores {
            self.active = present.active;
        }
        if self.cores.len() != present.cores.len() {
            self.cores.clone_from(&present.cores);
        }
        for (core, now) in self.cores.iter_mut().zip(&present.cores) {
            if !can.set_frequency {
                core.frequency = now.frequency;
            }
            if !can.limit_idle {
                core.idle_limit = now.idle_limit;
            }
            if !can.waits.allows(core.wait) {
                core.wait = now.wait;
            }
            core.frequency = core.frequency.min(platform.fastest());
            core.idle_limit = core.idle_limit.min(platform.deepest());
        }
        if self.weights.len() != present.weights.len() || !can.set_weights {
            self.weights.clone_from(&present.weights);
        }
        self.weights.iter_mut().for_each(|weight| *weight = (*weight).max(1));
        if self.moderation.len() != present.moderation.len() || !can.set_moderation {
            self.moderation.clone_from(&present.moderation);
            self.as_found.clone_from(&present.as_found);
        }
        if self.as_found.len() != present.as_found.len() {
            self.as_found.clone_from(&present.as_found);
        }
        if platform.moderation_found.is_none() {
            self.as_found.fill(false);
        }
        let (shortest, longest) = platform.moderation;
        for period in &mut self.moderation {
            // Not `clamp`, which panics if the range is reversed.
            *period = (*period).min(longest).max(shortest);
        }
        if !can.set_batch {
            self.batch = present.batch;
        }
        self.batch = self.batch.min(platform.batch_max.unwrap_or(u32::MAX)).max(1);
        if !can.set_uncore {
            self.uncore = present.uncore;
        }
        let highest = platform.uncore.len().checked_sub(1);
        self.uncore = self.uncore.and_then(|index| Some(index.min(highest?)));
    }

    /// Returns the uncore's upper limit, as an index into [`Platform::uncore`]; `None` if it cannot
    /// be chosen. Without an explicit limit, its position between lowest and highest is that of the
    /// fastest active core in its own range, rounded up.
    pub fn uncore_limit(&self, platform: &Platform) -> Option<usize> {
        let limits = &platform.uncore;
        let (low, high) = (limits.first()?, limits.last()?);
        if let Some(index) = self.uncore {
            return Some(index.min(limits.len() - 1));
        }
        let steps = &platform.frequencies;
        let fastest = steps.get(self.fastest_active().min(platform.fastest()))?;
        let (slowest, most) = (steps.first()?, steps.last()?);
        let range = most.0 - slowest.0;
        let place = if range > 0.0 { (fastest.0 - slowest.0) / range } else { 1.0 };
        let wanted = low.0 + place * (high.0 - low.0);
        // A difference of up to a hertz still counts as the same step.
        Some(limits.iter().position(|limit| limit.0 >= wanted - 1.0).unwrap_or(limits.len() - 1))
    }

    /// Returns the frequency of each core, as an index: its own, or the fastest requested by an
    /// active core that shares it. A cluster without an active core runs at the highest request of
    /// its cores.
    pub fn frequencies(&self, platform: &Platform) -> impl Iterator<Item = usize> {
        let common = (platform.domain == FrequencyDomain::Chip).then(|| self.fastest_active());
        let cluster = matches!(platform.domain, FrequencyDomain::Cluster(_));
        let of_cluster = move |number: usize| {
            let sharers = platform.domain.sharers(number, self.cores.len());
            let active = sharers.intersection(self.active);
            let asking = if active.is_empty() { sharers } else { active };
            asking.iter().map(|core| self.cores[core].frequency).max().unwrap_or(0)
        };
        self.cores.iter().enumerate().map(move |(number, core)| match common {
            Some(common) => common,
            None if cluster => of_cluster(number),
            None => core.frequency,
        })
    }

    /// Returns the fastest frequency that an active core requests, at which a chip-wide domain
    /// runs.
    pub fn fastest_active(&self) -> usize {
        self.active.iter().map(|core| self.cores[core].frequency).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::westmere;

    #[test]
    fn impossible_settings_are_replaced() {
        let platform = westmere();
        let present = OperatingPoint::full(&platform);
        let mut wanted = OperatingPoint {
            active: CoreSet::only(100),
            cores: present.cores[..3].to_vec(),
            weights: vec![0; 12],
            moderation: Vec::new(),
            as_found: Vec::new(),
            batch: 0,
            uncore: Some(3),
        };
        wanted.bound(&platform, &present);
        assert_eq!(wanted, OperatingPoint { batch: 1, ..present.clone() });
        wanted.set_frequency(99);
        wanted.cores[5].idle_limit = 99;
        wanted.active = CoreSet::first(128);
        wanted.moderation.fill(Span::from_millis(60_000));
        wanted.bound(&platform, &present);
        assert!(wanted.cores.iter().all(|core| core.frequency == 13));
        assert_eq!((wanted.cores[5].idle_limit, wanted.active), (2, CoreSet::first(12)));
        assert!(wanted.moderation.iter().all(|period| *period == platform.moderation.1));
    }

    #[test]
    fn bound_keeps_settings_without_a_knob() {
        let mut platform = westmere();
        let can = &mut platform.can;
        (can.set_cores, can.set_frequency, can.set_moderation) = (false, false, false);
        let present = OperatingPoint::full(&platform);
        let mut wanted = present.clone();
        wanted.set_active(2, 0, 2);
        wanted.set_frequency(0);
        wanted.moderation.fill(Span::from_micros(50));
        wanted.bound(&platform, &present);
        assert_eq!((wanted.active, &wanted.moderation), (present.active, &present.moderation));
        assert!(wanted.cores.iter().all(|core| core.frequency == 13));
        assert_eq!(wanted.cores[5].idle_limit, 2, "that can be limited");
    }

    /// A period that happens to equal the original one still counts as set by us.
    #[test]
    fn left_to_its_driver_differs_from_the_original_period() {
        let found = Span::from_micros(50);
        let mut platform = westmere();
        let full = OperatingPoint::full(&platform);
        let (mut left, mut set) = (full.clone(), full.clone());
        left.leave_moderation(&platform);
        assert_eq!(left, full, "the original is unknown");
        platform.moderation_found = Some(found);
        left.leave_moderation(&platform);
        set.set_moderation(&platform, found);
        assert_eq!((&left.moderation, left.as_found[0]), (&set.moderation, true));
        assert_ne!(left, set);
        set.copy_from(&left);
        assert_eq!(left, set);
        set.moderate(&platform, 3, Some(found));
        assert_eq!((set.as_found[2], set.as_found[3]), (true, false));
        left.set_moderation(&platform, found);
        assert!(!left.as_found.contains(&true));
        set.moderation.clear();
        set.bound(&platform, &left);
        assert_eq!(set, left);
    }

    #[test]
    fn chip_runs_at_the_highest_request_of_its_active_cores() {
        let mut platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        point.set_frequency(2);
        point.cores[1].frequency = 5;
        point.cores[7].frequency = 9;
        point.active = CoreSet::first(3);
        assert!(point.frequencies(&platform).all(|frequency| frequency == 5));
        platform.domain = FrequencyDomain::Core;
        let own: Vec<usize> = point.frequencies(&platform).collect();
        assert_eq!((own[0], own[1], own[7]), (2, 5, 9));
    }

    #[test]
    fn uncore_follows_the_fastest_active_core_until_a_policy_fixes_it() {
        let mut platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        assert_eq!(point.uncore_limit(&platform), None, "there is none to be set");
        platform.uncore = [1.0e9, 1.5e9, 2.0e9].map(wattline_units::Hertz).to_vec();
        let mut limits = Vec::new();
        for index in [0, 1, 6, 7, 13] {
            point.set_frequency(index);
            limits.push(point.uncore_limit(&platform).unwrap());
        }
        assert_eq!(limits, [0, 1, 1, 2, 2], "rounded up");
        point.set_frequency(0);
        point.uncore = Some(9);
        let present = OperatingPoint::full(&platform);
        point.bound(&platform, &present);
        assert_eq!((point.uncore, point.uncore_limit(&platform)), (Some(2), Some(2)));
        platform.can.set_uncore = false;
        point.bound(&platform, &present);
        assert_eq!(point.uncore, None, "left alone");
    }

    #[test]
    fn removed_cores_may_sleep_deeper() {
        let mut point = OperatingPoint::full(&westmere());
        point.set_active(3, 0, 2);
        assert_eq!(point.active, CoreSet::first(3));
        assert_eq!(point.cores[2].idle_limit, 0);
        assert_eq!(point.cores[3].idle_limit, 2);
        point.set_active(0, 0, 2);
        assert_eq!(point.active.len(), 1, "a machine without a core forwards nothing");
    }
}
