//! DPDK's power management of poll mode drivers: reactions of a core to many empty polls.

use super::fixed;
use super::polling::needs;
use std::num::NonZeroU32;
use wattline_policy::{
    AskAgain, BuildContext, CoreSet, Kind, Looks, Observation, OperatingPoint, Parameter,
    Parameters, Policy, PolicyInfo, Trigger, Wait,
};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "dpdk-power",
    summary: "DPDK's power management of polling cores: after many empty polls a core pauses between polls, or runs at the slowest frequency until a packet comes",
    source: "DPDK, lib/power/rte_power_pmd_mgmt.c; mode `monitor` is refused, since no platform has UMWAIT",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "mode",
            kind: Kind::Word,
            default: "scale",
            meaning: "`scale` (the slowest frequency) or `pause` (a processor's pause, where the platform has it)",
            source: "DPDK, enum rte_power_pmd_mgmt_type",
        },
        Parameter {
            name: "empty_polls",
            kind: Kind::Count { min: 1, max: 1_000_000_000 },
            default: "512",
            meaning: "empty polls in a row after which a core counts as idle",
            source: "DPDK, emptypoll_max",
        },
    ],
    make,
};

/// Packets of a burst (MAX_PKT_BURST).
const BURST: u32 = 32;

struct DpdkPower {
    cores: usize,
    scales: bool,
    empty_polls: Option<NonZeroU32>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let scales = match parameters.word("mode") {
        "scale" if platform.can.set_frequency => true,
        "scale" => return Err("mode = \"scale\": the platform sets no frequency".into()),
        "pause" => false,
        "monitor" => {
            return Err("mode = \"monitor\": no platform lets a core wait for a write to memory (UMWAIT); allowed: scale, pause".into());
        }
        other => return Err(format!("mode = \"{other}\": must be scale or pause")),
    };
    let waits: &[Wait] = if scales { &[Wait::Poll] } else { &[Wait::Poll, Wait::Pause] };
    needs(platform, waits)
        .map_err(|lacks| format!("mode = \"{}\": {lacks}", parameters.word("mode")))?;
    Ok(Box::new(DpdkPower {
        cores: fixed::core_count(parameters, platform)?,
        scales,
        empty_polls: NonZeroU32::new(parameters.count("empty_polls") as u32),
    }))
}

impl DpdkPower {
    fn set(&self, idle: bool, core: usize, fastest: usize, point: &mut OperatingPoint) {
        let setting = &mut point.cores[core];
        if self.scales {
            setting.frequency = if idle { 0 } else { fastest };
        } else {
            setting.wait = if idle { Wait::Pause } else { Wait::Poll };
        }
    }
}

impl Policy for DpdkPower {
    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let platform = seen.platform;
        let fastest = platform.fastest();
        match seen.trigger {
            Trigger::Start => {
                point.set_active(self.cores, platform.deepest(), platform.deepest());
                point.set_frequency(fastest);
                point.set_wait(Wait::Poll);
                point.batch = BURST;
            }
            Trigger::Batch { queue, .. } => {
                if let Some(queue) = platform.queues.get(queue) {
                    self.set(false, queue.core, fastest, point);
                }
            }
            Trigger::EmptyPolls { core } => self.set(true, core, fastest, point),
            Trigger::Timer
            | Trigger::Fill { .. }
            | Trigger::Streak { .. }
            | Trigger::Silence { .. } => {}
        }
        let all = CoreSet::first(self.cores);
        AskAgain { after_empty_polls: self.empty_polls, ..AskAgain::on_batch(all) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_policy::{FrequencyDomain, Wait};

    #[test]
    fn an_idle_core_scales_down_and_its_first_packet_scales_it_up() {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        let ask = bench.play("dpdk-power", None);
        assert_eq!(ask.after_empty_polls.map(|polls| polls.get()), Some(512));
        bench.empty_polls(3);
        assert_eq!((bench.point.cores[3].frequency, bench.point.cores[2].frequency), (0, 13));
        bench.batch(3, 1);
        assert_eq!(bench.point.cores[3].frequency, 13, "no step between");
        assert!(bench.point.cores.iter().all(|core| core.wait == Wait::Poll));
    }

    #[test]
    fn an_idle_core_pauses_between_polls() {
        let mut bench = Bench::playing("dpdk-power:mode=pause");
        bench.empty_polls(0);
        assert_eq!(bench.point.cores[0].wait, Wait::Pause);
        bench.batch(0, 1);
        assert_eq!((bench.point.cores[0].wait, bench.point.cores[0].frequency), (Wait::Poll, 13));
    }

    #[test]
    fn unsupported_mode_is_rejected_by_name() {
        let mut bench = Bench::new();
        let error = |bench: &Bench, text: &str| bench.refused(text);
        assert!(error(&bench, "dpdk-power:mode=monitor").contains("UMWAIT"));
        assert!(error(&bench, "dpdk-power:mode=sleep").contains("scale or pause"));
        bench.platform.can.waits.pause = false;
        assert!(error(&bench, "dpdk-power:mode=pause").contains("pause"));
        bench.platform.can.set_frequency = false;
        assert!(error(&bench, "dpdk-power").contains("frequency"));
    }
}
