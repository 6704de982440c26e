//! CNDP: a thread polls, and blocks after its queues were idle for a while.

use super::fixed;
use super::polling::{PollRule, Polling};
use wattline_policy::{BuildContext, Kind, Parameter, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::{Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "cndp-idle",
    summary: "CNDP's idle manager: a core polls, blocks after a time without packets, and polls again from the first packet on",
    source: "Cloud Native Data Plane, lib/core/idlemgr; its time-out of 2 s while blocked changes nothing here: a core that finds nothing blocks again",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "idle_timeout",
            kind: Kind::Duration { min_micros: 1, max_micros: 10_000_000 },
            default: "10ms",
            meaning: "time without a packet after which a core blocks",
            source: "CNDP, the example configurations",
        },
    ],
    make,
};

const BURST: u32 = 64;

struct CndpIdle {
    timeout: Span,
    /// Time of each core's last packets.
    last: Vec<Time>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let rule = CndpIdle {
        timeout: parameters.span("idle_timeout"),
        last: vec![Time::ZERO; context.platform.cores],
    };
    let waits = [Wait::Poll, Wait::Interrupt];
    Ok(Box::new(Polling::new(parameters, context, BURST, &waits, rule)?))
}

impl PollRule for CndpIdle {
    // Often enough to notice the time-out: a thousand polls take some ten microseconds.
    const EMPTY_POLLS: u32 = 1_000;

    fn packets(&mut self, now: Time, core: usize, _: u32, _: u32) -> Wait {
        self.last[core] = now;
        Wait::Poll
    }

    fn nothing(&mut self, now: Time, core: usize) -> Wait {
        let idle = now.since(self.last[core]) >= self.timeout;
        if idle { Wait::Interrupt } else { Wait::Poll }
    }
}

#[cfg(test)]
mod tests {
    use crate::polling::testing::step;
    use crate::testing::Bench;
    use wattline_policy::Wait;
    use wattline_units::Span;

    #[test]
    fn core_blocks_after_the_timeout_and_polls_at_the_first_packet() {
        let mut bench = Bench::playing("cndp-idle:idle_timeout=1ms");
        assert_eq!(step(&mut bench, 5), Wait::Poll);
        bench.now += Span::from_micros(900);
        assert_eq!(step(&mut bench, 0), Wait::Poll);
        bench.now += Span::from_micros(200);
        assert_eq!(step(&mut bench, 0), Wait::Interrupt);
        assert_eq!(step(&mut bench, 1), Wait::Poll);
    }
}
