//! Results of the day, as data.

use super::modern::ModernDay;
use super::settings::Settings;
use super::step::Reaction;
use crate::remark::DISTURBED;
use crate::scale::Outcome;
use serde::Serialize;
use wattline_policy::PolicySpec;
use wattline_report::Check;
use wattline_traffic::Spec;

/// Largest relative difference of mean power between `scale` and the simulator.
pub(super) const POWER_TOLERANCE: f64 = 0.03;
/// Largest difference of mean active cores between `scale` and the simulator.
pub(super) const CORES_TOLERANCE: f64 = 0.3;
/// Smallest share of the intervals in which the active cores of both differ by at most one.
pub(super) const SAME_CORES_SHARE: f64 = 0.95;
/// Conditions of the days.
#[derive(Debug, Clone, Serialize)]
pub struct Conditions {
    /// Name of the server model.
    pub server: String,
    /// Number of cores that forward packets.
    pub cores: usize,
    /// Traffic, in the form of `wattline sim --traffic`.
    pub traffic: String,
    /// Remarks on parts of the traffic that stand in for something else.
    pub traffic_notes: Vec<String>,
    /// Dilation: real time divided by model time.
    pub scale: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Length of the day in model time.
    pub day_seconds: f64,
    /// Model time before the day.
    pub warmup_seconds: f64,
    /// Length of an interval in model time.
    pub interval_seconds: f64,
    /// Requested mean rate in packets per second.
    pub mean_rate_pps: Option<f64>,
    /// Requested mean rate as a share of the links' capacity.
    pub mean_load_ratio: Option<f64>,
    /// Kind of the ingress and egress ports.
    pub ports: &'static str,
}

impl Conditions {
    pub(super) fn new(settings: &Settings, spec: &Spec) -> Self {
        let nic = &settings.server.nic;
        let links = nic.link.0 * nic.ports as f64;
        Self {
            server: settings.server.name.clone(),
            cores: wattline_cores::platform_of(&settings.server).cores,
            traffic: settings.traffic(),
            traffic_notes: spec.notes(),
            scale: settings.dilation,
            seed: settings.seed,
            day_seconds: settings.day().as_seconds(),
            warmup_seconds: settings.interval().as_seconds(),
            interval_seconds: settings.interval().as_seconds(),
            mean_rate_pps: spec.packet_rate().map(|rate| rate.0),
            mean_load_ratio: spec.bit_rate().map(|rate| rate.0 / links),
            ports: "memory",
        }
    }

    /// Returns the command that simulates the same day under a policy.
    pub(super) fn simulation(&self, policy: &str) -> String {
        let micros = |seconds: f64| (seconds * 1e6).round();
        format!(
            "wattline sim --server {} --policy {policy} --traffic {} --duration {}us --warmup {}us \
             --seed {}",
            self.server,
            self.traffic,
            micros(self.day_seconds),
            micros(self.warmup_seconds),
            self.seed
        )
    }

    /// Returns the hour of the day at the middle of an interval that begins at this model time.
    pub(super) fn hour(&self, from_seconds: f64) -> f64 {
        let middle = from_seconds + self.interval_seconds / 2.0;
        24.0 * (middle / self.day_seconds).fract()
    }
}

/// Results of a day under one policy.
#[derive(Debug, Clone, Serialize)]
pub struct Day {
    /// Policy with its parameters, as requested.
    pub policy: String,
    /// Results of the real packets.
    pub outcome: Outcome,
    /// Results of the simulator.
    pub simulated: wattline_sim::Report,
    /// Relative difference of mean power: `scale` divided by the simulator, minus one.
    pub power_difference_ratio: Option<f64>,
    /// Mean active cores of `scale` minus those of the simulator.
    pub cores_difference: f64,
    /// Share of the intervals in which the mean active cores of both differ by at most one.
    pub same_cores_ratio: f64,
    /// True if power, cores and the share of intervals are within their tolerances; meaningless for
    /// a disturbed run.
    pub agrees: bool,
    /// True if this machine was too busy to run the emulated cores in time.
    pub disturbed: bool,
    /// Energy saved compared with `poll`, as a share of its energy.
    pub saving_over_poll_ratio: Option<f64>,
    /// Energy saved compared with `napi`, as a share of its energy.
    pub saving_over_napi_ratio: Option<f64>,
    /// Reaction to a step of load; `None` for a policy that never changes anything.
    pub step: Option<Reaction>,
}

impl Day {
    pub(super) fn new(
        policy: &PolicySpec,
        outcome: Outcome,
        simulated: wattline_sim::Report,
        step: Option<Reaction>,
    ) -> Self {
        let whole = &outcome.record.whole;
        let power = whole.power_watts.map(|watts| watts / simulated.power_watts - 1.0);
        let cores = whole.cores_active_mean - simulated.cores_active_mean;
        let emulated = outcome.record.intervals.iter();
        let emulated: Vec<_> = emulated.map(|it| (it.from_seconds, it.cores_active_mean)).collect();
        let other = simulated.intervals.iter();
        let other: Vec<_> = other.map(|it| (it.from_seconds, it.cores_active_mean)).collect();
        let same = same_cores(&emulated, &other);
        Self {
            policy: policy.to_string(),
            power_difference_ratio: power,
            cores_difference: cores,
            agrees: power.is_some_and(|power| power.abs() <= POWER_TOLERANCE)
                && cores.abs() <= CORES_TOLERANCE
                && same >= SAME_CORES_SHARE,
            same_cores_ratio: same,
            disturbed: outcome.is_disturbed(),
            saving_over_poll_ratio: None,
            saving_over_napi_ratio: None,
            outcome,
            simulated,
            step,
        }
    }
}

/// Returns the share of emulated intervals whose active cores differ by at most one from the
/// simulated interval at the same time. Each interval has its start and mean active cores.
fn same_cores(emulated: &[(f64, f64)], simulated: &[(f64, f64)]) -> f64 {
    let near = |&&(from, cores): &&(f64, f64)| {
        let distance = |it: &(f64, f64)| (it.0 - from).abs();
        let same = simulated.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        same.is_some_and(|same| (same.1 - cores).abs() <= 1.0)
    };
    emulated.iter().filter(near).count() as f64 / emulated.len().max(1) as f64
}

/// Results of all days, with remarks.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Conditions of the days.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Results by policy.
    pub days: Vec<Day>,
    /// The same traffic on a newer server, in the simulator alone.
    pub modern: Vec<ModernDay>,
    /// Comparisons with the paper.
    pub checks: Vec<Check>,
    /// Remarks on the meaning of the figures, and on missing results.
    pub notes: Vec<String>,
    /// Defects: events that must not happen on any machine, however busy.
    pub failures: Vec<String>,
}

impl Report {
    pub(super) fn new(
        conditions: Conditions,
        days: Vec<Day>,
        modern: Vec<ModernDay>,
        checks: Vec<Check>,
    ) -> Self {
        let failures = days.iter().flat_map(failures).collect();
        let mut notes = vec![
            "All watts are emulated (source: model, accuracy: static, estimated): the server model's \
             power of the emulated cores' states. Nothing here was measured."
                .to_owned(),
            format!(
                "Frames went through cards in memory, which need neither root nor interfaces and carry \
                 the model's time. Data plane, routes, policy and steering are the real ones; threads \
                 emulate {} cores of {}, {} times slower.",
                conditions.cores, conditions.server, conditions.scale
            ),
            "Order: a frame leaves only when no other core has earlier frames of its redirect-table \
             entry, so no flow is ever reordered, and a single frame out of order fails the \
             demonstration. Time for which frames are held back is counted separately (holds), not \
             in the latency."
                .to_owned(),
            format!(
                "A day of {} ms: its spikes rise within {:.2} ms. A real day is slower, and easier for a \
                 policy.",
                conditions.day_seconds * 1e3,
                conditions.day_seconds * 1e3 / 288.0
            ),
        ];
        notes.extend(conditions.traffic_notes.iter().cloned());
        for day in days.iter().filter(|day| day.disturbed) {
            let disturbance = &day.outcome.record.disturbance;
            notes.push(format!(
                "{DISTURBED} under {}: orders to cores were up to {:.1} µs of model time late, {} of {} \
                 frames were too late for their core, and the generator was up to {:.0} ms behind. This \
                 machine was too busy to run the cores in time; latency and differences may be affected. \
                 Use a greater --scale.",
                day.policy,
                disturbance.order_lag_max_seconds * 1e6,
                disturbance.late_frames,
                disturbance.frames,
                day.outcome.feed_lateness_max_seconds * 1e3,
            ));
        }
        Self { conditions, days, modern, checks, notes, failures }
    }
}

/// Checks that every frame was delivered or dropped by a full ring, once and in flow order.
fn failures(day: &Day) -> Vec<String> {
    let delivery = &day.outcome.delivery;
    let heard = &delivery.heard;
    let counts = [
        (delivery.lost_packets(), "were neither delivered nor dropped by a full ring"),
        (heard.reordered_packets as i64, "arrived after a later frame of their flow"),
        (heard.repeated_packets as i64, "came twice"),
        (heard.strange_packets as i64, "were never sent"),
    ];
    let failed = counts.into_iter().filter(|(count, _)| *count != 0);
    let text = |(count, what)| {
        format!("under {}: {count} of {} frames {what}", day.policy, delivery.sent_packets)
    };
    failed.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_intervals_with_the_same_cores_is_counted_in_time() {
        let simulated = [(0.0, 2.0), (1.0, 5.0), (2.0, 2.0)];
        // The same mean, at other times: means alone would agree.
        let late = [(0.0, 2.0), (1.0, 2.0), (2.0, 5.0)];
        assert!((same_cores(&late, &simulated) - 1.0 / 3.0).abs() < 1e-12);
        let near = [(0.0, 3.0), (1.0, 4.0), (2.0, 2.9)];
        assert!((same_cores(&near, &simulated) - 1.0).abs() < 1e-12);
        assert_eq!(same_cores(&[], &simulated), 0.0);
        assert_eq!(same_cores(&near, &[]), 0.0);
    }
}
