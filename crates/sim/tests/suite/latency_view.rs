//! A policy that keeps a latency target from the latencies that it observes.

use crate::common::{poisson, server, setting};
use std::sync::{Arc, Mutex};
use wattline_policy::testing::policy;
use wattline_policy::{AskAgain, LatencyView, Looks, Policy, Trigger, Wait};
use wattline_sim::run_with;
use wattline_units::Span;

const PERIOD: Span = Span::from_millis(1);

/// Adds a core when the 99th percentile is above the target, and removes one when it is below a
/// fifth of the target.
fn holding(
    target: Span,
    looks: Looks,
    seen: Arc<Mutex<Vec<Option<LatencyView>>>>,
) -> Box<dyn Policy> {
    policy(looks, move |observation, point| {
        let now = observation.now;
        let deepest = observation.platform.deepest();
        if observation.trigger == Trigger::Start {
            point.set_active(1, 0, deepest);
            point.set_frequency(0);
            point.set_wait(Wait::Interrupt);
            return AskAgain::at(now + PERIOD);
        }
        seen.lock().unwrap().push(observation.latency);
        if let Some(latency) = observation.latency.filter(|latency| latency.samples > 0) {
            let cores = point.active.len();
            if latency.p99 > target {
                point.set_active(cores + 1, 0, deepest);
            } else if latency.p99 < target / 5 {
                point.set_active(cores - 1, 0, deepest);
            }
        }
        AskAgain::at(now + PERIOD)
    })
}

#[test]
fn a_policy_can_hold_a_latency_target() {
    let server = server("westmere-2010");
    let mut setting = setting(&server, "poll");
    setting.warmup = Span::from_millis(30);
    setting.duration = Span::from_millis(30);
    let target = Span::from_micros(60);
    for (mpps, looks) in [
        (0.0005, Looks::WHOLE.and_latency()),
        (6.0, Looks::WHOLE.and_latency()),
        (6.0, Looks::TRIGGER.and_latency()),
        (6.0, Looks::WHOLE),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let policy = holding(target, looks, Arc::clone(&seen));
        let mut source = poisson(&server, mpps * 1e6, 64, 3);
        let report = run_with(&setting, &mut source, |_| Ok(policy)).unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 60);
        if !looks.latency {
            assert!(seen.iter().all(Option::is_none), "it was not requested");
            assert!(report.dropped_packets > 0, "one core cannot carry 6 Mpps");
            continue;
        }
        let views: Vec<LatencyView> =
            seen.iter().copied().flatten().filter(|view| view.samples > 0).collect();
        assert!(views.iter().all(|view| view.p95 <= view.p99 && view.mean > Span::ZERO));
        if mpps < 1.0 {
            assert!(views.len() < seen.len(), "without packets there is no latency");
            continue;
        }
        assert!(views[0].p99 > target, "one core is too few: {:?}", views[0]);
        let settled = &views[30..];
        assert!(settled.iter().all(|view| view.p99 < target), "{settled:?}");
        assert!((3.0..=8.0).contains(&report.cores_active_mean), "{}", report.cores_active_mean);
        // The observed latencies agree with the report.
        let shown = settled.iter().map(|view| view.mean.as_seconds()).sum::<f64>() / 30.0;
        let mean = report.latency_mean_seconds.unwrap();
        assert!((shown / mean - 1.0).abs() < 0.01, "shown {shown}, report {mean}");
    }
}
