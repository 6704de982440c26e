//! Figures of a running day, in the form of a router on platform `scale`.

use wattline_governor::account::Interval;
use wattline_scale::Scale;
use wattline_status::{DemonstrationStats, Latency, LinkStats, ModelCore, PlatformName, Power};

/// Returns counters since the day began, and power and latency of the interval that has just ended.
/// Packets are counted as they pass, so their rates are in real time; watts, latencies and busy
/// times are the model's.
pub(super) fn stats(interval: &Interval, scale: &Scale, policy: &str) -> DemonstrationStats {
    let now = scale.clock().now();
    let (view, totals) =
        scale.look(|governor| (governor.look(now).clone(), governor.loop_totals(now)));
    let (platform, point) =
        scale.look(|governor| (governor.platform().clone(), governor.point().clone()));
    let (decisions, knobs) = scale.look(|governor| {
        let knobs: Vec<_> = governor.ledger().entries().cloned().collect();
        (governor.decisions(0), knobs)
    });
    let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
    let (arrivals, drops) = view
        .queues
        .iter()
        .fold((0, 0), |(arrivals, drops), queue| (arrivals + queue.arrivals, drops + queue.drops));
    let forwarded: u64 = view.cores.iter().map(|core| core.packets).sum();
    let workers = (view.cores.iter().enumerate())
        .map(|(number, core)| ModelCore {
            active: point.active.contains(number),
            received: core.packets,
            busy_seconds: core.useful.as_seconds(),
            idle_seconds: (core.empty + core.asleep).as_seconds(),
            sleeps: core.sleeps,
        })
        .collect();
    let by_component = &interval.power_by_component_watts;
    let power = Power {
        platform: PlatformName::Scale,
        policy: policy.to_owned(),
        scale: Some(scale.clock().dilation()),
        source: interval.source,
        accuracy: interval.accuracy,
        power_watts: interval.power_watts,
        power_by_component_watts: (by_component.iter())
            .map(|(name, watts)| ((*name).to_owned(), *watts))
            .collect(),
        power_rest_watts: interval.power_rest_watts,
        latency: interval.latency.map(Latency::from).unwrap_or_default(),
        offered_packets: interval.offered_packets,
        forwarded_packets: interval.forwarded_packets,
        dropped_packets: interval.dropped_packets,
        cores: platform.cores,
        cores_active: point.active.len(),
        frequency_hertz: point.frequencies(&platform).map(hertz).collect(),
        transitions: totals.core_changes + totals.frequency_changes,
        core_changes: totals.core_changes,
        frequency_changes: totals.frequency_changes,
        decisions: totals.decisions,
        steps: totals.steps,
        steps_altered: totals.altered,
        steps_failed: totals.failed,
        reason: decisions.last().map(|last| last.reason.clone()),
        last_changes: decisions,
        knobs,
        ..Power::default()
    };
    DemonstrationStats {
        ports: Some(vec![LinkStats {
            name: "all links".to_owned(),
            state: "in memory".to_owned(),
            received_packets: arrivals.saturating_sub(drops),
            receive_ring_full: drops,
            transmitted_packets: forwarded,
        }]),
        workers,
        power: Some(power),
        ..DemonstrationStats::default()
    }
}
