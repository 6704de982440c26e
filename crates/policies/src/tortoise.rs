//! The tortoise: the slowest frequency that keeps up, which leaves no time to sleep.

use super::fixed::{self, Fixed};
use super::sampled::{LoadRule, Sampled};
use wattline_policy::{
    BuildContext, Kind, OperatingPoint, Parameter, Parameters, Platform, Policy, PolicyInfo, Wait,
};
use wattline_units::{Hertz, Span};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "tortoise",
    summary: "Runs a given number of cores at the slowest frequency that keeps up with the packets",
    source: "PowerSave, section 5.1, equation 2 (just in time); the feedback rule is ours",
    parameters: &[
        fixed::CORES,
        fixed::IDLE,
        Parameter {
            name: "period",
            kind: Kind::Duration { min_micros: 100, max_micros: 10_000_000 },
            default: "10ms",
            meaning: "time between two decisions",
            source: "ours, as ondemand",
        },
        Parameter {
            name: "target",
            kind: Kind::Number { min: 0.1, max: 1.0 },
            default: "0.9",
            meaning: "fraction of time that the busiest core should be useful",
            source: "ours: room for the variation of a Poisson stream",
        },
    ],
    make,
};

struct Tortoise {
    target: f64,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let start = Fixed {
        cores: fixed::core_count(parameters, platform)?,
        frequency: platform.fastest(),
        idle: fixed::idle_state(parameters, platform)?,
        wait: Wait::Interrupt,
        moderation: Span::ZERO,
    };
    let rule = Tortoise { target: parameters.number("target") };
    Ok(Box::new(Sampled::new(start, parameters.span("period"), platform, rule)))
}

impl LoadRule for Tortoise {
    const USEFUL_ONLY: bool = true;

    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64 {
        for (core, &load) in load.iter().enumerate() {
            let present = platform.frequencies[point.cores[core].frequency];
            point.cores[core].frequency = if load > 0.99 {
                // Saturated: the missing capacity cannot be observed.
                platform.fastest()
            } else {
                platform.at_least(Hertz(present.0 * load / self.target))
            };
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn finds_the_frequency_that_fits() {
        let mut bench = Bench::playing("tortoise:cores=2,target=1");
        bench.pass(Span::from_millis(10), &[0.6, 0.5], 0);
        // 3.333 * 0.6 = 2.0 GHz.
        assert_eq!(bench.rung(), (2, 3));
        bench.pass(Span::from_millis(10), &[1.0, 0.9], 0);
        assert_eq!(bench.rung(), (2, 13));
    }
}
