//! What a simulation of a request server is of.

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
    /// What is asked of it.
    pub requests: RequestSpec,
    /// The governor.
    pub policy: PolicySpec,
    /// Simulated time that is reported on.
    pub duration: Span,
    /// Simulated time before that, which is not.
    pub warmup: Span,
    /// Seed of arrivals, lengths and service times.
    pub seed: u64,
    /// Simulates so many cores with their share of the load, which stand for all: where all are
    /// set alike, one tells as much. `None` for all.
    pub cores: Option<usize>,
}

/// Why a request server cannot be simulated.
#[derive(Debug, Error)]
pub enum RequestError {
    /// Nothing would be simulated.
    #[error("duration: must be above zero, and with the warm-up at most 1 hour")]
    Duration,
    /// The server's file does not say what such a request costs.
    #[error(
        "server {server} has no cost of {workload} ([requests.{workload}] of its file); it has {known}"
    )]
    Workload {
        /// Name of the model.
        server: String,
        /// The workload.
        workload: &'static str,
        /// Those it has.
        known: String,
    },
    /// More responses than the link carries.
    #[error(
        "requests: {offered_gbps:.2} Gbit/s of responses are beyond the {link_gbps} Gbit/s of the \
         server's ports"
    )]
    BeyondLink {
        /// Bits of responses per second.
        offered_gbps: f64,
        /// Of all ports.
        link_gbps: f64,
    },
    /// The platform that follows from the server's file is none.
    #[error(transparent)]
    Platform(#[from] wattline_policy::PlatformError),
    /// The policy cannot be made for this server.
    #[error(transparent)]
    Policy(#[from] wattline_policy::SpecError),
    /// A grid without points.
    #[error("a profile needs at least one load above zero, one frequency and one period")]
    Grid,
}

/// Longest time that can be simulated.
const LONGEST: Span = Span::from_millis(3_600 * 1_000);

impl RequestSetting<'_> {
    /// Checks the times and gives the end of the run, in picoseconds.
    pub(super) fn check(&self) -> Result<u64, RequestError> {
        let end = self.warmup + self.duration;
        if self.duration == Span::ZERO || end > LONGEST {
            return Err(RequestError::Duration);
        }
        Ok(end.as_picos())
    }
}
