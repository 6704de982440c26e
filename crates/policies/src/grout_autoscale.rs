//! grout's proposed autoscaling, which adds and removes cores in the indirection table.

use super::fixed;
use super::polling::needs;
use std::num::NonZeroU32;
use wattline_policy::{
    AskAgain, BuildContext, Looks, Observation, OperatingPoint, Parameters, Policy, PolicyInfo,
    Trigger, Wait,
};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "grout-autoscale",
    summary: "grout's proposed autoscaling: a core with four full bursts in a row asks for one more, one with a thousand empty polls gives one back; the others are parked",
    source: "grout, pull request 624 of 2026-05, not merged; that any idle core may give one back, and that counts restart after a change, is our reading",
    parameters: &[fixed::IDLE],
    make,
};

/// Most packets of a burst.
const BURST: u32 = 64;
/// Full bursts in a row that mark a core as saturated.
const FULL: u32 = 4;
/// Empty polls in a row that mark a core as idle.
const EMPTY: u32 = 1_000;

struct GroutAutoscale {
    idle: usize,
    /// Full bursts in a row, by core.
    full: Vec<u32>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    needs(platform, &[Wait::Poll])?;
    if !platform.can.set_cores {
        return Err("the platform takes no core out of the indirection table".into());
    }
    let idle = fixed::idle_state(parameters, platform)?;
    Ok(Box::new(GroutAutoscale { idle, full: vec![0; platform.cores] }))
}

impl Policy for GroutAutoscale {
    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let platform = seen.platform;
        let active = point.active.len();
        let wanted = match seen.trigger {
            Trigger::Start => {
                point.set_frequency(platform.fastest());
                point.set_wait(Wait::Poll);
                point.batch = BURST;
                1
            }
            Trigger::Batch { queue, taken, .. } => {
                let core = platform.queues.get(queue).map_or(0, |queue| queue.core);
                let full = &mut self.full[core];
                *full = if taken >= BURST { *full + 1 } else { 0 };
                active + usize::from(*full >= FULL)
            }
            Trigger::EmptyPolls { core } => {
                self.full[core] = 0;
                active - 1
            }
            Trigger::Timer
            | Trigger::Fill { .. }
            | Trigger::Streak { .. }
            | Trigger::Silence { .. } => active,
        };
        let wanted = wanted.clamp(1, platform.cores);
        if wanted != active || seen.trigger == Trigger::Start {
            point.set_active(wanted, self.idle, platform.deepest());
            self.full.fill(0);
        }
        let empty = NonZeroU32::new(EMPTY);
        AskAgain { after_empty_polls: empty, ..AskAgain::on_batch(point.active) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn four_full_bursts_add_a_core_and_empty_polls_take_one() {
        let mut bench = Bench::new();
        let ask = bench.play("grout-autoscale", None);
        assert_eq!((bench.rung(), ask.on_batch.len()), ((1, 13), 1));
        for (burst, cores) in
            [(64, 1), (64, 1), (64, 1), (63, 1), (64, 1), (64, 1), (64, 1), (64, 2), (64, 2)]
        {
            bench.burst(0, burst);
            assert_eq!(bench.rung().0, cores);
        }
        let ask = bench.empty_polls(1);
        assert_eq!((bench.rung().0, ask.on_batch.len()), (1, 1));
        bench.empty_polls(0);
        assert_eq!(bench.rung().0, 1, "the last core stays active");
    }
}
