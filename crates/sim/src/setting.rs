//! What a simulation is of.

use crate::error::SimError;
use wattline_policy::PolicySpec;
use wattline_server::{Application, ServerModel};
use wattline_units::Span;

/// One simulation, but for its packets.
#[derive(Debug, Clone)]
pub struct Setting<'a> {
    /// The server.
    pub server: &'a ServerModel,
    /// What it does with each packet.
    pub application: Application,
    /// The governor.
    pub policy: PolicySpec,
    /// Mean length of a packet in bytes, for policies that reckon with a model.
    pub mean_bytes: u32,
    /// Simulated time that is reported on.
    pub duration: Span,
    /// Simulated time before that, which is not.
    pub warmup: Span,
    /// Length of the reported intervals; `None` for the total alone.
    pub interval: Option<Span>,
    /// Whether packets leave by output links of the server's rate, each flow by one of the
    /// ports; otherwise a packet has left when its core is done with it.
    pub output_links: bool,
    /// Seed of policy and service times (the traffic has its own).
    pub seed: u64,
    /// Whether to keep a log of all states of all cores: for tests and short plots, since
    /// its length grows with the simulated time.
    pub log_states: bool,
    /// Whether to measure where the time of the simulator itself goes.
    pub profile: bool,
}

/// Longest time that can be simulated: sums in picoseconds stay far from their limits.
const LONGEST: Span = Span::from_millis(10 * 24 * 3_600 * 1_000);
const MOST_INTERVALS: u64 = 100_000;

impl Setting<'_> {
    /// Checks the times and gives the end of the run, in picoseconds.
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
