//! Metronome: a core sleeps so that a queue is polled once per mean vacation time.

use super::fixed;
use super::polling::needs;
use wattline_policy::{BuildContext, Kind, Parameter, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::Span;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "metronome",
    summary: "Metronome with a core for each queue: it empties the queue and sleeps for the mean time between two polls",
    source: "Faltelli et al., Metronome, CoNEXT 2020 / ToN 2022: T = M V (1 - r) / (1 - r^M), which is V for M = 1 thread of a queue. More threads of one queue cannot be expressed: a queue belongs to one core",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "vacation",
            kind: Kind::Duration { min_micros: 1, max_micros: 1_000_000 },
            default: "10us",
            meaning: "mean time from an emptied queue to the next poll",
            source: "Metronome: 10 us, with which its server lost nothing",
        },
        Parameter {
            name: "threads",
            kind: Kind::Count { min: 1, max: 128 },
            default: "1",
            meaning: "threads that share a queue; more than 1 is refused",
            source: "the paper shares a queue among 3",
        },
    ],
    make,
};

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let threads = parameters.count("threads");
    if threads > 1 {
        return Err(format!(
            "threads = {threads}: a queue belongs to one core on every platform; allowed: 1"
        ));
    }
    let wait = Wait::Sleep(parameters.span("vacation").max(Span::from_micros(1)));
    needs(platform, &[wait])?;
    Ok(Box::new(fixed::Fixed {
        cores: fixed::core_count(parameters, platform)?,
        // Its cpufreq governor has to be `performance`.
        frequency: platform.fastest(),
        idle: platform.deepest(),
        wait,
        moderation: Span::ZERO,
    }))
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_policy::Wait;
    use wattline_units::{Span, Time};

    #[test]
    fn one_thread_sleeps_for_the_vacation_and_more_are_refused() {
        let mut bench = Bench::new();
        let ask = bench.play("metronome", None);
        assert!(
            bench.point.cores.iter().all(|core| core.wait == Wait::Sleep(Span::from_micros(10)))
        );
        assert_eq!((bench.rung(), ask.at), ((12, 13), Time::NEVER));
        let error = bench.refused("metronome:threads=3");
        assert!(error.contains("belongs to one core"), "{error}");
    }
}
