//! Common part of governors that set frequencies from the load of a past period.

use super::cpu_load::{CpuLoad, over_domain};
use super::fixed::Fixed;
use wattline_policy::{AskAgain, Observation, OperatingPoint, Platform, Policy, Trigger};
use wattline_units::Span;

/// Rule that sets frequencies by loads.
pub(super) trait LoadRule: Send {
    /// True if polling empty queues does not count as load.
    const USEFUL_ONLY: bool;

    /// Sets the frequency of each core from its load (0 to 1) over the last period. Returns the
    /// number of periods until the next decision.
    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64;
}

/// Applies a fixed operating point at the start and a rule once a period.
pub(super) struct Sampled<R> {
    start: Fixed,
    period: Span,
    seen: CpuLoad,
    load: Vec<f64>,
    rule: R,
}

impl<R: LoadRule> Sampled<R> {
    pub fn new(start: Fixed, period: Span, platform: &Platform, rule: R) -> Self {
        let seen = CpuLoad::new(platform);
        Self { start, period, seen, load: vec![0.0; platform.cores], rule }
    }

    /// Returns the rule, to change its parameters.
    pub fn rule_mut(&mut self) -> &mut R {
        &mut self.rule
    }
}

impl<R: LoadRule> Policy for Sampled<R> {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let platform = seen.platform;
        let periods = if seen.trigger == Trigger::Start {
            self.start.apply(platform, point);
            1
        } else {
            self.seen.since_last(now, seen.cores, R::USEFUL_ONLY, &mut self.load);
            over_domain(platform, &mut self.load);
            self.rule.decide(platform, &self.load, point)
        };
        AskAgain::at(now + self.period * periods)
    }
}
