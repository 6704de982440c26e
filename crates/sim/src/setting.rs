//! Setting of a simulation.

use crate::error::SimError;
use wattline_policy::{BuildContext, Platform, PolicySpec};
use wattline_server::{Application, ServerModel};
use wattline_units::Span;

/// Description of a simulation without its packets.
#[derive(Debug, Clone)]
pub struct Setting<'a> {
    /// The server.
    pub server: &'a ServerModel,
    /// Application that handles each packet.
    pub application: Application,
    /// Policy that governs the server.
    pub policy: PolicySpec,
    /// Mean length of a packet in bytes, for policies that use a model.
    pub mean_bytes: u32,
    /// Simulated time that is reported on.
    pub duration: Span,
    /// Simulated time before the reported span.
    pub warmup: Span,
    /// Length of the reported intervals; `None` for a total only.
    pub interval: Option<Span>,
    /// Whether packets leave through output links of the server's rate, with one port per flow.
    /// Otherwise a packet has left when its core has finished it.
    pub output_links: bool,
    /// Seed of policy and service times; the traffic has its own seed.
    pub seed: u64,
    /// Whether to log all states of all cores. This is for tests and short plots, since the log
    /// grows with the simulated time.
    pub log_states: bool,
    /// Whether to measure the real time of the simulator's parts.
    pub profile: bool,
}

/// Longest time that can be simulated: sums in picoseconds stay far from their limits.
const LONGEST: Span = Span::from_millis(10 * 24 * 3_600 * 1_000);
const MOST_INTERVALS: u64 = 100_000;

impl Setting<'_> {
    /// Returns the context of a policy that is made for the simulated machine.
    pub(crate) fn context<'a>(&'a self, platform: &'a Platform) -> BuildContext<'a> {
        let cost = self.server.packet_cost(self.application, self.mean_bytes);
        BuildContext {
            platform,
            server: Some(self.server),
            packet: cost.map(|cost| (cost, self.mean_bytes)),
            seed: self.seed,
        }
    }

    /// Checks the times and returns the end of the run in picoseconds.
    pub(crate) fn check(&self) -> Result<u64, SimError> {
        let end = self.warmup + self.duration;
        if self.duration == Span::ZERO || end > LONGEST {
            return Err(SimError::Duration);
        }
        if let Some(interval) = self.interval
            && (interval > self.duration
                || interval < self.duration / MOST_INTERVALS
                || interval == Span::ZERO)
        {
            return Err(SimError::Interval);
        }
        Ok(end.as_picos())
    }
}
