//! Linux's `schedutil` governor.

use super::fixed::Fixed;
use super::sampled::{LoadRule, Sampled};
use wattline_policy::{
    BuildContext, Kind, OperatingPoint, Parameter, Parameters, Platform, Policy, PolicyInfo,
};
use wattline_units::{Hertz, Span};

const KERNEL: &str = "Linux, kernel/sched/cpufreq_schedutil.c";

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "schedutil",
    summary: "Linux's governor that follows the scheduler's smoothed utilisation with a margin of a quarter",
    source: "Linux, Documentation/scheduler/schedutil.rst and kernel/sched/cpufreq_schedutil.c",
    parameters: &[
        Parameter {
            name: "rate_limit",
            kind: Kind::Duration { min_micros: 100, max_micros: 10_000_000 },
            default: "2ms",
            meaning: "time between two decisions; the kernel decides whenever utilisation changes",
            source: "Linux, CPUFREQ_DBS_MIN_SAMPLING_INTERVAL (2 ms) bounds it; drivers differ",
        },
        Parameter {
            name: "half_life",
            kind: Kind::Duration { min_micros: 1_000, max_micros: 10_000_000 },
            default: "32ms",
            meaning: "time in which the weight of past utilisation halves",
            source: "Linux, kernel/sched/pelt.c (y^32 = 0.5, in periods of 1024 us)",
        },
        Parameter {
            name: "margin",
            kind: Kind::Number { min: 1.0, max: 4.0 },
            default: "1.25",
            meaning: "factor on the frequency that the utilisation needs",
            source: KERNEL,
        },
    ],
    make,
};

struct Schedutil {
    margin: f64,
    /// Weight of the old utilisation after a period.
    keeps: f64,
    /// Utilisation by core, relative to the capacity at the fastest frequency.
    utilisation: Vec<f64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let period = parameters.span("rate_limit");
    let half_life: Span = parameters.span("half_life");
    let rule = Schedutil {
        margin: parameters.number("margin"),
        keeps: 0.5f64.powf(period.as_seconds() / half_life.as_seconds()),
        utilisation: vec![0.0; platform.cores],
    };
    let linux = Fixed::linux(platform.fastest(), platform);
    Ok(Box::new(Sampled::new(linux, period, platform, rule)))
}

impl LoadRule for Schedutil {
    const USEFUL_ONLY: bool = false;

    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64 {
        let fastest = platform.frequencies[platform.fastest()].0;
        for (core, &load) in load.iter().enumerate() {
            let Some(setting) = point.cores.get_mut(core) else { continue };
            let now = platform.frequencies.get(setting.frequency).map_or(fastest, |f| f.0);
            // Utilisation counts work, not time: half the time at half the frequency is a quarter.
            let utilisation = &mut self.utilisation[core];
            *utilisation = *utilisation * self.keeps + load * now / fastest * (1.0 - self.keeps);
            // next_freq = 1.25 * max_freq * util / max, CPUFREQ_RELATION_L.
            let wanted = platform.at_least(Hertz(self.margin * fastest * *utilisation));
            // A core that never idled may need more than it could show, so it is not lowered.
            setting.frequency = if load >= 1.0 { wanted.max(setting.frequency) } else { wanted };
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_policy::FrequencyDomain;
    use wattline_units::Span;

    #[test]
    fn a_steady_load_settles_a_quarter_above_its_need() {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        bench.play("schedutil", None);
        // Work of 1.6 GHz on the first core: the time it takes shrinks with the frequency.
        let mut frequency = 3.333;
        for _ in 0..200 {
            let busy = (1.6f64 / frequency).min(1.0);
            bench.pass(Span::from_millis(2), &[busy, 0.0], 0);
            frequency = bench.platform.frequencies[bench.point.cores[0].frequency].gigahertz();
        }
        // 1.25 x 1.6 = 2.0 GHz is a P-state; the smoothed value stays slightly below it.
        assert!((frequency - 2.0).abs() < 0.01, "{frequency}");
        assert_eq!(bench.point.cores[1].frequency, 0);
    }

    #[test]
    fn utilisation_rises_by_half_lives_and_never_falls_without_idling() {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        bench.play("schedutil", None);
        for _ in 0..100 {
            bench.pass(Span::from_millis(2), &[0.0], 0);
        }
        assert_eq!(bench.point.cores[0].frequency, 0);
        let mut steps = 0;
        while bench.point.cores[0].frequency < 13 && steps < 100 {
            let before = bench.point.cores[0].frequency;
            bench.pass(Span::from_millis(2), &[1.0], 0);
            assert!(bench.point.cores[0].frequency >= before);
            steps += 1;
        }
        // 1.6 of 3.333 GHz show half the capacity: not before 1.25 x u passes the next state.
        assert!((10..100).contains(&steps), "{steps}");
    }
}
