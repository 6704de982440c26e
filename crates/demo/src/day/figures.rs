//! The figures of a day that goes on, as a router on platform `scale` says them.

use serde_json::{Value, json};
use wattline_governor::account::Interval;
use wattline_scale::Scale;

/// Counters since the day began, and power and latency of the interval that has just ended. Packets
/// are counted as they pass, so their rates are those of real time; watts, latencies and busy times
/// are the model's.
pub(super) fn of(interval: &Interval, scale: &Scale) -> Value {
    let now = scale.clock().now();
    let (view, totals) =
        scale.look(|governor| (governor.look(now).clone(), governor.loop_totals(now)));
    let (platform, point, policy) = scale.look(|governor| {
        (governor.platform().clone(), governor.point().clone(), governor.policy_name())
    });
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
    let workers: Vec<Value> = (view.cores.iter().enumerate())
        .map(|(number, core)| {
            json!({
                "active": point.active.contains(number),
                "received": core.packets,
                "busy_seconds": core.useful.as_seconds(),
                "idle_seconds": (core.empty + core.asleep).as_seconds(),
                "sleeps": core.sleeps,
            })
        })
        .collect();
    let mut power = serde_json::to_value(interval).unwrap_or_default();
    power["platform"] = json!("scale");
    power["policy"] = json!(policy);
    power["scale"] = json!(scale.clock().dilation());
    power["energy_joules"] = Value::Null;
    power["cores_active"] = json!(point.active.len());
    power["frequency_hertz"] = point.frequencies(&platform).map(hertz).collect();
    power["decisions"] = json!(totals.decisions);
    power["transitions"] = json!(totals.core_changes + totals.frequency_changes);
    power["steps_failed"] = json!(totals.failed);
    power["knobs"] = json!(knobs);
    power["last_changes"] = json!(decisions);
    json!({
        "ports": [{
            "name": "all links",
            "state": "in memory",
            "received_packets": arrivals.saturating_sub(drops),
            "receive_ring_full": drops,
            "transmitted_packets": forwarded,
        }],
        "workers": workers,
        "power": power,
    })
}
