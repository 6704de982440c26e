//! Simulations of readings and of their references.

use super::super::bench::{Job, content, simulate};
use super::super::day::{self, BYTES, capacities};
use super::steady::Stairs;
use crate::error::ReproduceError;
use wattline_server::{Application, ServerModel};
use wattline_sim::Report;
use wattline_traffic::Popularity;
use wattline_traffic::source::{Links, Modulated, OnOff, Rate, TrainShape};
use wattline_units::Span;

/// Steady rates in Mpps; the first is for the claim about low load, the others for the optimum.
pub(super) const STEADY: [f64; 5] = [1.0, 6.0, 12.0, 18.0, 24.0];
/// Rates before them in Mpps: from above and from below.
pub(super) const ABOVE: f64 = 26.0;
pub(super) const BELOW: f64 = 0.01;
/// Lengths of bursts in packets.
const BURSTS: [u32; 5] = [1, 8, 32, 128, 512];

/// Length of the simulations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// For all readings: steady rates in one run, a day of 2 s, one draw of bursts.
    Short,
    /// For the best readings: a run for each steady rate, a day of 8 s, four draws.
    Long,
}

/// Milliseconds at the previous rate, to settle, and measured.
struct Steps {
    holds: u64,
    settles: u64,
    measured: u64,
}

impl RunLength {
    fn steps(self) -> Steps {
        match self {
            Self::Short => Steps { holds: 20, settles: 30, measured: 10 },
            Self::Long => Steps { holds: 60, settles: 120, measured: 40 },
        }
    }

    fn day_seconds(self) -> f64 {
        if self == Self::Short { 2.0 } else { 8.0 }
    }

    fn draws(self) -> u64 {
        if self == Self::Short { 1 } else { 4 }
    }
}

/// Result of bursts of one length.
pub(super) struct Burst {
    /// Mean power over the draws.
    pub(super) watts: f64,
    /// Packets dropped in all draws.
    pub(super) dropped: u64,
}

/// Simulations with a run length and a seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    pub(super) length: RunLength,
    pub(super) seed: u64,
}

impl Runs {
    /// Returns reports at the [`STEADY`] rates, in their order, after a rate of `before` Mpps.
    pub(super) fn steady(
        &self,
        server: &ServerModel,
        policy: &str,
        before: f64,
    ) -> Result<Vec<Report>, ReproduceError> {
        if self.length == RunLength::Long {
            let each = |mpps: &f64| self.stairs(server, policy, before, &[*mpps]);
            return Ok(STEADY.iter().map(each).collect::<Result<Vec<_>, _>>()?.concat());
        }
        let mut rates = STEADY;
        if before > rates[0] {
            rates.reverse();
        }
        let mut reports = self.stairs(server, policy, before, &rates)?;
        if before > rates[rates.len() - 1] {
            reports.reverse();
        }
        Ok(reports)
    }

    /// Returns the report at a rate without a previous one.
    pub(super) fn alone(
        &self,
        server: &ServerModel,
        policy: &str,
        mpps: f64,
    ) -> Result<Report, ReproduceError> {
        let report = self.stairs(server, policy, mpps, &[mpps])?.pop();
        report.ok_or_else(|| ReproduceError::Model("a steady rate was not simulated".into()))
    }

    /// Returns reports of the measured parts of consecutive rates.
    fn stairs(
        &self,
        server: &ServerModel,
        policy: &str,
        before: f64,
        mpps: &[f64],
    ) -> Result<Vec<Report>, ReproduceError> {
        let Steps { holds, settles, measured } = self.length.steps();
        let each = settles + measured;
        let mut steps = vec![(before * 1e6, holds as f64 * 1e-3)];
        steps.extend(mpps.iter().map(|mpps| (mpps * 1e6, each as f64 * 1e-3)));
        let mut source =
            Modulated::new(Stairs::new(steps), content(64, Popularity::Uniform), self.seed);
        let job = Job {
            policy,
            application: Application::Ipv4,
            bytes: 64,
            duration: Span::from_millis(each * mpps.len() as u64),
            warmup: Span::from_millis(holds),
            interval: Some(Span::from_millis(measured)),
            output_links: false,
        };
        let report = simulate(server, &job, &mut source)?;
        // Only the last interval of each step is measured; the step has settled by then.
        let of_step = (each / measured) as usize;
        let last: Vec<Report> =
            report.intervals.into_iter().skip(of_step - 1).step_by(of_step).collect();
        if last.len() == mpps.len() {
            return Ok(last);
        }
        Err(ReproduceError::Model(format!("{} of {} steady rates", last.len(), mpps.len())))
    }

    pub(super) fn day(&self, server: &ServerModel, policy: &str) -> Result<Report, ReproduceError> {
        let seconds = self.length.day_seconds();
        let (capacity, _) = capacities(server, Application::Ipv4, BYTES)?;
        let job = day::job(policy, Application::Ipv4, seconds);
        let mut source =
            day::packets_seeded(capacity, day::BYTES, seconds, TrainShape::NONE, self.seed);
        simulate(server, &job, source.as_mut())
    }

    pub(super) fn bursts(
        &self,
        server: &ServerModel,
        policy: &str,
    ) -> Result<Vec<Burst>, ReproduceError> {
        let links = Links { overhead: 20, ..Links::POWERSAVE };
        let content = content(BYTES, Popularity::Uniform);
        let (draws, short) = (self.length.draws(), self.length == RunLength::Short);
        let mut lengths = Vec::new();
        for burst in BURSTS {
            let mut length = Burst { watts: 0.0, dropped: 0 };
            for draw in 0..draws {
                // The draws of two seeds are disjoint.
                let seed = self.seed * 16 + draw;
                let mut source = OnOff::new(Rate::Bits(10e9), burst, links, &content, seed);
                let job = Job {
                    policy,
                    application: Application::Ipv4,
                    bytes: BYTES,
                    duration: Span::from_millis(if short { 50 } else { 200 }),
                    warmup: Span::from_millis(if short { 30 } else { 60 }),
                    interval: None,
                    output_links: false,
                };
                let report = simulate(server, &job, &mut source)?;
                length.watts += report.power_watts / draws as f64;
                length.dropped += report.dropped_packets;
            }
            lengths.push(length);
        }
        Ok(lengths)
    }
}
