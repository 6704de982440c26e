//! Linux's `ondemand` governor.

use super::fixed::Fixed;
use super::sampled::{LoadRule, Sampled};
use wattline_policy::{
    BuildContext, Kind, OperatingPoint, Parameter, Parameters, Platform, Policy, PolicyInfo,
};
use wattline_units::Hertz;

const KERNEL: &str = "Linux, drivers/cpufreq/cpufreq_ondemand.c";

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "ondemand",
    summary: "Linux's governor that jumps to the fastest frequency above a load and else follows the load in proportion",
    source: "Linux, Documentation/admin-guide/pm/cpufreq.rst and drivers/cpufreq/cpufreq_ondemand.c",
    parameters: &[
        Parameter {
            name: "sampling_rate",
            kind: Kind::Duration { min_micros: 100, max_micros: 10_000_000 },
            default: "10ms",
            meaning: "time between two decisions",
            source: "Co-PI, section 5 (10 ms); Linux derives it from the transition latency",
        },
        Parameter {
            name: "up_threshold",
            kind: Kind::Number { min: 1.0, max: 100.0 },
            default: "95",
            meaning: "load in per cent above which the fastest frequency is chosen",
            source: "Linux, MICRO_FREQUENCY_UP_THRESHOLD (idle time is exact)",
        },
        Parameter {
            name: "sampling_down_factor",
            kind: Kind::Count { min: 1, max: 100_000 },
            default: "1",
            meaning: "multiplies the sampling time while at the fastest frequency",
            source: KERNEL,
        },
    ],
    make,
};

struct Ondemand {
    up_threshold: f64,
    down_factor: u64,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let rule = Ondemand {
        up_threshold: parameters.number("up_threshold") / 100.0,
        down_factor: parameters.count("sampling_down_factor"),
    };
    let linux = Fixed::linux(platform.fastest(), platform);
    Ok(Box::new(Sampled::new(linux, parameters.span("sampling_rate"), platform, rule)))
}

impl LoadRule for Ondemand {
    const USEFUL_ONLY: bool = false;

    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64 {
        let slowest = platform.frequencies[0].0;
        let fastest = platform.frequencies[platform.fastest()].0;
        let mut at_top = false;
        for (core, &load) in load.iter().enumerate() {
            point.cores[core].frequency = if load > self.up_threshold {
                at_top = true;
                platform.fastest()
            } else {
                // freq_next = min_f + load * (max_f - min_f) / 100, CPUFREQ_RELATION_C.
                platform.closest(Hertz(slowest + load * (fastest - slowest)))
            };
        }
        if at_top { self.down_factor } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_policy::FrequencyDomain;
    use wattline_units::{Span, Time};

    #[test]
    fn a_step_up_takes_one_period_and_a_chip_follows_its_busiest_core() {
        let mut bench = Bench::new();
        assert_eq!(bench.play("ondemand", None).at, Time::ZERO + Span::from_millis(10));
        let period = Span::from_millis(10);
        bench.pass(period, &[0.0], 0);
        assert_eq!(bench.rung(), (12, 0));
        bench.pass(period, &[0.1, 0.4], 0);
        // 1.6 + 0.4 * 1.733 = 2.293 GHz: 2.267 is nearer than 2.4.
        assert_eq!(bench.rung(), (12, 5));
        bench.pass(period, &[0.1, 0.96], 0);
        assert_eq!(bench.rung(), (12, 13));
    }

    #[test]
    fn cores_with_their_own_domain_scale_separately() {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        bench.play("ondemand:sampling_down_factor=5", None);
        let next = bench.pass(Span::from_millis(10), &[1.0, 0.0], 0);
        assert_eq!((bench.point.cores[0].frequency, bench.point.cores[1].frequency), (13, 0));
        assert_eq!(next.at, Time::ZERO + Span::from_millis(60));
    }
}
