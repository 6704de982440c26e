//! Blocks: the time under one setting, without after-effects of the other.

use crate::trial::order::Order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure of a block other than its power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Figure {
    /// Work by a counter of the user's, per second.
    #[serde(rename = "counter_per_second")]
    Counter,
    /// Requests that a latency source counts, per second.
    #[serde(rename = "requests_rps")]
    Requests,
    /// Packets that arrive, per second.
    #[serde(rename = "packets_pps")]
    Packets,
    /// Cycles that busy CPUs run, per second.
    #[serde(rename = "busy_hertz")]
    BusyHertz,
    /// Busy CPU seconds per second.
    #[serde(rename = "busy_cpus")]
    BusyCpus,
    /// 99th percentile of the latency.
    #[serde(rename = "latency_p99_seconds")]
    Latency,
    /// Share of time in which some task waits for a CPU.
    #[serde(rename = "pressure_share")]
    Pressure,
    /// Share of time that tasks wait in the run queue of a CPU.
    #[serde(rename = "run_queue_delay_share")]
    RunQueueDelay,
    /// CPU seconds in soft interrupts per second.
    #[serde(rename = "softirq_cpus")]
    Softirq,
    /// Mean frequency of all CPUs.
    #[serde(rename = "frequency_hertz")]
    Frequency,
    /// Share of time that CPUs spend in their deepest idle state.
    #[serde(rename = "deepest_idle_share")]
    DeepestIdle,
    /// Power of the packages, where a meter sees them.
    #[serde(rename = "package_power_watts")]
    PackagePower,
    /// Power of the memory, where a meter sees it.
    #[serde(rename = "memory_power_watts")]
    MemoryPower,
}

impl Figure {
    /// Measures of work, the most significant first. Busy CPU seconds are none: they grow as the
    /// frequency falls.
    pub const WORK: [Self; 4] = [Self::Counter, Self::Requests, Self::Packets, Self::BusyHertz];
}

/// Counters of the machine at a moment of a block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Seconds since the block began.
    pub seconds: f64,
    /// Energy drawn, and the seconds that a meter has covered; `None` while no meter answers.
    pub energy: Option<Energy>,
    /// Integrals of the figures over time.
    pub integrals: BTreeMap<Figure, f64>,
}

/// The meters of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Names of the sensors.
    pub sensors: Vec<String>,
    /// Origin of their figures.
    pub source: String,
    /// Accuracy of their sum.
    pub accuracy: String,
}

/// Energy up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Energy {
    /// Joules.
    pub joules: f64,
    /// Seconds in which they were drawn.
    pub metered_seconds: f64,
    /// Seconds without any figure, because the meter was unavailable.
    pub unmetered_seconds: f64,
}

/// Means of a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Means {
    /// Power in watts.
    pub power_watts: f64,
    /// The other figures.
    #[serde(flatten)]
    pub figures: BTreeMap<Figure, f64>,
}

/// Power and work of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Power in watts.
    pub watts: f64,
    /// Work per second.
    pub work: f64,
}

/// Two neighbouring blocks, one under each setting, in the order in which they ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The setting that ran first.
    pub order: Order,
    /// The first block.
    pub first: Block,
    /// The second block.
    pub second: Block,
}

/// The smallest share of a block that a meter has to cover.
const LEAST_METERED: f64 = 0.8;

/// Returns the means between two readings. `None` if the meter was unavailable for more than a
/// fifth of the time, or no time has passed.
pub fn between(first: &Reading, last: &Reading) -> Option<Means> {
    let seconds = last.seconds - first.seconds;
    let (then, now) = (first.energy?, last.energy?);
    let metered = now.metered_seconds - then.metered_seconds;
    let away = now.unmetered_seconds - then.unmetered_seconds;
    let covered = metered >= LEAST_METERED * seconds && away <= (1.0 - LEAST_METERED) * seconds;
    let power_watts = (now.joules - then.joules) / metered;
    if seconds <= 0.0 || !covered || !power_watts.is_finite() {
        return None;
    }
    let mean = |(figure, now): (&Figure, &f64)| {
        let of_energy = matches!(figure, Figure::PackagePower | Figure::MemoryPower);
        let seconds = if of_energy { metered } else { seconds };
        let mean = (now - first.integrals.get(figure)?) / seconds;
        mean.is_finite().then_some((*figure, mean))
    };
    Some(Means { power_watts, figures: last.integrals.iter().filter_map(mean).collect() })
}

/// Returns the means of a block after a washout of this length, in which meter and machine still
/// show the previous setting. `None` as for [`between`].
pub fn means_after(readings: &[Reading], washout_seconds: f64) -> Option<Means> {
    let first = readings.iter().find(|reading| reading.seconds >= washout_seconds)?;
    between(first, readings.last()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a minute of readings; the meter is unavailable in some seconds.
    fn readings(watts: impl Fn(u32) -> Option<f64>) -> Vec<Reading> {
        let mut energy = Energy::default();
        let mut all = vec![Reading { energy: Some(energy), ..Reading::default() }];
        for second in 0..60 {
            match watts(second) {
                Some(watts) => {
                    energy.joules += watts;
                    energy.metered_seconds += 1.0;
                }
                None => energy.unmetered_seconds += 1.0,
            }
            let seconds = f64::from(second + 1);
            let integrals = BTreeMap::from([(Figure::Packets, 2.0 * seconds)]);
            all.push(Reading { seconds, energy: Some(energy), integrals });
        }
        all
    }

    #[test]
    fn block_leaves_its_washout_out_and_needs_its_meter() {
        let switched = readings(|second| Some(if second < 15 { 90.0 } else { 50.0 }));
        let figures = BTreeMap::from([(Figure::Packets, 2.0)]);
        let expected = Means { power_watts: 50.0, figures };
        assert_eq!(means_after(&switched, 15.0), Some(expected));
        let some_missing = readings(|second| (second % 10 != 0).then_some(50.0));
        assert_eq!(means_after(&some_missing, 15.0).unwrap().power_watts, 50.0);
        let away = readings(|second| (second < 45).then_some(50.0));
        assert_eq!(means_after(&away, 15.0), None);
        assert_eq!(means_after(&switched, 60.0), None, "nothing is left");
        assert_eq!(means_after(&readings(|_| Some(f64::NAN)), 0.0), None);
        let mut gone = switched;
        gone.last_mut().unwrap().energy = None;
        assert_eq!(means_after(&gone, 15.0), None);
        // A counter that stood still covers nothing.
        let still = readings(|second| (second < 20).then_some(50.0));
        let still: Vec<Reading> = (still.into_iter())
            .map(|mut one| {
                one.energy.iter_mut().for_each(|energy| energy.unmetered_seconds = 0.0);
                one
            })
            .collect();
        assert_eq!(means_after(&still, 15.0), None);
    }
}
