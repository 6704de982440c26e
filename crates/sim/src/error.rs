//! Errors of the simulation.

use thiserror::Error;
use wattline_cores::ModelError;
use wattline_traffic::capture::CaptureError;

/// Reasons why a simulation cannot run.
#[derive(Debug, Error)]
pub enum SimError {
    /// The simulated time is zero or too long.
    #[error("duration: must be above zero, and with the warm-up at most 10 days")]
    Duration,
    /// The interval is too short or too long for the duration.
    #[error("interval: must be between a 100000th of the duration and the duration")]
    Interval,
    /// Server, application and policy do not fit each other.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The policy needs information that NAPI polls do not provide.
    #[error(
        "policy: it cannot govern where the kernel or XDP programs forward: {0}; use path workers"
    )]
    Path(String),
    /// The traffic exceeds the capacity of the links.
    #[error(
        "traffic: {offered_gbps:.3} Gbit/s are beyond the links of server {server}: at most \
         {most_gbps:.3} Gbit/s ({ports} ports)"
    )]
    BeyondLinks {
        /// Mean rate of the traffic in Gbit/s.
        offered_gbps: f64,
        /// Capacity of all links in Gbit/s.
        most_gbps: f64,
        /// Number of ports of the server.
        ports: usize,
        /// Name of the server model.
        server: String,
    },
    /// The traffic cannot be built from its description.
    #[error("traffic: {0}")]
    Source(#[from] wattline_traffic::spec::BuildError),
    /// The traffic ends before the measurement begins.
    #[error(
        "traffic: its last packet comes {ends_seconds} s after the start, within the warm-up of \
         {warmup_seconds} s, so that nothing is measured; shorten the warm-up or repeat the traffic \
         (loop=true)"
    )]
    EndsInWarmUp {
        /// Time of the last packet since the start.
        ends_seconds: f64,
        /// Length of the warm-up.
        warmup_seconds: f64,
    },
    /// A replayed capture has no packet in the measured span.
    #[error(
        "traffic: the capture has no packet from {from_seconds} s to {until_seconds} s after the start, \
         so that nothing is measured; lengthen the duration, change the warm-up, or replay it at a \
         rate (rate=1Mpps), which shortens its gaps"
    )]
    NothingMeasured {
        /// End of the warm-up.
        from_seconds: f64,
        /// End of the measurement.
        until_seconds: f64,
    },
    /// The capture with the packets cannot be read.
    #[error("traffic: {0}")]
    Traffic(#[from] CaptureError),
}
