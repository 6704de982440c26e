//! What a router said at one moment, and what happened between two.

use crate::moderation::Moderation;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A router's counters at one moment. What it does not say is zero or missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    uptime_seconds: f64,
    ports: Vec<PortCounts>,
    workers: Vec<WorkerCounts>,
    /// Drops by reason, losses of ports among them.
    drops: BTreeMap<String, u64>,
    power: Option<Power>,
    /// By worker: the shares of softirq and ksoftirqd.
    kernel: BTreeMap<u64, (f64, f64)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct PortCounts {
    name: String,
    state: String,
    received: u64,
    lost: u64,
    transmitted: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct WorkerCounts {
    active: bool,
    useful_cycles: u64,
    empty_cycles: u64,
    sleeping_cycles: u64,
    received: u64,
    sleeps: u64,
}

/// What is known of power.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Power {
    /// Name of the policy.
    pub policy: String,
    /// Mean power of the last five seconds; `None` where nothing can tell.
    pub power_watts: Option<f64>,
    /// How it was come by, and how accurate it is.
    pub source: String,
    /// How accurate it is.
    pub accuracy: String,
    /// By core.
    pub frequency_hertz: Vec<f64>,
    /// Interrupt moderation, where it is governed.
    #[serde(flatten)]
    pub moderation: Moderation,
    /// Cores that packets are sent to, where the governor says.
    pub cores_active: Option<u64>,
    /// Median latency of the last five seconds; an emulated machine's, in its time.
    pub latency_p50_seconds: Option<f64>,
    /// The 99th percentile.
    pub latency_p99_seconds: Option<f64>,
}

/// What happened between two looks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rates {
    /// How long the router has run.
    pub uptime_seconds: f64,
    /// Time between the looks, on the router's clock.
    pub duration_seconds: f64,
    /// By port.
    pub ports: Vec<Port>,
    /// By worker.
    pub workers: Vec<Worker>,
    /// Drops by reason.
    pub drops: Vec<Drop>,
    /// Where there is a governor.
    pub power: Option<Power>,
}

/// A port between two looks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Of its interface; empty where there is none.
    pub state: String,
    /// Frames that came in, those lost before a worker saw them included.
    pub offered_rate_pps: f64,
    /// Frames that went out.
    pub forwarded_rate_pps: f64,
}

/// A worker between two looks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Worker {
    /// Whether traffic is meant for it.
    pub active: bool,
    /// Frames that it took.
    pub received_rate_pps: f64,
    /// Part of its awake cycles in rounds that found frames.
    pub busy_ratio: f64,
    /// Times that it blocked, per second.
    pub sleeps_per_second: f64,
    /// Its core's frequency, where known.
    pub frequency_hertz: Option<f64>,
    /// Share of its CPU's last second in softirq, where known: what the kernel did for packets.
    pub kernel_softirq_share: Option<f64>,
    /// The same in ksoftirqd.
    pub kernel_ksoftirqd_share: Option<f64>,
}

/// Frames dropped for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Drop {
    /// The reason.
    pub reason: String,
    /// Since the router was started.
    pub packets: u64,
    /// Between the looks.
    pub rate_pps: f64,
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

/// Of a governor without workers, which tells times instead of cycles: busy is a ratio of either.
fn nanos(value: &Value, key: &str) -> u64 {
    value[key].as_f64().map_or(0, |seconds| (seconds * 1e9) as u64)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Sample {
    /// From the answer to `stats`.
    pub fn of(stats: &Value) -> Self {
        const LOSSES: [&str; 3] = ["receive_ring_full", "fill_ring_empty", "receive_invalid"];
        let mut drops: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in stats["dropped"].as_object().into_iter().flatten() {
            drops.insert(reason.clone(), count.as_u64().unwrap_or(0));
        }
        let mut ports = Vec::new();
        for port in list(&stats["ports"]) {
            for loss in LOSSES {
                let count = number(port, loss);
                if count > 0 {
                    *drops.entry(loss.replace('_', "-")).or_default() += count;
                }
            }
            ports.push(PortCounts {
                name: text(port, "name"),
                state: text(port, "state"),
                received: number(port, "received_packets"),
                lost: LOSSES.iter().map(|key| number(port, key)).sum(),
                transmitted: number(port, "transmitted_packets"),
            });
        }
        let worker = |worker: &Value| WorkerCounts {
            active: worker["active"] == Value::Bool(true),
            useful_cycles: number(worker, "useful_cycles") + nanos(worker, "busy_seconds"),
            empty_cycles: number(worker, "empty_cycles") + nanos(worker, "idle_seconds"),
            sleeping_cycles: number(worker, "sleeping_cycles"),
            received: number(worker, "received"),
            sleeps: number(worker, "sleeps"),
        };
        let share = |share: &Value| {
            let of = |key: &str| share[key].as_f64().unwrap_or(0.0);
            (number(share, "worker"), (of("softirq_share"), of("ksoftirqd_share")))
        };
        Self {
            kernel: list(&stats["power"]["host"]["kernel"]).map(share).collect(),
            uptime_seconds: stats["uptime_seconds"].as_f64().unwrap_or(0.0),
            ports,
            workers: list(&stats["workers"]).map(worker).collect(),
            drops,
            power: stats["power"].is_object().then(|| Power::of(&stats["power"])),
        }
    }
}

impl Power {
    fn of(power: &Value) -> Self {
        Self {
            policy: text(power, "policy"),
            power_watts: power["power_watts"].as_f64(),
            source: text(power, "source"),
            accuracy: text(power, "accuracy"),
            frequency_hertz: list(&power["frequency_hertz"]).filter_map(Value::as_f64).collect(),
            moderation: Moderation::of(power),
            cores_active: power["cores_active"].as_u64(),
            latency_p50_seconds: power["latency_p50_seconds"].as_f64(),
            latency_p99_seconds: power["latency_p99_seconds"].as_f64(),
        }
    }

    /// The watts with what they are, as text.
    pub fn describe(&self) -> String {
        match self.power_watts {
            Some(watts) => format!("{watts:.1} W ({}, {})", self.source, self.accuracy),
            None => "unavailable".to_owned(),
        }
    }
}

impl Rates {
    /// What happened from one look to the next. A router that was started anew meanwhile
    /// counts from zero.
    pub fn between(before: &Sample, now: &Sample) -> Self {
        let restarted = now.uptime_seconds < before.uptime_seconds;
        let nothing = Sample::default();
        let before = if restarted { &nothing } else { before };
        let seconds = now.uptime_seconds - before.uptime_seconds;
        let rate = |now: u64, before: u64| {
            let more = now.saturating_sub(before) as f64;
            if seconds > 0.0 { more / seconds } else { 0.0 }
        };
        let ports = now.ports.iter().map(|port| {
            // Ports come and go while a router runs.
            let old = before.ports.iter().find(|old| old.name == port.name);
            let old = old.cloned().unwrap_or_default();
            Port {
                name: port.name.clone(),
                state: port.state.clone(),
                offered_rate_pps: rate(port.received + port.lost, old.received + old.lost),
                forwarded_rate_pps: rate(port.transmitted, old.transmitted),
            }
        });
        let workers = now.workers.iter().enumerate().map(|(index, worker)| {
            let old = before.workers.get(index).cloned().unwrap_or_default();
            let useful = worker.useful_cycles.saturating_sub(old.useful_cycles);
            let empty = worker.empty_cycles.saturating_sub(old.empty_cycles);
            let sleeping = worker.sleeping_cycles.saturating_sub(old.sleeping_cycles);
            let hertz = now.power.as_ref().and_then(|power| power.frequency_hertz.get(index));
            let kernel = now.kernel.get(&(index as u64));
            Worker {
                active: worker.active,
                received_rate_pps: rate(worker.received, old.received),
                busy_ratio: useful as f64 / (useful + empty + sleeping).max(1) as f64,
                sleeps_per_second: rate(worker.sleeps, old.sleeps),
                frequency_hertz: hertz.copied(),
                kernel_softirq_share: kernel.map(|(softirq, _)| *softirq),
                kernel_ksoftirqd_share: kernel.map(|(_, thread)| *thread),
            }
        });
        let drops = now.drops.iter().filter(|(_, count)| **count > 0).map(|(reason, count)| Drop {
            reason: reason.clone(),
            packets: *count,
            rate_pps: rate(*count, before.drops.get(reason).copied().unwrap_or(0)),
        });
        Self {
            uptime_seconds: now.uptime_seconds,
            duration_seconds: seconds.max(0.0),
            ports: ports.collect(),
            workers: workers.collect(),
            drops: drops.collect(),
            power: now.power.clone(),
        }
    }

    /// Frames per second that came in at all ports.
    pub fn offered(&self) -> f64 {
        self.ports.iter().map(|port| port.offered_rate_pps).sum()
    }

    /// Frames per second that went out of all ports.
    pub fn forwarded(&self) -> f64 {
        self.ports.iter().map(|port| port.forwarded_rate_pps).sum()
    }

    /// Frames per second that were dropped.
    pub fn dropped(&self) -> f64 {
        self.drops.iter().map(|drop| drop.rate_pps).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A router after so many seconds, with so many packets.
    pub fn stats(seconds: f64, packets: u64) -> Value {
        json!({
            "uptime_seconds": seconds,
            "dropped": {"no-route": packets / 10, "ttl": 0},
            "ports": [
                {"name": "left", "state": "up", "received_packets": packets, "receive_ring_full": 5},
                {"name": "right", "state": "up", "transmitted_packets": packets / 2},
            ],
            "workers": [
                {"active": true, "received": packets, "useful_cycles": 30 * packets,
                 "empty_cycles": 10 * packets, "sleeping_cycles": 80 * packets,
                 "sleeps": packets / 100},
                {"active": false},
            ],
            "power": {"policy": "powersave", "power_watts": 131.5, "source": "emulated",
                      "accuracy": "static", "frequency_hertz": [1.6e9, 3.3e9], "cores_active": 1,
                      "latency_p50_seconds": 9e-6, "latency_p99_seconds": 5e-5,
                      "host": {"kernel": [{"worker": 1, "cpu": 3, "softirq_share": 0.25,
                                           "ksoftirqd_share": 0.1}]}},
        })
    }

    #[test]
    fn rates_are_differences_over_the_routers_own_time() {
        let rates =
            Rates::between(&Sample::of(&stats(10.0, 1_000)), &Sample::of(&stats(12.0, 5_000)));
        assert_eq!(rates.duration_seconds, 2.0);
        assert_eq!((rates.offered(), rates.forwarded(), rates.dropped()), (2e3, 1e3, 200.0));
        assert_eq!(rates.workers[0].busy_ratio, 0.25, "30 of 120 cycles: sleep counts as well");
        assert_eq!(rates.workers[0].sleeps_per_second, 20.0);
        assert_eq!(rates.workers[1].frequency_hertz, Some(3.3e9));
        let kernel = |worker: &Worker| (worker.kernel_softirq_share, worker.kernel_ksoftirqd_share);
        assert_eq!(kernel(&rates.workers[0]), (None, None));
        assert_eq!(kernel(&rates.workers[1]), (Some(0.25), Some(0.1)));
        assert_eq!(rates.power.unwrap().describe(), "131.5 W (emulated, static)");
        // What was never dropped is not listed; what was lost at a port is.
        let reasons: Vec<_> = rates.drops.iter().map(|drop| drop.reason.as_str()).collect();
        assert_eq!(reasons, ["no-route", "receive-ring-full"]);
    }

    #[test]
    fn a_governor_without_workers_tells_times() {
        let at = |seconds: f64| {
            Sample::of(&json!({
                "uptime_seconds": seconds,
                "workers": [{"cpu": 0, "active": true, "received": 100.0 * seconds,
                             "busy_seconds": 0.25 * seconds, "idle_seconds": 0.75 * seconds}],
            }))
        };
        let rates = Rates::between(&at(2.0), &at(6.0));
        assert!((rates.workers[0].busy_ratio - 0.25).abs() < 1e-6);
    }

    #[test]
    fn a_router_started_anew_counts_from_zero_and_strange_answers_are_no_panic() {
        let anew = Rates::between(&Sample::of(&stats(10.0, 900)), &Sample::of(&stats(1.0, 100)));
        assert_eq!((anew.duration_seconds, anew.offered()), (1.0, 105.0));
        for strange in
            [json!(null), json!([1]), json!({"ports": 3, "workers": [null, 1], "power": 7})]
        {
            let sample = Sample::of(&strange);
            assert_eq!(Rates::between(&sample, &sample).offered(), 0.0);
        }
        let silent = Power { power_watts: None, ..Power::default() };
        assert_eq!(silent.describe(), "unavailable", "which is not 0 W");
    }
}
