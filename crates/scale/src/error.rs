//! Errors of emulated servers.

use wattline_cores::ModelError;

/// Reason why a server cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// Server, application and policy do not fit each other.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// More workers than the model has cores.
    #[error(
        "server {server} has {most} cores that forward packets, but there are {workers} workers: \
         1 to {most} are allowed"
    )]
    Workers {
        /// Name of the server model.
        server: String,
        /// Number of its cores.
        most: usize,
        /// Number of workers.
        workers: usize,
    },
    /// The system failed.
    #[error("emulating a server: {0}")]
    System(std::io::Error),
    /// A worker did not answer.
    #[error(
        "a worker sent no report: it has ended, or this machine is too busy to \
         emulate the server (a greater dilation needs less time)"
    )]
    Silent,
}
