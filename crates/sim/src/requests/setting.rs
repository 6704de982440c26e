//! Setting of a simulation of a request server.

use thiserror::Error;
use wattline_policy::PolicySpec;
use wattline_server::RequestServer;
use wattline_traffic::requests::RequestSpec;
use wattline_units::Span;

/// One simulation of a request server.
#[derive(Debug, Clone)]
pub struct RequestSetting<'a> {
    /// The server.
    pub server: &'a RequestServer,
    /// Requests sent to the server.
    pub requests: RequestSpec,
    /// Policy that governs the server.
    pub policy: PolicySpec,
    /// Simulated time that is reported on.
    pub duration: Span,
    /// Simulated time before the reported span.
    pub warmup: Span,
    /// Seed of arrivals, lengths and service times.
    pub seed: u64,
    /// Number of cores to simulate with their share of the load; they stand for all cores. If all
    /// have the same setting, one is enough. `None` for all.
    pub cores: Option<usize>,
}

/// Reason why a request server cannot be simulated.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The simulated time is zero or too long.
    #[error("duration: must be above zero, and with the warm-up at most 1 hour")]
    Duration,
    /// The server file has no cost for such a request.
    #[error(
        "server {server} has no cost of {workload} ([requests.{workload}] of its file); it has {known}"
    )]
    Workload {
        /// Name of the server model.
        server: String,
        /// The workload.
        workload: &'static str,
        /// Workloads with a cost.
        known: String,
    },
    /// The responses exceed the capacity of the link.
    #[error(
        "requests: {offered_gbps:.2} Gbit/s of responses are beyond the {link_gbps} Gbit/s of the \
         server's ports"
    )]
    BeyondLink {
        /// Rate of the responses in Gbit/s.
        offered_gbps: f64,
        /// Capacity of all ports in Gbit/s.
        link_gbps: f64,
    },
    /// The server file describes no valid platform.
    #[error(transparent)]
    Platform(#[from] wattline_policy::PlatformError),
    /// The policy cannot be built for this server.
    #[error(transparent)]
    Policy(#[from] wattline_policy::SpecError),
    /// The grid has no points.
    #[error("a profile needs at least one load above zero, one frequency and one period")]
    Grid,
}

/// Longest time that can be simulated.
const LONGEST: Span = Span::from_millis(3_600 * 1_000);

impl RequestSetting<'_> {
    /// Checks the times and returns the end of the run in picoseconds.
    pub(super) fn check(&self) -> Result<u64, RequestError> {
        let end = self.warmup + self.duration;
        if self.duration == Span::ZERO || end > LONGEST {
            return Err(RequestError::Duration);
        }
        Ok(end.as_picos())
    }
}
