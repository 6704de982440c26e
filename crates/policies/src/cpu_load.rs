//! The load of cores between two samples, computed as in Linux's governors.

use wattline_policy::{CoreView, FrequencyDomain, Platform};
use wattline_units::{Span, Time};

/// Values of the last sample.
#[derive(Debug, Clone)]
pub(super) struct CpuLoad {
    at: Time,
    asleep: Vec<Span>,
    useful: Vec<Span>,
}

impl CpuLoad {
    pub fn new(platform: &Platform) -> Self {
        let zero = vec![Span::ZERO; platform.cores];
        Self { at: Time::ZERO, asleep: zero.clone(), useful: zero }
    }

    /// Writes the fraction of time that each core was not idle since the last sample into `load`
    /// (Linux: polling empty queues is load), or only the useful part of it.
    pub fn since_last(
        &mut self,
        now: Time,
        cores: &[CoreView],
        useful_only: bool,
        load: &mut [f64],
    ) {
        let elapsed = now.since(self.at);
        self.at = now;
        for (core, view) in cores.iter().enumerate() {
            let asleep = view.asleep - self.asleep[core];
            let useful = view.useful - self.useful[core];
            (self.asleep[core], self.useful[core]) = (view.asleep, view.useful);
            let busy = if useful_only { useful } else { elapsed - asleep };
            load[core] = match elapsed {
                Span::ZERO => 0.0,
                elapsed => (busy.as_seconds() / elapsed.as_seconds()).clamp(0.0, 1.0),
            };
        }
    }
}

/// Gives all cores of a chip with one frequency the load of the busiest (Linux defines a governor's
/// load as the highest of the CPUs of a policy).
pub(super) fn over_domain(platform: &Platform, load: &mut [f64]) {
    if platform.domain == FrequencyDomain::Chip {
        let highest = load.iter().copied().fold(0.0, f64::max);
        load.fill(highest);
    }
}
