//! RSS++: adds and removes cores by the sum of their unused load below the target.

use super::cpu_load::CpuLoad;
use super::fixed;
use wattline_policy::{
    AskAgain, BuildContext, Kind, Observation, OperatingPoint, Parameter, Parameters, Policy,
    PolicyInfo, Trigger, Wait,
};
use wattline_units::Span;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "rsspp",
    summary: "RSS++'s autoscaling: a core is removed when the others have room for it, and added when they are above their target load; cores poll",
    source: "Barbette et al., RSS++, CoNEXT 2019; FastClick, vendor/nicscheduler/methods/rsspp.cc. Its moves of single table entries cannot be expressed: shares of cores are levelled evenly. The period is fixed",
    parameters: &[
        Parameter {
            name: "period",
            kind: Kind::Duration { min_micros: 100, max_micros: 10_000_000 },
            default: "100ms",
            meaning: "time between two decisions",
            source: "FastClick, elements/userlevel/devicebalancer.cc",
        },
        Parameter {
            name: "target",
            kind: Kind::Number { min: 0.1, max: 1.0 },
            default: "0.8",
            meaning: "load of a core to aim at",
            source: "FastClick, TARGET_LOAD",
        },
        fixed::IDLE,
    ],
    make,
};

/// Spare capacity, beyond that of a core, that a removal has to leave, and the addition per core.
const ROOM: f64 = 0.2;
const ROOM_OF_A_CORE: f64 = 0.05;
/// A core is added once the sum is this far below zero.
const MISSING: f64 = 0.1;

struct RssPp {
    period: Span,
    target: f64,
    idle: usize,
    seen: CpuLoad,
    load: Vec<f64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    if !platform.can.set_cores {
        return Err("the platform takes no core out of the indirection table".into());
    }
    if !platform.can.waits.poll {
        return Err("the platform cannot wait by polling".into());
    }
    Ok(Box::new(RssPp {
        period: parameters.span("period"),
        target: parameters.number("target"),
        idle: fixed::idle_state(parameters, platform)?,
        seen: CpuLoad::new(platform),
        load: vec![0.0; platform.cores],
    }))
}

/// Returns the change in the number of cores (1, 0 or -1) for the loads of the active ones.
fn change(load: &[f64], target: f64) -> i32 {
    let room: f64 = load.iter().map(|load| target - load).sum();
    let most = load.iter().copied().fold(0.0, f64::max);
    let of_a_core = ROOM_OF_A_CORE.max(most - target);
    if room > 1.0 + ROOM + (load.len() + 1) as f64 * of_a_core {
        return -1;
    }
    i32::from(room < -MISSING)
}

impl Policy for RssPp {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let platform = seen.platform;
        if seen.trigger == Trigger::Start {
            point.set_active(platform.cores, self.idle, platform.deepest());
            point.set_frequency(platform.fastest());
            point.set_wait(Wait::Poll);
        } else {
            self.seen.since_last(now, seen.cores, true, &mut self.load);
            let active = point.active.len();
            match change(&self.load[..active], self.target) {
                -1 if active > 1 => point.set_active(active - 1, self.idle, platform.deepest()),
                1 if active < platform.cores => {
                    point.set_active(active + 1, self.idle, platform.deepest());
                }
                _ => {}
            }
        }
        AskAgain::at(now + self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::change;
    use crate::testing::Bench;
    use wattline_units::Span;

    #[test]
    fn the_sum_below_the_target_decides() {
        // Four cores have 4 x 0.8 - 4 x load: a removal needs more than 1 + 0.2 + 5 x 0.05.
        assert_eq!(change(&[0.43; 4], 0.8), -1);
        assert_eq!(change(&[0.44; 4], 0.8), 0);
        assert_eq!(change(&[0.82; 4], 0.8), 0);
        assert_eq!(change(&[0.83; 4], 0.8), 1);
        // A core far above the target requires more room: 1.2 + 5 x 0.2.
        assert_eq!(change(&[1.0, 0.15, 0.15, 0.15], 0.8), 0);
        assert_eq!(change(&[0.85, 0.15, 0.15, 0.15], 0.8), -1);
    }

    #[test]
    fn one_core_a_period() {
        let mut bench = Bench::playing("rsspp");
        let period = Span::from_millis(100);
        for cores in (8..12).rev() {
            bench.pass(period, &[0.2; 12], 0);
            assert_eq!(bench.rung(), (cores, 13));
        }
        bench.pass(period, &[0.9; 8], 0);
        assert_eq!(bench.rung(), (9, 13));
    }
}
