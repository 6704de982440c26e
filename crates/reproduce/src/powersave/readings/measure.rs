//! Figures of a reading that the checks judge.

use super::super::day::{micros, worst};
use super::super::latency::click_micros;
use super::runs::{ABOVE, BELOW, STEADY};
use super::{Reading, References};
use crate::error::ReproduceError;
use wattline_sim::Report;

/// The figures of a reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Watts above the optimum at 6, 12, 18 and 24 Mpps, from above.
    pub above_watts: [f64; 4],
    /// The same from below.
    pub below_watts: [f64; 4],
    /// Power at 1 Mpps relative to polling, the higher of both sides.
    pub low_load: f64,
    /// Saving over Click over the day in percent.
    pub saving_click: f64,
    /// Saving over NAPI-Click over the day in percent.
    pub saving_napi: f64,
    /// Intervals of the day with more power than NAPI-Click.
    pub intervals_above_napi: u64,
    /// Mean latency of the day, calibrated, in microseconds.
    pub mean_micros: f64,
    /// Addition to Click's mean, in microseconds.
    pub added_micros: f64,
    /// Highest 99th percentile of an interval, calibrated, in microseconds.
    pub peak_micros: f64,
    /// Highest 99th percentile of an interval over its mean.
    pub peak_over_mean: f64,
    /// Packets of the day that would be reordered if none were held back.
    pub reordered: u64,
    /// Packets lost over the day, the bursts and the steady rates from above.
    pub lost: u64,
    /// Range of power over the lengths of bursts, in percent of its mean.
    pub burst_range: f64,
    /// Changes per second at the steady rates, mean of both sides.
    pub changes_per_second: f64,
    /// Longest time from an overload of the day until the core had caught up, in microseconds.
    pub reaction_micros: f64,
}

/// Returns the largest of some figures.
pub(super) fn greatest(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::MIN, f64::max)
}

impl Figures {
    /// Simulates a reading, on this thread.
    ///
    /// # Errors
    /// When a simulation fails.
    pub fn of(reading: &Reading, references: &References) -> Result<Self, ReproduceError> {
        let (policy, server, runs) = (reading.policy(), &references.server, &references.runs);
        let (mut gaps, mut low_load, mut changes, mut lost) = ([[0.0; 4]; 2], 0.0, 0.0, 0);
        for (side, before) in [ABOVE, BELOW].into_iter().enumerate() {
            for (at, report) in runs.steady(server, &policy, before)?.iter().enumerate() {
                match at.checked_sub(1) {
                    Some(rate) => gaps[side][rate] = report.power_watts - references.optimum[at],
                    None => low_load = f64::max(low_load, report.power_watts / references.polling),
                }
                let per_second = report.transitions as f64 / report.duration_seconds;
                changes += per_second / (2 * STEADY.len()) as f64;
                if side == 0 {
                    lost += report.dropped_packets;
                }
            }
        }
        let day = runs.day(server, &policy)?;
        lost += day.dropped_packets;
        let bursts = runs.bursts(server, &policy)?;
        lost += bursts.iter().map(|length| length.dropped).sum::<u64>();
        let watts: Vec<f64> = bursts.iter().map(|length| length.watts).collect();
        let least = watts.iter().copied().fold(f64::MAX, f64::min);
        let mean = watts.iter().sum::<f64>() / watts.len() as f64;
        let [click, napi] = &references.days;
        let path = click_micros() - micros(click.latency_mean_seconds);
        let (p99, ratio) = worst(&day);
        let saving = |over: &Report| 100.0 * (1.0 - day.energy_joules / over.energy_joules);
        let beside_napi = day.intervals.iter().zip(&napi.intervals);
        let dearer = beside_napi.filter(|(own, napi)| own.power_watts > napi.power_watts).count();
        let own = micros(day.latency_mean_seconds);
        Ok(Self {
            above_watts: gaps[0],
            below_watts: gaps[1],
            low_load,
            saving_click: saving(click),
            saving_napi: saving(napi),
            intervals_above_napi: dearer as u64,
            mean_micros: own + path,
            added_micros: own - micros(click.latency_mean_seconds),
            peak_micros: p99 + path,
            peak_over_mean: ratio,
            reordered: day.reordered_unless_held_packets,
            lost,
            burst_range: 100.0 * (greatest(&watts) - least) / mean,
            changes_per_second: changes,
            reaction_micros: micros(day.reaction_max_seconds),
        })
    }

    /// Returns the watts above the optimum from above, at the worst rate.
    pub fn worst_above(&self) -> f64 {
        greatest(&self.above_watts)
    }
}
