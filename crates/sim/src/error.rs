//! What can be wrong with a simulation.

use thiserror::Error;
use wattline_policy::{PlatformError, SpecError};
use wattline_server::{Application, ServerModel};
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
    /// The server file gives no cost of this application.
    #[error("application \"{application}\": server {server} gives no cost for it (it has {known})")]
    Application {
        /// What was asked for.
        application: Application,
        /// Name of the server model.
        server: String,
        /// Applications that it has.
        known: String,
    },
    /// The server model is one that no policy could govern.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The policy cannot be made for this server.
    #[error(transparent)]
    Policy(#[from] SpecError),
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

impl SimError {
    pub(crate) fn no_application(server: &ServerModel, application: Application) -> Self {
        let known: Vec<&str> = server.applications.keys().map(|known| known.name()).collect();
        Self::Application { application, server: server.name.clone(), known: known.join(", ") }
    }
}
