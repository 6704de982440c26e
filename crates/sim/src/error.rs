//! What can be wrong with a simulation.

use thiserror::Error;
use wattline_cores::ModelError;
use wattline_traffic::capture::CaptureError;

/// Why a simulation cannot be run.
#[derive(Debug, Error)]
pub enum SimError {
    /// Nothing would be simulated.
    #[error("duration: must be above zero, and with the warm-up at most 10 days")]
    Duration,
    /// An interval of no length.
    #[error("interval: must be between a 100000th of the duration and the duration")]
    Interval,
    /// The server, the application or the policy are not fit for each other.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// More traffic than the links carry.
    #[error(
        "traffic: {offered_gbps:.3} Gbit/s are beyond the links of server {server}: at most \
         {most_gbps:.3} Gbit/s ({ports} ports)"
    )]
    BeyondLinks {
        /// Mean rate of the traffic.
        offered_gbps: f64,
        /// What all links carry.
        most_gbps: f64,
        /// Ports of the server.
        ports: usize,
        /// Name of the server model.
        server: String,
    },
    /// The traffic cannot be made from its description.
    #[error("traffic: {0}")]
    Source(#[from] wattline_traffic::spec::BuildError),
    /// The packets come from a file that cannot be read.
    #[error("traffic: {0}")]
    Traffic(#[from] CaptureError),
}
