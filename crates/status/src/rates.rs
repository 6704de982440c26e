//! Rates: the difference between two answers to `stats`.

use crate::moderation::Moderation;
use crate::power::{KernelShare, Power};
use crate::router::{PortCounters, PortState, WorkerStats};
use crate::stats::Stats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_units::{Accuracy, Source};

/// Counters of a daemon at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    uptime_seconds: f64,
    ports: Vec<PortCounts>,
    workers: Vec<WorkerStats>,
    /// Drops by reason, losses of ports among them.
    drops: BTreeMap<String, u64>,
    /// Losses of applications.
    losses: BTreeMap<String, u64>,
    power: Option<PowerNow>,
    kernel: Vec<KernelShare>,
    /// True if busy time covers the whole CPU, kernel included.
    busy_has_kernel: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct PortCounts {
    name: String,
    state: String,
    counters: PortCounters,
    has_bytes: bool,
}

/// Power and operating point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerNow {
    /// Name of the policy.
    pub policy: String,
    /// Mean power of the last five seconds; null where unknown.
    pub power_watts: Option<f64>,
    /// Source of the power.
    pub source: Source,
    /// Accuracy of the power.
    pub accuracy: Accuracy,
    /// Frequency by core.
    pub frequency_hertz: Vec<f64>,
    /// Interrupt moderation.
    #[serde(flatten)]
    pub moderation: Moderation,
    /// Cores that packets are sent to.
    pub cores_active: Option<usize>,
    /// Median latency of the last five seconds; in model time for an emulated machine.
    pub latency_p50_seconds: Option<f64>,
    /// The 99th percentile.
    pub latency_p99_seconds: Option<f64>,
}

/// Rates between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Time since the daemon was started.
    pub uptime_seconds: f64,
    /// Time between the samples, on the daemon's clock.
    pub duration_seconds: f64,
    /// Ports.
    pub ports: Vec<Port>,
    /// Workers.
    pub workers: Vec<Worker>,
    /// Drops by reason, including losses of ports and drops of XDP programs.
    pub drops: Vec<Drop>,
    /// Losses of applications by overload other than frames, such as flow records.
    #[serde(default)]
    pub losses: Vec<Drop>,
    /// Power, where there is a governor.
    pub power: Option<PowerNow>,
}

/// A port between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// State of its interface; empty where there is none.
    pub state: String,
    /// Frames that came in, including those lost before a worker.
    pub offered_rate_pps: f64,
    /// Frames that went out.
    pub forwarded_rate_pps: f64,
    /// Bits per second that came in, where they are counted.
    #[serde(default)]
    pub received_bits_per_second: Option<f64>,
    /// Bits per second that went out.
    #[serde(default)]
    pub transmitted_bits_per_second: Option<f64>,
}

/// A worker between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// True if traffic is meant for it.
    pub active: bool,
    /// Frames that it took.
    pub received_rate_pps: f64,
    /// Part of its awake cycles in rounds that found frames.
    pub busy_ratio: f64,
    /// Times that it blocked, per second.
    pub sleeps_per_second: f64,
    /// Its core's frequency, where known.
    pub frequency_hertz: Option<f64>,
    /// Share of its CPU's last second in softirq, if known: the kernel's work for packets.
    pub kernel_softirq_share: Option<f64>,
    /// The same in ksoftirqd.
    pub kernel_ksoftirqd_share: Option<f64>,
    /// The same in soft interrupts, ksoftirqd and threads of NAPI instances together.
    #[serde(default)]
    pub kernel_work_share: Option<f64>,
    /// Share of its CPU's time in which it found frames or the kernel worked for them, at most 1.
    #[serde(default)]
    pub work_ratio: f64,
}

/// Frames dropped for one reason, or other losses of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drop {
    /// The reason.
    pub reason: String,
    /// Their number since the router was started.
    pub packets: u64,
    /// Rate between the samples.
    pub rate_pps: f64,
}

/// Converts seconds: a governor without workers reports times instead of cycles; the busy ratio is
/// the same for both.
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Sample {
    /// Takes the counters from an answer to `stats`.
    pub fn of(stats: &Stats) -> Self {
        let power = stats.power();
        let host = power.and_then(|power| power.details.host.as_ref());
        let mut sample = Self {
            uptime_seconds: stats.uptime_seconds(),
            power: power.map(PowerNow::of),
            kernel: host.map(|host| host.kernel.clone()).unwrap_or_default(),
            busy_has_kernel: matches!(stats, Stats::Governor(_)),
            ..Self::default()
        };
        match stats {
            Stats::Router(stats) => {
                sample.drops.clone_from(&stats.dropped);
                sample.drops.extend(stats.xdp_dropped.clone());
                sample.losses.clone_from(&stats.losses);
                for port in &stats.ports {
                    for (reason, count) in port.counters.losses() {
                        sample.lose(reason, count);
                    }
                    let state = port.state.map_or("", PortState::name);
                    sample.add(&port.name, state, port.counters);
                }
                sample.workers.clone_from(&stats.workers);
            }
            Stats::Governor(stats) => {
                for port in &stats.ports {
                    let counters = PortCounters {
                        received_packets: port.received_packets,
                        received_bytes: port.received_bytes,
                        transmitted_packets: port.transmitted_packets,
                        transmitted_bytes: port.transmitted_bytes,
                        ..PortCounters::default()
                    };
                    sample.add(&port.name, &port.state, counters);
                }
                let workers = stats.workers.iter().map(|core| WorkerStats {
                    active: core.active,
                    useful_cycles: nanos(core.busy_seconds),
                    empty_cycles: nanos(core.idle_seconds),
                    received: core.received,
                    ..WorkerStats::default()
                });
                sample.workers = workers.collect();
            }
            Stats::Demonstration(stats) => {
                for port in stats.ports.iter().flatten() {
                    sample.lose("receive-ring-full", port.receive_ring_full);
                    let counters = PortCounters {
                        received_packets: port.received_packets,
                        receive_ring_full: port.receive_ring_full,
                        transmitted_packets: port.transmitted_packets,
                        ..PortCounters::default()
                    };
                    sample.add(&port.name, &port.state, counters);
                }
                sample.ports.iter_mut().for_each(|port| port.has_bytes = false);
                let workers = stats.workers.iter().map(|core| WorkerStats {
                    active: core.active,
                    useful_cycles: nanos(core.busy_seconds),
                    empty_cycles: nanos(core.idle_seconds),
                    received: core.received,
                    sleeps: core.sleeps,
                    ..WorkerStats::default()
                });
                sample.workers = workers.collect();
            }
        }
        sample
    }

    fn add(&mut self, name: &str, state: &str, counters: PortCounters) {
        let (name, state) = (name.to_owned(), state.to_owned());
        self.ports.push(PortCounts { name, state, counters, has_bytes: true });
    }

    fn lose(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.drops.entry(reason.to_owned()).or_default() += count;
        }
    }
}

impl PowerNow {
    fn of(power: &Power) -> Self {
        Self {
            policy: power.policy.clone(),
            power_watts: power.power_watts,
            source: power.source,
            accuracy: power.accuracy,
            frequency_hertz: power.frequency_hertz.clone(),
            moderation: power.moderation.clone(),
            cores_active: Some(power.cores_active),
            latency_p50_seconds: power.latency.latency_p50_seconds,
            latency_p99_seconds: power.latency.latency_p99_seconds,
        }
    }

    /// Describes the watts with their source, as text.
    pub fn describe(&self) -> String {
        match self.power_watts {
            Some(watts) => format!("{watts:.1} W ({}, {})", self.source, self.accuracy),
            None => "unavailable".to_owned(),
        }
    }
}

impl Rates {
    /// Returns the rates between two samples. A router that was restarted in between counts from
    /// zero.
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
            // Ports may be added and removed while a router runs.
            let old = before.ports.iter().find(|old| old.name == port.name);
            let old = old.cloned().unwrap_or_default();
            let (counts, old) = (&port.counters, &old.counters);
            let bits = |now, before| port.has_bytes.then(|| 8.0 * rate(now, before));
            let offered = |counts: &PortCounters| counts.received_packets + counts.lost();
            Port {
                name: port.name.clone(),
                state: port.state.clone(),
                offered_rate_pps: rate(offered(counts), offered(old)),
                forwarded_rate_pps: rate(counts.transmitted_packets, old.transmitted_packets),
                received_bits_per_second: bits(counts.received_bytes, old.received_bytes),
                transmitted_bits_per_second: bits(counts.transmitted_bytes, old.transmitted_bytes),
            }
        });
        let workers = now.workers.iter().enumerate().map(|(index, worker)| {
            let old = before.workers.get(index).cloned().unwrap_or_default();
            let useful = worker.useful_cycles.saturating_sub(old.useful_cycles);
            let empty = worker.empty_cycles.saturating_sub(old.empty_cycles);
            let sleeping = worker.sleeping_cycles.saturating_sub(old.sleeping_cycles);
            let hertz = now.power.as_ref().and_then(|power| power.frequency_hertz.get(index));
            let kernel = now.kernel.iter().find(|share| share.worker == index);
            let busy_ratio = useful as f64 / (useful + empty + sleeping).max(1) as f64;
            let kernel_work = kernel.map_or(0.0, KernelShare::work);
            Worker {
                active: worker.active,
                received_rate_pps: rate(worker.received, old.received),
                busy_ratio,
                sleeps_per_second: rate(worker.sleeps, old.sleeps),
                frequency_hertz: hertz.copied(),
                kernel_softirq_share: kernel.map(|share| share.softirq_share),
                kernel_ksoftirqd_share: kernel.map(|share| share.ksoftirqd_share),
                kernel_work_share: kernel.map(KernelShare::work),
                work_ratio: if now.busy_has_kernel {
                    busy_ratio.max(kernel_work)
                } else {
                    (busy_ratio + kernel_work).min(1.0)
                },
            }
        });
        let drops = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let drops = now.iter().filter(|(_, count)| **count > 0);
            let drops = drops.map(|(reason, count)| Drop {
                reason: reason.clone(),
                packets: *count,
                rate_pps: rate(*count, before.get(reason).copied().unwrap_or(0)),
            });
            drops.collect()
        };
        Self {
            uptime_seconds: now.uptime_seconds,
            duration_seconds: seconds.max(0.0),
            ports: ports.collect(),
            workers: workers.collect(),
            drops: drops(&now.drops, &before.drops),
            losses: drops(&now.losses, &before.losses),
            power: now.power.clone(),
        }
    }

    /// Returns the frames per second that came in at all ports.
    pub fn offered(&self) -> f64 {
        self.ports.iter().map(|port| port.offered_rate_pps).sum()
    }

    /// Returns the frames per second that went out of all ports.
    pub fn forwarded(&self) -> f64 {
        self.ports.iter().map(|port| port.forwarded_rate_pps).sum()
    }

    /// Returns the frames per second that were dropped.
    pub fn dropped(&self) -> f64 {
        self.drops.iter().map(|drop| drop.rate_pps).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoreStats, GovernorStats, example};

    #[test]
    fn rates_are_differences_over_the_daemons_own_time() {
        let [before, now] = [(10.0, 1_000), (12.0, 5_000)].map(|(at, sent)| example(at, sent));
        let rates = Rates::between(&Sample::of(&before), &Sample::of(&now));
        assert_eq!(rates.duration_seconds, 2.0);
        assert_eq!((rates.offered(), rates.forwarded(), rates.dropped()), (2e3, 1e3, 200.0));
        assert_eq!(rates.workers[0].busy_ratio, 0.25, "30 of 120 cycles: sleep counts as well");
        assert_eq!(rates.workers[0].sleeps_per_second, 20.0);
        assert_eq!(rates.workers[1].frequency_hertz, Some(3.3e9));
        assert_eq!(rates.workers[0].work_ratio, 0.25);
        assert!((rates.workers[1].work_ratio - 0.3).abs() < 1e-9, "all of it is the kernel's");
        let kernel = |worker: &Worker| (worker.kernel_softirq_share, worker.kernel_ksoftirqd_share);
        assert_eq!(kernel(&rates.workers[0]), (None, None));
        assert_eq!(kernel(&rates.workers[1]), (Some(0.25), Some(0.1)));
        assert_eq!(rates.power.unwrap().describe(), "131.5 W (emulated, static)");
        let bits = |port: &Port| (port.received_bits_per_second, port.transmitted_bits_per_second);
        assert_eq!(bits(&rates.ports[0]), (Some(8.0 * 60.0 * 2e3), Some(0.0)));
        // A reason without drops is not listed; a loss at a port is.
        let reasons: Vec<_> = rates.drops.iter().map(|drop| drop.reason.as_str()).collect();
        assert_eq!(reasons, ["no-route", "receive-ring-full"]);
    }

    #[test]
    fn governor_reports_times_instead_of_cycles() {
        let at = |uptime_seconds: f64| {
            let core = CoreStats {
                active: true,
                busy_seconds: 0.25 * uptime_seconds,
                idle_seconds: 0.75 * uptime_seconds,
                ..CoreStats::default()
            };
            let workers = vec![core];
            let stats = GovernorStats { uptime_seconds, workers, ..GovernorStats::default() };
            Sample::of(&Stats::Governor(Box::new(stats)))
        };
        let rates = Rates::between(&at(2.0), &at(6.0));
        assert!((rates.workers[0].busy_ratio - 0.25).abs() < 1e-6);
    }

    #[test]
    fn restarted_daemon_counts_from_zero() {
        let [before, now] = [(10.0, 900), (1.0, 100)].map(|(at, sent)| example(at, sent));
        let restarted = Rates::between(&Sample::of(&before), &Sample::of(&now));
        assert_eq!((restarted.duration_seconds, restarted.offered()), (1.0, 105.0));
        let silent = PowerNow { power_watts: None, ..PowerNow::default() };
        assert_eq!(silent.describe(), "unavailable", "which is not 0 W");
    }

    #[test]
    fn drops_of_xdp_programs_and_losses_of_applications_are_among_them() {
        let at = |uptime_seconds: f64, count: u64| {
            let xdp_dropped = [("xdp-no-worker".to_owned(), 2 * count)].into();
            let losses = [("flow-records-overload".to_owned(), 10 * count)].into();
            let stats = crate::RouterStats {
                uptime_seconds,
                losses,
                xdp_dropped,
                ..crate::RouterStats::default()
            };
            Sample::of(&Stats::Router(Box::new(stats)))
        };
        let rates = Rates::between(&at(1.0, 1), &at(3.0, 5));
        let rows = |drops: &[Drop]| -> Vec<(String, u64, f64)> {
            drops.iter().map(|it| (it.reason.clone(), it.packets, it.rate_pps)).collect()
        };
        assert_eq!(rows(&rates.drops), [("xdp-no-worker".to_owned(), 10, 4.0)]);
        assert_eq!(rows(&rates.losses), [("flow-records-overload".to_owned(), 50, 20.0)]);
        assert_eq!(rates.dropped(), 4.0, "records are no frames");
    }
}
