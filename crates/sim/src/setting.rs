//! Setting of a simulation.

use crate::error::SimError;
use crate::knobs::KnobBehaviour;
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
    /// True if packets leave through output links of the server's rate, with one port per flow.
    /// Otherwise a packet has left when its core has finished it.
    pub output_links: bool,
    /// Seed of policy and service times; the traffic has its own seed.
    pub seed: u64,
    /// True to log all states of all cores. This is for tests and short plots, since the log grows
    /// with the simulated time.
    pub log_states: bool,
    /// True to measure the real time of the simulator's parts.
    pub profile: bool,
    /// Behaviour of the server's knobs.
    pub knobs: KnobBehaviour,
    /// Latencies above which packets are counted exactly: above the first one in
    /// [`crate::Report::late_packets`], above the others in
    /// [`crate::Report::late_packets_further`].
    pub late_after: Vec<Span>,
    /// Sampling period of the latency: only the first packet that leaves in each period is
    /// measured, as by a tester that sends probes. `None` measures every packet.
    pub sample: Option<Span>,
}

/// Longest time that can be simulated: sums in picoseconds stay far from their limits.
const LONGEST: Span = Span::from_millis(10 * 24 * 3_600 * 1_000);
const MOST_INTERVALS: u64 = 100_000;

impl<'a> Setting<'a> {
    /// Creates a setting with IPv4 packets of 64 bytes, on ideal knobs and without output links,
    /// reported as a whole from the start.
    pub fn new(server: &'a ServerModel, policy: PolicySpec, duration: Span) -> Self {
        Self {
            server,
            application: Application::Ipv4,
            policy,
            mean_bytes: 64,
            duration,
            warmup: Span::ZERO,
            interval: None,
            output_links: false,
            seed: 1,
            log_states: false,
            profile: false,
            knobs: KnobBehaviour::default(),
            late_after: Vec::new(),
            sample: None,
        }
    }

    /// Returns the context of a policy that is built for the simulated machine.
    pub(crate) fn context<'b>(&'b self, platform: &'b Platform) -> BuildContext<'b> {
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
