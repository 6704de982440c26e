//! Snabb: the engine's breath sleeps longer while it moves no packets, and half as long when it
//! does.

use super::fixed;
use super::polling::{PollRule, Polling};
use wattline_policy::{BuildContext, Kind, Parameter, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::{Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "snabb",
    summary: "Snabb's engine: a breath without a packet makes the sleep 1 us longer, one with packets halves it",
    source: "Snabb, src/core/app.lua (pace_breathing); its worker processes poll without sleeping unless told otherwise",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "max",
            kind: Kind::Duration { min_micros: 1, max_micros: 10_000 },
            default: "100us",
            meaning: "longest sleep (maxsleep)",
            source: "Snabb, src/core/app.lua",
        },
    ],
    make,
};

/// Packets of a breath.
const BREATH: u32 = 100;

struct Snabb {
    max: u64,
    /// Sleep in whole microseconds, by core.
    sleeps: Vec<u64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let max = (parameters.span("max").as_seconds() * 1e6).round() as u64;
    let rule = Snabb { max, sleeps: vec![0; context.platform.cores] };
    let waits = [Wait::Poll, Wait::Sleep(Span::from_micros(1))];
    Ok(Box::new(Polling::new(parameters, context, BREATH, &waits, rule)?))
}

fn wait(micros: u64) -> Wait {
    if micros == 0 { Wait::Poll } else { Wait::Sleep(Span::from_micros(micros)) }
}

impl PollRule for Snabb {
    const EMPTY_POLLS: u32 = 1;

    fn packets(&mut self, _: Time, core: usize, _: u32, _: u32) -> Wait {
        self.sleeps[core] /= 2;
        wait(self.sleeps[core])
    }

    fn nothing(&mut self, _: Time, core: usize) -> Wait {
        self.sleeps[core] = (self.sleeps[core] + 1).min(self.max);
        wait(self.sleeps[core])
    }
}

#[cfg(test)]
mod tests {
    use crate::polling::testing::step;
    use crate::testing::Bench;
    use wattline_policy::Wait;
    use wattline_units::Span;

    #[test]
    fn sleep_grows_by_one_without_packets_and_halves_with_them() {
        let mut bench = Bench::playing("snabb:max=4us");
        let sleep = |micros| Wait::Sleep(Span::from_micros(micros));
        let script = [
            (0, sleep(1)),
            (0, sleep(2)),
            (0, sleep(3)),
            (0, sleep(4)),
            (0, sleep(4)),
            (7, sleep(2)),
            (7, sleep(1)),
            (7, Wait::Poll),
            (0, sleep(1)),
        ];
        for (at, (found, wait)) in script.into_iter().enumerate() {
            assert_eq!(step(&mut bench, found), wait, "step {at}");
        }
    }
}
