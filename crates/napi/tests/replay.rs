//! The estimators of the workers and of the BPF program report the same streaks for the same polls.

use proptest::prelude::*;
use wattline_policy::{CoreSet, Level, QueueEstimator, StreakReset, StreakRule, Streaks};
use wattline_units::{Span, Time};
use wattline_xdp::polls::Rehearsal;

/// Number of instances, each with a port of the worker.
const PORTS: usize = 3;
/// Pause between two polls that is longer than most silences.
const LONG: u64 = 3_000_000;

/// A poll: CPU, instance, nanoseconds since the previous one, packets.
type Poll = (u32, usize, u64, u32);

fn level(most: u32) -> impl Strategy<Value = (u32, u32)> {
    (0..=most, prop_oneof![0..4_u32, 4..40_u32])
}

fn rules() -> impl Strategy<Value = Streaks> {
    let spans = || prop_oneof![Just(0_u64), 1..200_000_u64, Just(1_000_000)];
    let asked = (any::<bool>(), any::<bool>(), any::<bool>());
    (level(63), level(64), spans(), spans(), asked).prop_map(
        |(above, below, look, silence, (own, at_above, at_below))| {
            let level = |(packets, samples)| Level { packets, samples };
            let rule = StreakRule {
                above: level(above),
                below: level(below),
                look: Span::from_nanos(look),
                silence: Span::from_nanos(silence),
                reset: if own { StreakReset::Own } else { StreakReset::All },
                ..StreakRule::NEVER
            };
            Streaks { cores: CoreSet::first(2), rule, at_above, at_below, at_silence: false }
        },
    )
}

/// Generates mostly runs of the same fill level, so that streaks end.
fn polls(cpus: u32) -> impl Strategy<Value = Vec<Poll>> {
    let gap = prop_oneof![9 => 0..20_000_u64, 1 => Just(LONG)];
    let work = prop_oneof![4 => Just(64_u32), 4 => 1..5_u32, 1 => 0..=64_u32];
    let run = (0..cpus, 0..PORTS, gap, work, 1..30_usize);
    proptest::collection::vec(run, 1..40).prop_map(|runs| {
        let repeated = |(cpu, port, gap, work, count)| vec![(cpu, port, gap, work); count];
        runs.into_iter().flat_map(repeated).collect()
    })
}

/// Returns the instance of a port.
fn napi(port: usize) -> u32 {
    100 + port as u32
}

fn at(nanos: u64) -> Time {
    Time::ZERO + Span::from_nanos(nanos)
}

#[test]
fn bpf_program_and_workers_report_the_same_streaks() {
    let cpus = std::thread::available_parallelism().map_or(1, |it| it.get().min(2) as u32);
    let first = wattline_napi::poll_rule(1, &Streaks::NEVER, &[], [].into_iter()).unwrap();
    let mut rehearsal = match Rehearsal::new(&first) {
        Ok(rehearsal) => rehearsal,
        Err(error) => return wattline_needs::rights(error),
    };
    let mut ends = 0_u64;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    // Time continues from case to case, as on a machine whose policy changes its rule.
    let mut now = 1_000_000_000_u64;
    let shared = std::cell::RefCell::new((&mut rehearsal, &mut now, &mut ends));
    let result = runner.run(&(rules(), polls(cpus)), |(streaks, polls)| {
        let (rehearsal, now, ends) = &mut *shared.borrow_mut();
        let napis = (0..PORTS).map(napi);
        rehearsal
            .set_rule(&wattline_napi::poll_rule(**now, &streaks, &[0, 1], napis).unwrap())
            .unwrap();
        let mut workers: Vec<_> = (0..cpus).map(|_| QueueEstimator::new(PORTS)).collect();
        workers.iter_mut().for_each(|worker| worker.start(at(**now), streaks.rule));
        for (cpu, port, gap, work) in polls {
            **now += gap;
            let end = rehearsal.poll(cpu, **now, napi(port), work).unwrap();
            // An instance that does not count has no streak and affects no other.
            prop_assert_eq!(rehearsal.poll(cpu, **now, 7, 64).unwrap(), None);
            // A worker has no batch without packets.
            let event = (work > 0)
                .then(|| workers[cpu as usize].batch(at(**now), port, work, work))
                .flatten();
            let expected = event.filter(|above| streaks.asks(*above));
            prop_assert_eq!(end.map(|end| end.above), expected);
            if let Some(end) = end {
                prop_assert_eq!((end.id.napi, end.cpu), (napi(port), cpu));
                **ends += 1;
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    println!("{ends} ends of streaks");
    assert!(ends > 500, "{ends}");
}
