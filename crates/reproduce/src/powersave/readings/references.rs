//! References for readings, on the same packets: the optimum, polling and NAPI-Click.

use super::super::bench::{ipv4, napping, server};
use super::runs::{RunLength, Runs, STEADY};
use crate::error::ReproduceError;
use crate::inputs::Inputs;
use crate::runner::side_by_side;
use wattline_server::ServerModel;
use wattline_sim::Report;
use wattline_study::optimise::{LoadedServer, cheapest};
use wattline_units::PacketsPerSecond;

/// Fixed points and baselines with one run length and one seed.
#[derive(Debug)]
pub struct References {
    pub(super) server: ServerModel,
    /// Watts of the cheapest fixed point by steady rate.
    pub(super) optimum: Vec<f64>,
    /// Watts of polling at the lowest steady rate.
    pub(super) polling: f64,
    /// The day under polling, and under NAPI-Click.
    pub(super) days: [Report; 2],
    pub(super) runs: Runs,
}

enum Job {
    /// A policy at a steady rate in Mpps.
    Steady(String, f64),
    Day(&'static str),
}

impl References {
    /// Simulates the references.
    ///
    /// # Errors
    /// When a simulation fails.
    pub fn new(length: RunLength, seed: u64) -> Result<Self, ReproduceError> {
        let server = server(&Inputs::default())?;
        let runs = Runs { length, seed };
        let cost = ipv4(&server)?;
        let loaded = LoadedServer { model: &server, cost, frame_bytes: 64 };
        let mut jobs =
            vec![Job::Day("poll"), Job::Day("napi"), Job::Steady("poll".into(), STEADY[0])];
        for mpps in STEADY {
            let best = cheapest(&loaded, PacketsPerSecond::from_mpps(mpps), None);
            let best = best.map_err(|error| ReproduceError::Model(error.to_string()))?;
            jobs.push(Job::Steady(napping(best.cores, best.frequency, "C1"), mpps));
        }
        let missing = || ReproduceError::Model("a baseline was not simulated".into());
        let mut reports = side_by_side(&jobs, |job| match job {
            Job::Steady(policy, mpps) => runs.alone(&server, policy, *mpps),
            Job::Day(policy) => runs.day(&server, policy),
        })?
        .into_iter();
        let mut next = || reports.next().ok_or_else(missing);
        let days = [next()?, next()?];
        let polling = next()?.power_watts;
        let optimum = reports.map(|report| report.power_watts).collect();
        Ok(Self { server, optimum, polling, days, runs })
    }
}
