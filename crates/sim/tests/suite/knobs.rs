//! Knobs that are slow, fail, refuse or round: the simulator behaves like a real machine.

use crate::common::{assert_conserved, poisson, server, setting, simulate, timeless};
use wattline_governor::ledger::Knob;
use wattline_policy::testing::policy;
use wattline_policy::{AskAgain, Looks, OperatingPoint, Policy, Trigger};
use wattline_server::ServerModel;
use wattline_sim::{KnobBehaviour, Report, Setting, run_with};
use wattline_units::{Span, Time};

/// Requests one point from the start and another one from a given time on; decides every period.
fn twice(
    before: fn(&mut OperatingPoint),
    after: fn(&mut OperatingPoint),
    at: Time,
    period: Span,
) -> Box<dyn Policy> {
    policy(Looks::WHOLE, move |seen, point| {
        if seen.trigger == Trigger::Start {
            before(point);
        }
        if seen.now >= at {
            after(point);
        }
        AskAgain::at(seen.now + period)
    })
}

fn short<'a>(server: &'a ServerModel, policy: &str, knobs: &str) -> Setting<'a> {
    Setting {
        warmup: Span::ZERO,
        duration: Span::from_millis(20),
        interval: Some(Span::from_millis(1)),
        knobs: KnobBehaviour::parse(knobs).unwrap(),
        ..setting(server, policy)
    }
}

/// Runs four slow cores, then twelve fast ones from 5 ms on, on a server with these knobs.
fn climb(server: &ServerModel, knobs: &str) -> Report {
    let slow = |point: &mut OperatingPoint| {
        point.set_active(4, 0, 2);
        point.set_frequency(0);
    };
    let fast = |point: &mut OperatingPoint| {
        point.set_active(12, 0, 2);
        point.set_frequency(13);
    };
    let at = Time::ZERO + Span::from_millis(5);
    run_twice(server, knobs, twice(slow, fast, at, Span::from_micros(100)))
}

fn run_twice(server: &ServerModel, knobs: &str, policy: Box<dyn Policy>) -> Report {
    let setting = short(server, "poll", knobs);
    let mut source = poisson(server, 2e6, 64, 7);
    let report = run_with(&setting, &mut source, |_| Ok(policy)).unwrap();
    assert_conserved(&report);
    report
}

fn at_ms(report: &Report, millis: usize) -> (f64, f64) {
    let interval = &report.intervals[millis];
    (interval.cores_active_mean, interval.frequency_mean_hertz)
}

#[test]
fn refusing_knob_does_not_block_others() {
    let server = server("westmere-2010");
    let slowest = server.processor.frequencies[0].0;
    let report = climb(&server, "frequency:refuse");
    let fastest = server.processor.frequencies[13].0;
    // The knob refused from the start, so the initial frequency remains.
    assert_eq!(at_ms(&report, 2), (4.0, fastest));
    assert_eq!(at_ms(&report, 10), (12.0, fastest));
    let entry = report.knobs.iter().find(|entry| entry.knob == Knob::Frequency).unwrap();
    assert!(entry.failed >= 3 && entry.failed == entry.steps && !entry.effective);
    let report = climb(&server, "cores:refuse");
    assert_eq!(at_ms(&report, 2), (12.0, slowest), "no core ever leaves the table");
    assert_eq!(at_ms(&report, 10), (12.0, fastest));
    assert_eq!(report.core_changes, 0);
}

#[test]
fn slow_writes_follow_each_other_in_the_safe_order() {
    let server = server("westmere-2010");
    let ideal = climb(&server, "");
    assert!(ideal.knobs.is_empty(), "no remarks on ideal knobs");
    assert_eq!(at_ms(&ideal, 5).0, 12.0);
    // Eight wakes and one table at 200 us each: 1.8 ms.
    let slow = climb(&server, "cores:delay=200us");
    let (early, late) = (at_ms(&slow, 5).0, at_ms(&slow, 7).0);
    assert_eq!((early, late), (4.0, 12.0), "the table follows the last wake");
    let between = at_ms(&slow, 6).0;
    assert!((between - (4.0 * 0.8 + 12.0 * 0.2)).abs() < 0.01, "at 6.8 ms: {between}");
    let entry = slow.knobs.iter().find(|entry| entry.knob == Knob::Cores).unwrap();
    assert_eq!(entry.failed, 0);
    // Frequencies rise before cores are added, so slow frequencies delay the cores.
    let slow = climb(&server, "frequency:delay=100us");
    assert!(at_ms(&slow, 5).0 < 12.0 && at_ms(&slow, 7).0 == 12.0, "12 x 100 us");
}

#[test]
fn failing_write_is_retried_after_a_rest() {
    let server = server("westmere-2010");
    let run = |seed| {
        let short = short(&server, "poll", "cores:fail=0.5");
        let setting = Setting { duration: Span::from_millis(4_000), interval: None, seed, ..short };
        let few = |point: &mut OperatingPoint| {
            point.set_active(2, 0, 2);
            point.batch = 16;
        };
        let policy = twice(|_| {}, few, Time::ZERO, Span::from_micros(20_000));
        let mut source = poisson(&server, 1e4, 64, 7);
        run_with(&setting, &mut source, |_| Ok(policy)).unwrap()
    };
    let reports: Vec<Report> = (0..40).map(run).collect();
    assert_eq!(timeless(&reports[0]), timeless(&run(0)), "failures come from the seed");
    let of = |report: &Report| {
        report.knobs.iter().find(|entry| entry.knob == Knob::Cores).unwrap().failed
    };
    let failed: Vec<u64> = reports.iter().map(of).collect();
    assert!(failed.iter().any(|&failed| failed > 0), "{failed:?}");
    assert!(
        failed.iter().all(|&failed| failed < 60),
        "after rests, not at every question: {failed:?}"
    );
    // A failed write of the table is repeated until it succeeds.
    let changes: Vec<u64> = reports.iter().map(|report| report.core_changes).collect();
    assert!(changes.iter().all(|&changes| changes <= 1), "{changes:?}");
    // A success at the very start is no change within the reported span.
    let down = reports.iter().filter(|report| report.cores_active_mean < 11.9).count();
    assert_eq!(down, reports.len(), "{changes:?}, {failed:?}");
    // Rests grow tenfold: most runs are down within milliseconds, but after six or more failures
    // only after 0.1 s. Ten additional cores for 0.1 of 4 s add 0.25 to the mean.
    let means: Vec<f64> = reports.iter().map(|report| report.cores_active_mean).collect();
    let late = means.iter().filter(|mean| **mean > 2.25).count();
    assert!((1..=4).contains(&late) && means.iter().all(|mean| *mean < 3.0), "{means:?}");
}

#[test]
fn rounding_knob_is_reported_and_the_policy_sees_its_value() {
    let server = server("westmere-2010");
    let period = Span::from_millis(5);
    // One up from the present index; with steps of five this is five up, which the policy then
    // sees.
    let up = |point: &mut OperatingPoint| point.set_frequency((point.fastest_active() + 1).min(13));
    let policy = twice(|point| point.set_frequency(0), up, Time::ZERO + period, period);
    let report = run_twice(&server, "frequency:round=5", policy);
    let at = |index: usize| server.processor.frequencies[index].0;
    // 0 is rounded up to 3, then 4 to 8, and 9 to 13.
    let seen: Vec<f64> = [2, 7, 12].map(|millis| at_ms(&report, millis).1).to_vec();
    assert_eq!(seen, [at(3), at(8), at(13)]);
    let entry = report.knobs.iter().find(|entry| entry.knob == Knob::Frequency).unwrap();
    assert!(entry.altered > 0 && entry.failed == 0);
    assert!(entry.last_problem.as_ref().unwrap().contains("index: 13"));
}

#[test]
fn budget_and_dwell_time_postpone_changes_without_loss() {
    let server = server("westmere-2010");
    let dither = || {
        let other = |point: &mut OperatingPoint| {
            let active = point.active.len();
            point.set_active(if active == 4 { 5 } else { 4 }, 0, 2);
        };
        twice(|point| point.set_active(4, 0, 2), other, Time::ZERO, Span::from_micros(50))
    };
    let free = run_twice(&server, "", dither());
    assert!(free.core_changes > 350, "{}", free.core_changes);
    let calm = run_twice(&server, "cores:dwell=1ms", dither());
    assert!((15..=21).contains(&calm.core_changes), "{}", calm.core_changes);
    let poor = run_twice(&server, "budget:rate=1000,burst=10", dither());
    let steps: u64 = poor.knobs.iter().map(|entry| entry.steps).sum();
    assert!(steps <= 10 + 20 + 20, "20 ms earn 20 writes: {steps}");
    assert!(poor.core_changes < 30, "{}", poor.core_changes);
    // A postponed step is taken even if the policy is not asked again.
    let once = twice(|point| point.set_frequency(0), |_| {}, Time::ZERO, Span::from_millis(100));
    let late = run_twice(&server, "budget:rate=1000,burst=4", once);
    let slowest = server.processor.frequencies[0].0;
    assert!(at_ms(&late, 3).1 > slowest && at_ms(&late, 19).1 == slowest);
}

/// PowerSave under load on bad knobs. No packet is lost beyond those lost on the ideal machine, and
/// conservation and order hold whatever fails.
#[test]
fn every_packet_is_accounted_for_on_bad_knobs() {
    let server = server("westmere-2010");
    let nervous = "queue-length:c_up=0,c_down=0,q_h=6,q_l=5,batch=4";
    for knobs in [
        "all:fail=0.3",
        "all:delay=30us",
        "all:delay=10us,fail=0.2;frequency:round=4",
        "cores:fail=0.9;idle-limit:refuse",
        "budget:rate=500,burst=20;cores:dwell=200us",
    ] {
        let setting = short(&server, nervous, knobs);
        let report = simulate(&setting, &mut poisson(&server, 3e6, 64, 5));
        assert_eq!(report.reordered_packets, 0, "{knobs}");
        assert!(report.forwarded_packets > 50_000, "{knobs}");
        assert!(!report.knobs.is_empty(), "{knobs}");
    }
}
