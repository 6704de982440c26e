//! The tortoise: the slowest frequency that keeps up, so that nothing is left to sleep for.

use super::cpu_load::{CpuLoad, over_domain};
use super::fixed::{self, Fixed};
use crate::{
    AskAgain, BuildContext, Kind, Observation, OperatingPoint, Parameter, Parameters, Policy,
    PolicyInfo, Trigger, Wait,
};
use wattline_units::{Hertz, Span, Time};

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
    start: Fixed,
    period: Span,
    target: f64,
    seen: CpuLoad,
    load: Vec<f64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    Ok(Box::new(Tortoise {
        start: Fixed {
            name: INFO.name,
            cores: fixed::core_count(parameters, platform)?,
            frequency: platform.fastest(),
            idle: fixed::idle_state(parameters, platform)?,
            wait: Wait::Interrupt,
            moderation: Span::ZERO,
        },
        period: parameters.span("period"),
        target: parameters.number("target"),
        seen: CpuLoad::new(platform),
        load: vec![0.0; platform.cores],
    }))
}

impl Policy for Tortoise {
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
            self.start.apply(platform, point);
            return AskAgain::at(now + self.period);
        }
        self.seen.since_last(now, seen.cores, true, &mut self.load);
        over_domain(platform, &mut self.load);
        for (core, &load) in self.load.iter().enumerate() {
            let present = platform.frequencies[point.cores[core].frequency];
            point.cores[core].frequency = if load > 0.99 {
                // Saturated: how much more is needed cannot be seen.
                platform.fastest()
            } else {
                platform.at_least(Hertz(present.0 * load / self.target))
            };
        }
        AskAgain::at(now + self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::testing::Bench;

    #[test]
    fn finds_the_frequency_that_fits() {
        let mut bench = Bench::new();
        let mut policy = bench.make("tortoise:cores=2,target=1", None).unwrap();
        bench.start(&mut *policy);
        bench.pass(&mut *policy, Span::from_millis(10), &[0.6, 0.5], 0);
        // 3.333 * 0.6 = 2.0 GHz.
        assert_eq!(bench.rung(), (2, 3));
        bench.pass(&mut *policy, Span::from_millis(10), &[1.0, 0.9], 0);
        assert_eq!(bench.rung(), (2, 13));
    }
}
