//! Linux's `conservative` governor.

use super::cpu_load::{CpuLoad, over_domain};
use super::fixed::Fixed;
use crate::{
    AskAgain, BuildContext, Kind, Observation, OperatingPoint, Parameter, Parameters, Policy,
    PolicyInfo, Trigger,
};
use wattline_units::{Hertz, Span, Time};

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
            meaning: "so many samples pass before the frequency may fall",
            source: KERNEL,
        },
    ],
    make,
};

struct Conservative {
    linux: Fixed,
    period: Span,
    up: f64,
    down: f64,
    step: f64,
    down_factor: u64,
    seen: CpuLoad,
    load: Vec<f64>,
    /// What was asked for, between the P-states: steps may be smaller than a P-state's.
    requested: Vec<f64>,
    samples: Vec<u64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let (up, down) = (parameters.number("up_threshold"), parameters.number("down_threshold"));
    if down >= up {
        return Err(format!("down_threshold = {down}: must be below up_threshold = {up}"));
    }
    Ok(Box::new(Conservative {
        linux: Fixed::linux(INFO.name, platform.fastest(), context),
        period: parameters.span("sampling_rate"),
        up: up / 100.0,
        down: down / 100.0,
        step: parameters.number("freq_step") / 100.0,
        down_factor: parameters.count("sampling_down_factor"),
        seen: CpuLoad::new(platform),
        load: vec![0.0; platform.cores],
        requested: vec![platform.frequencies[platform.fastest()].0; platform.cores],
        samples: vec![0; platform.cores],
    }))
}

impl Policy for Conservative {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        let platform = seen.platform;
        if seen.trigger == Trigger::Start {
            self.linux.apply(platform, point);
            return AskAgain::at(now + self.period);
        }
        self.seen.since_last(now, seen.cores, false, &mut self.load);
        over_domain(platform, &mut self.load);
        let slowest = platform.frequencies[0].0;
        let fastest = platform.frequencies[platform.fastest()].0;
        let step = self.step * fastest;
        for (core, &load) in self.load.iter().enumerate() {
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
        AskAgain::at(now + self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::testing::Bench;

    #[test]
    fn steps_are_five_per_cent_and_the_middle_is_left_alone() {
        let mut bench = Bench::new();
        let mut policy = bench.make("conservative", None).unwrap();
        bench.start(&mut *policy);
        let period = Span::from_millis(10);
        bench.pass(&mut *policy, period, &[0.5], 0);
        assert_eq!(bench.rung(), (12, 13));
        bench.pass(&mut *policy, period, &[0.1], 0);
        // 3.333 - 0.167 = 3.167 GHz, the slowest at or above is 3.2.
        assert_eq!(bench.rung(), (12, 12));
        for _ in 0..20 {
            bench.pass(&mut *policy, period, &[0.1], 0);
        }
        assert_eq!(bench.rung(), (12, 0));
        bench.pass(&mut *policy, period, &[0.9], 0);
        // 1.6 + 0.167 = 1.767 GHz, the fastest at or below is 1.733.
        assert_eq!(bench.rung(), (12, 1));
    }

    #[test]
    fn crossed_thresholds_are_refused() {
        let text = "conservative:up_threshold=30,down_threshold=40";
        let error = Bench::new().make(text, None).err();
        assert!(error.unwrap().to_string().contains("must be below up_threshold"));
    }
}
