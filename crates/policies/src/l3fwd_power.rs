//! DPDK's example l3fwd-power in its first mode: interrupts when idle, frequency by queue fill.

use super::fixed;
use super::polling::needs;
use std::num::NonZeroU32;
use wattline_policy::{
    AskAgain, BuildContext, CoreSet, Kind, Looks, Observation, OperatingPoint, Parameter,
    Parameters, Policy, PolicyInfo, Trigger, Wait,
};
use wattline_units::{Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "l3fwd-power",
    summary: "DPDK's l3fwd-power: a core waits for interrupts after 300 empty polls, goes faster by the packets in its queue, and one step slower every 100 ms in which it slept or took little",
    source: "DPDK, examples/l3fwd-power/main.c (legacy mode). Modes `telemetry`, which sets nothing, and `pmd-mgmt`, which is `dpdk-power`, are refused. The delay of 1 us between empty polls is polling here; time asleep is measured, not counted in hints",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "mode",
            kind: Kind::Word,
            default: "legacy",
            meaning: "`legacy`, or `interrupt` for interrupts without changes of frequency",
            source: "DPDK, l3fwd-power's --legacy and --interrupt-only",
        },
        Parameter {
            name: "suspend",
            kind: Kind::Count { min: 1, max: 1_000_000 },
            default: "310",
            meaning: "empty polls in a row after which a core waits for an interrupt",
            source: "DPDK, MIN_ZERO_POLL_COUNT 10 and SUSPEND_THRESHOLD 300",
        },
    ],
    make,
};

/// MAX_PKT_BURST.
const BURST: u32 = 32;
/// FREQ_GEAR1, 2 and 3_RX_PACKET_THRESHOLD.
const GEARS: [u32; 3] = [BURST, 2 * BURST, 3 * BURST];
/// FREQ_UP_TREND1_ACC, FREQ_UP_TREND2_ACC and FREQ_UP_THRESHOLD.
const TRENDS: (u32, u32) = (1, 100);
const TREND_UP: u32 = 10_000;
/// TIMER_NUMBER_PER_SECOND is 10.
const PERIOD: Span = Span::from_millis(100);
/// SCALING_DOWN_TIME_RATIO_THRESHOLD.
const ASLEEP: f64 = 0.25;

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    trend: u32,
    packets: u64,
    polls: u64,
    /// Start of the present wait for an interrupt, and time asleep in this period.
    waits: Option<Time>,
    asleep: Span,
}

struct L3fwdPower {
    scales: bool,
    suspend: u32,
    cores: Vec<Core>,
    period: Time,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let scales = match parameters.word("mode") {
        "legacy" if platform.can.set_frequency => true,
        "legacy" => {
            return Err(
                "mode = \"legacy\": the platform sets no frequency; allowed: interrupt".into()
            );
        }
        "interrupt" => false,
        "telemetry" => {
            return Err(
                "mode = \"telemetry\": it sets nothing, as `poll`; allowed: legacy, interrupt"
                    .into(),
            );
        }
        "pmd-mgmt" => {
            return Err(
                "mode = \"pmd-mgmt\": that is the policy dpdk-power; allowed: legacy, interrupt"
                    .into(),
            );
        }
        other => return Err(format!("mode = \"{other}\": must be legacy or interrupt")),
    };
    needs(platform, &[Wait::Poll, Wait::Interrupt])?;
    Ok(Box::new(L3fwdPower {
        scales,
        suspend: parameters.count("suspend") as u32,
        cores: vec![Core::default(); fixed::core_count(parameters, platform)?],
        period: Time::ZERO,
    }))
}

impl L3fwdPower {
    /// Returns the frequency after a poll of a queue that held `fill`
    /// (power_freq_scaleup_heuristic).
    fn up(core: &mut Core, fill: u32, frequency: usize, fastest: usize) -> usize {
        if fill > GEARS[2] {
            core.trend = 0;
            return fastest;
        }
        core.trend += match fill {
            fill if fill > GEARS[1] => TRENDS.1,
            fill if fill > GEARS[0] => TRENDS.0,
            _ => 0,
        };
        if core.trend > TREND_UP {
            core.trend = 0;
            return (frequency + 1).min(fastest);
        }
        frequency
    }

    /// Returns true if a period makes a core slower (power_timer_cb).
    fn slower(core: &mut Core, now: Time) -> bool {
        let since = core.waits.map_or(Span::ZERO, |since| now.since(since));
        core.waits = core.waits.map(|_| now);
        let asleep = (core.asleep + since).as_seconds() / PERIOD.as_seconds();
        let little = core.packets < core.polls * u64::from(BURST);
        (core.asleep, core.packets, core.polls) = (Span::ZERO, 0, 0);
        asleep >= ASLEEP || little
    }
}

impl Policy for L3fwdPower {
    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let platform = seen.platform;
        match seen.trigger {
            Trigger::Start => {
                point.set_active(self.cores.len(), platform.deepest(), platform.deepest());
                point.set_frequency(platform.fastest());
                point.set_wait(Wait::Poll);
                point.batch = BURST;
                self.period = now + PERIOD;
            }
            Trigger::Batch { queue, taken, .. } => {
                let fill = seen.queues.get(queue).map_or(0, |view| view.fill);
                let number = platform.queues.get(queue).map_or(usize::MAX, |queue| queue.core);
                if let Some(core) = self.cores.get_mut(number) {
                    (core.packets, core.polls) = (core.packets + u64::from(taken), core.polls + 1);
                    if let Some(since) = core.waits.take() {
                        core.asleep += now.since(since);
                    }
                    let setting = &mut point.cores[number];
                    setting.wait = Wait::Poll;
                    if self.scales {
                        setting.frequency =
                            Self::up(core, fill, setting.frequency, platform.fastest());
                    }
                }
            }
            Trigger::EmptyPolls { core: number } => {
                if let Some(core) = self.cores.get_mut(number) {
                    core.polls += u64::from(self.suspend);
                    core.waits = core.waits.or(Some(now));
                    point.cores[number].wait = Wait::Interrupt;
                }
            }
            Trigger::Timer
            | Trigger::Fill { .. }
            | Trigger::Streak { .. }
            | Trigger::Silence { .. } => {}
        }
        if now >= self.period {
            self.period = now + PERIOD;
            for (core, setting) in self.cores.iter_mut().zip(&mut point.cores) {
                if Self::slower(core, now) && self.scales {
                    setting.frequency = setting.frequency.saturating_sub(1);
                }
            }
        }
        AskAgain {
            at: self.period,
            after_empty_polls: NonZeroU32::new(self.suspend),
            ..AskAgain::on_batch(CoreSet::first(self.cores.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_policy::{FrequencyDomain, Wait};
    use wattline_units::Span;

    #[test]
    fn queues_raise_the_frequency_at_once_or_by_their_trend() {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        bench.play("l3fwd-power", None);
        bench.point.cores[0].frequency = 3;
        // 65 to 96 packets count a hundred each, 33 to 64 one: more than 10,000 are a step.
        for _ in 0..100 {
            bench.batch(0, 96);
        }
        assert_eq!(bench.point.cores[0].frequency, 3);
        bench.batch(0, 32);
        assert_eq!(bench.point.cores[0].frequency, 3, "32 count nothing");
        bench.batch(0, 33);
        assert_eq!(bench.point.cores[0].frequency, 4);
        bench.batch(0, 97);
        assert_eq!(bench.point.cores[0].frequency, 13);
        assert_eq!(bench.point.cores[1].frequency, 13, "untouched");
    }

    #[test]
    fn periods_asleep_or_with_small_batches_lower_the_frequency() {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        bench.play("l3fwd-power:cores=3", None);
        for _ in 0..20 {
            bench.batch(0, 32);
            bench.batch(1, 31);
        }
        bench.empty_polls(2);
        assert_eq!(bench.point.cores[2].wait, Wait::Interrupt);
        bench.pass(Span::from_millis(100), &[], 0);
        let frequencies: Vec<usize> = bench.point.cores.iter().map(|core| core.frequency).collect();
        assert_eq!(frequencies[..4], [13, 12, 12, 13]);
        bench.batch(2, 1);
        assert_eq!(bench.point.cores[2].wait, Wait::Poll);
    }

    #[test]
    fn other_modes_are_refused_by_name() {
        let bench = Bench::new();
        for (mode, says) in
            [("telemetry", "sets nothing"), ("pmd-mgmt", "dpdk-power"), ("empty-poll", "must be")]
        {
            let text = format!("l3fwd-power:mode={mode}");
            let error = bench.refused(&text);
            assert!(error.contains(says), "{error}");
        }
    }
}
