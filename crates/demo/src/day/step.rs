//! A step of load, and the reaction of a policy.

use super::settings::Settings;
use crate::error::Error;
use crate::scale::{self, Plan};
use serde::Serialize;
use wattline_traffic::capture::CaptureError;
use wattline_traffic::{Block, Source, Spec};
use wattline_units::{Span, Time};

/// Load before and after the step, as shares of the links.
const LOW: u32 = 5;
const HIGH: u32 = 60;
/// Model times: ignored at first, then before the step, then after it; and length of an interval.
const SETTLING: Span = Span::from_micros(500);
const BEFORE: Span = Span::from_micros(1_000);
const AFTER: Span = Span::from_micros(4_000);
const INTERVAL: Span = Span::from_micros(100);
/// Share of the final capacity at which it counts as reached.
const REACHED: f64 = 0.9;

/// Reaction of a policy to a step of load. Times are model time, up to the end of an interval.
#[derive(Debug, Clone, Serialize)]
pub struct Reaction {
    /// Load before the step, as a share of the links.
    pub low_load_ratio: f64,
    /// Load after the step, as a share of the links.
    pub high_load_ratio: f64,
    /// Resolution of the following times.
    pub resolution_seconds: f64,
    /// Time from the step to the first growth of capacity (active cores times frequency).
    pub first_change_seconds: Option<f64>,
    /// Time from the step until capacity stayed above nine tenths of the final one.
    pub settled_seconds: Option<f64>,
    /// The simulator's value of `settled_seconds`.
    pub simulated_settled_seconds: Option<f64>,
    /// Packets dropped because a ring was full.
    pub dropped_packets: u64,
    /// Longest latency.
    pub latency_max_seconds: Option<f64>,
    /// Operating point by interval.
    pub points: Vec<Point>,
    /// Operating point by interval in the simulator.
    pub simulated_points: Vec<Point>,
}

/// Mean operating point in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Time from the step to the end of the interval; negative before the step.
    pub after_step_seconds: f64,
    /// Mean number of active cores.
    pub cores_active_mean: f64,
    /// Mean frequency of the active cores.
    pub frequency_mean_hertz: f64,
}

impl Point {
    fn new((from, duration): (f64, f64), cores: f64, frequency: f64) -> Self {
        Self {
            after_step_seconds: from + duration - (SETTLING + BEFORE).as_seconds(),
            cores_active_mean: cores,
            frequency_mean_hertz: frequency,
        }
    }

    /// Returns the capacity: cycles per second of all active cores.
    fn capacity(&self) -> f64 {
        self.cores_active_mean * self.frequency_mean_hertz
    }
}

/// Runs a step under the plan's policy, in the simulator and on `scale`; `None` for a policy that
/// does not react to the step.
pub(super) fn run(settings: &Settings, day: &Plan) -> Result<Option<Reaction>, Error> {
    let plan = Plan {
        setting: day.setting.clone(),
        duration: BEFORE + AFTER,
        warmup: SETTLING,
        interval: INTERVAL,
    };
    let setting = plan.simulated(Some(plan.interval));
    let simulated = wattline_sim::run(&setting, source(settings)?.as_mut())?;
    let simulated_points: Vec<Point> = (simulated.intervals.iter())
        .map(|i| {
            Point::new(
                (i.from_seconds, i.duration_seconds),
                i.cores_active_mean,
                i.frequency_mean_hertz,
            )
        })
        .collect();
    if first_change(&simulated_points).is_none() {
        return Ok(None);
    }
    let outcome = scale::run(&plan, source(settings)?, |_, _| {})?;
    let points: Vec<Point> = (outcome.record.intervals.iter())
        .map(|i| {
            Point::new(
                (i.from_seconds, i.duration_seconds),
                i.cores_active_mean,
                i.frequency_mean_hertz,
            )
        })
        .collect();
    Ok(Some(Reaction {
        low_load_ratio: f64::from(LOW) / 100.0,
        high_load_ratio: f64::from(HIGH) / 100.0,
        resolution_seconds: INTERVAL.as_seconds(),
        first_change_seconds: first_change(&points),
        settled_seconds: settled(&points),
        simulated_settled_seconds: settled(&simulated_points),
        dropped_packets: outcome.delivery.dropped_packets,
        latency_max_seconds: outcome
            .record
            .whole
            .latency
            .map(|latency| latency.latency_max_seconds),
        points,
        simulated_points,
    }))
}

/// Returns the end of the first interval after the step in which capacity exceeded all values
/// before it.
fn first_change(points: &[Point]) -> Option<f64> {
    let before = points.iter().filter(|point| point.after_step_seconds <= 1e-9);
    let most = before.map(Point::capacity).fold(0.0, f64::max);
    let after = points.iter().filter(|point| point.after_step_seconds > 1e-9);
    after.clone().find(|point| point.capacity() > most * 1.02).map(|point| point.after_step_seconds)
}

/// Returns the end of the first interval after the step from which on capacity stays near the mean
/// of the last quarter; `None` if it hardly grew.
fn settled(points: &[Point]) -> Option<f64> {
    first_change(points)?;
    let after: Vec<&Point> = points.iter().filter(|p| p.after_step_seconds > 1e-9).collect();
    let last = &after[after.len() - (after.len() / 4).max(1).min(after.len())..];
    let last_mean = last.iter().map(|point| point.capacity()).sum::<f64>() / last.len() as f64;
    let below = after.iter().rposition(|point| point.capacity() < REACHED * last_mean);
    after.get(below.map_or(0, |index| index + 1)).map(|point| point.after_step_seconds)
}

fn source(settings: &Settings) -> Result<Box<dyn Source>, Error> {
    let build = |load: u32| {
        let text = format!("poisson:{load}%,size={}", settings.size);
        let spec = Spec::parse(&text).map_err(|error| wattline_testbed::Error::Data {
            path: "traffic".into(),
            reason: error.to_string(),
        })?;
        Ok::<_, Error>(spec.build(settings.seed).map_err(wattline_sim::SimError::from)?)
    };
    Ok(Box::new(Step {
        stages: [build(LOW)?, build(HIGH)?],
        at: Time::ZERO + SETTLING + BEFORE,
        stage: 0,
        block: Block::new(),
        next: 0,
    }))
}

/// One source up to a given time, then another from its beginning.
struct Step {
    stages: [Box<dyn Source>; 2],
    at: Time,
    stage: usize,
    block: Block,
    next: usize,
}

impl Source for Step {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        while !out.is_full() {
            let Some(packet) = self.block.get(self.next).copied() else {
                self.stages[self.stage].next_block(&mut self.block)?;
                self.next = 0;
                if self.block.is_empty() {
                    return Ok(());
                }
                continue;
            };
            self.next += 1;
            let mut packet = packet;
            if self.stage == 1 {
                packet.picos = packet.picos.saturating_add(self.at.as_picos());
            } else if packet.time() >= self.at {
                self.stage = 1;
                self.block.clear();
                self.next = 0;
                continue;
            }
            out.push(packet);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn load_steps_up_at_its_time() {
        let settings =
            crate::day::settings::tests::settings(&["poll"], 500, Duration::from_secs(1));
        let mut source = source(&settings).unwrap();
        let (at, mut last) = (Time::ZERO + SETTLING + BEFORE, Time::ZERO);
        let (mut before, mut after) = (0u32, 0u32);
        let mut block = Block::new();
        let end = at + BEFORE + SETTLING;
        while last < end {
            source.next_block(&mut block).unwrap();
            for packet in block.iter() {
                assert!(packet.time() >= last);
                last = packet.time();
                before += u32::from(packet.time() < at);
                after += u32::from(packet.time() >= at && packet.time() < end);
            }
        }
        let factor = f64::from(after) / f64::from(before);
        let wanted = f64::from(HIGH) / f64::from(LOW);
        assert!((factor / wanted - 1.0).abs() < 0.3, "{before} then {after}");
    }

    #[test]
    fn reactions_are_computed_from_points() {
        let point = |time: f64, cores: f64| Point {
            after_step_seconds: time,
            cores_active_mean: cores,
            frequency_mean_hertz: 1e9,
        };
        let mut points = vec![point(-1.0, 1.0), point(0.0, 1.0), point(1.0, 1.0), point(2.0, 3.0)];
        points.extend((3..20).map(|time| point(f64::from(time), 8.0)));
        assert_eq!((first_change(&points), settled(&points)), (Some(2.0), Some(3.0)));
        let flat = vec![point(0.0, 12.0), point(1.0, 12.0)];
        assert_eq!((first_change(&flat), settled(&flat)), (None, None));
        assert_eq!(settled(&[]), None);
    }
}
