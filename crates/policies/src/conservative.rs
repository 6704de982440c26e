//! Linux's `conservative` governor.

use super::fixed::Fixed;
use super::sampled::{LoadRule, Sampled};
use wattline_policy::{
    BuildContext, Kind, OperatingPoint, Parameter, Parameters, Platform, Policy, PolicyInfo,
};
use wattline_units::Hertz;

const KERNEL: &str = "Linux, drivers/cpufreq/cpufreq_conservative.c";

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "conservative",
    summary: "Linux's governor that raises and lowers the frequency in small steps between two load thresholds",
    source: "Linux, Documentation/admin-guide/pm/cpufreq.rst and drivers/cpufreq/cpufreq_conservative.c",
    parameters: &[
        Parameter {
            name: "sampling_rate",
            kind: Kind::Duration { min_micros: 100, max_micros: 10_000_000 },
            default: "10ms",
            meaning: "time between two decisions",
            source: "as for ondemand",
        },
        Parameter {
            name: "up_threshold",
            kind: Kind::Number { min: 2.0, max: 100.0 },
            default: "80",
            meaning: "load in per cent above which the frequency rises",
            source: KERNEL,
        },
        Parameter {
            name: "down_threshold",
            kind: Kind::Number { min: 1.0, max: 99.0 },
            default: "20",
            meaning: "load in per cent below which it falls; must be below up_threshold",
            source: KERNEL,
        },
        Parameter {
            name: "freq_step",
            kind: Kind::Number { min: 0.0, max: 100.0 },
            default: "5",
            meaning: "step in per cent of the fastest frequency; 0 holds the frequency",
            source: KERNEL,
        },
        Parameter {
            name: "sampling_down_factor",
            kind: Kind::Count { min: 1, max: 10 },
            default: "1",
            meaning: "samples that pass before the frequency may fall",
            source: KERNEL,
        },
    ],
    make,
};

struct Conservative {
    up: f64,
    down: f64,
    step: f64,
    down_factor: u64,
    /// Requested frequencies; they may lie between P-states, since steps may be smaller than a
    /// P-state's.
    requested: Vec<f64>,
    samples: Vec<u64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let (up, down) = (parameters.number("up_threshold"), parameters.number("down_threshold"));
    if down >= up {
        return Err(format!("down_threshold = {down}: must be below up_threshold = {up}"));
    }
    let rule = Conservative {
        up: up / 100.0,
        down: down / 100.0,
        step: parameters.number("freq_step") / 100.0,
        down_factor: parameters.count("sampling_down_factor"),
        requested: vec![platform.frequencies[platform.fastest()].0; platform.cores],
        samples: vec![0; platform.cores],
    };
    let linux = Fixed::linux(platform.fastest(), platform);
    Ok(Box::new(Sampled::new(linux, parameters.span("sampling_rate"), platform, rule)))
}

impl LoadRule for Conservative {
    const USEFUL_ONLY: bool = false;

    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64 {
        let slowest = platform.frequencies[0].0;
        let fastest = platform.frequencies[platform.fastest()].0;
        let step = self.step * fastest;
        for (core, &load) in load.iter().enumerate() {
            let requested = &mut self.requested[core];
            if load > self.up {
                self.samples[core] = 0;
                *requested = (*requested + step).min(fastest);
                // CPUFREQ_RELATION_H: the fastest at or below.
                point.cores[core].frequency = platform.at_most(Hertz(*requested));
                continue;
            }
            self.samples[core] += 1;
            if self.samples[core] < self.down_factor {
                continue;
            }
            self.samples[core] = 0;
            if load < self.down {
                *requested = (*requested - step).max(slowest);
                // CPUFREQ_RELATION_L: the slowest at or above.
                point.cores[core].frequency = platform.at_least(Hertz(*requested));
            }
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_units::Span;

    #[test]
    fn steps_are_five_per_cent_outside_the_middle_range() {
        let mut bench = Bench::playing("conservative");
        let period = Span::from_millis(10);
        bench.pass(period, &[0.5], 0);
        assert_eq!(bench.rung(), (12, 13));
        bench.pass(period, &[0.1], 0);
        // 3.333 - 0.167 = 3.167 GHz, the slowest at or above is 3.2.
        assert_eq!(bench.rung(), (12, 12));
        for _ in 0..20 {
            bench.pass(period, &[0.1], 0);
        }
        assert_eq!(bench.rung(), (12, 0));
        bench.pass(period, &[0.9], 0);
        // 1.6 + 0.167 = 1.767 GHz, the fastest at or below is 1.733.
        assert_eq!(bench.rung(), (12, 1));
    }

    #[test]
    fn crossed_thresholds_are_refused() {
        let text = "conservative:up_threshold=30,down_threshold=40";
        let error = Bench::new().refused(text);
        assert!(error.contains("must be below up_threshold"));
    }
}
