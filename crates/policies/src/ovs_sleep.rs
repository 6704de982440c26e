//! Open vSwitch: poll mode threads sleep longer the fewer packets arrive.

use super::fixed;
use super::polling::{PollRule, Polling};
use wattline_policy::{BuildContext, Kind, Parameter, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::{Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "ovs-sleep",
    summary: "Open vSwitch's poll threads: each poll that finds less than half a burst makes the sleep 1 us longer, half a burst ends it",
    source: "Open vSwitch, lib/dpif-netdev.c (pmd-sleep-max) and Documentation/topics/dpdk/pmd.rst; here a core sleeps when its queues are empty, not after every round",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "max",
            kind: Kind::Duration { min_micros: 1, max_micros: 10_000 },
            default: "50us",
            meaning: "longest sleep (pmd-sleep-max)",
            source: "Open vSwitch, the example of its documentation; its default is off",
        },
    ],
    make,
};

/// Packets of a batch (NETDEV_MAX_BURST), and of half a batch (PMD_SLEEP_THRESH).
const BURST: u32 = 32;
const ENOUGH: u32 = BURST / 2;
/// Growth of the sleep (PMD_SLEEP_INC_US).
const GROWS: Span = Span::from_micros(1);

struct OvsSleep {
    max: Span,
    /// Sleep by core.
    sleeps: Vec<Span>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let rule =
        OvsSleep { max: parameters.span("max"), sleeps: vec![Span::ZERO; context.platform.cores] };
    let waits = [Wait::Poll, Wait::Sleep(GROWS)];
    Ok(Box::new(Polling::new(parameters, context, BURST, &waits, rule)?))
}

impl OvsSleep {
    fn longer(&mut self, core: usize) -> Wait {
        let sleep = &mut self.sleeps[core];
        *sleep = (*sleep + GROWS).min(self.max);
        Wait::Sleep(*sleep)
    }
}

impl PollRule for OvsSleep {
    const EMPTY_POLLS: u32 = 1;

    fn packets(&mut self, _: Time, core: usize, taken: u32, _: u32) -> Wait {
        if taken >= ENOUGH {
            self.sleeps[core] = Span::ZERO;
            return Wait::Poll;
        }
        self.longer(core)
    }

    fn nothing(&mut self, _: Time, core: usize) -> Wait {
        self.longer(core)
    }
}

#[cfg(test)]
mod tests {
    use crate::polling::testing::step;
    use crate::testing::Bench;
    use wattline_policy::Wait;
    use wattline_units::Span;

    #[test]
    fn the_sleep_grows_by_a_microsecond_to_its_limit_and_half_a_burst_ends_it() {
        let mut bench = Bench::playing("ovs-sleep:max=3us");
        let sleep = |micros| Wait::Sleep(Span::from_micros(micros));
        let script = [
            (0, sleep(1)),
            (15, sleep(2)), // less than half a burst is little
            (0, sleep(3)),
            (0, sleep(3)), // the limit
            (16, Wait::Poll),
            (0, sleep(1)), // from the beginning
            (32, Wait::Poll),
        ];
        for (at, (found, wait)) in script.into_iter().enumerate() {
            assert_eq!(step(&mut bench, found), wait, "step {at}");
        }
        assert_eq!(bench.point.cores[1].wait, Wait::Poll, "each core for itself");
    }

    #[test]
    fn without_timed_sleep_it_is_refused() {
        let mut bench = Bench::new();
        bench.platform.can.waits.sleep = false;
        let error = bench.refused("ovs-sleep");
        assert!(error.contains("timed sleep"), "{error}");
    }
}
