//! What can go wrong.

use std::path::PathBuf;

/// Why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No paper or figure of this name.
    #[error("\"{0}\" is no paper or figure that can be reproduced; allowed:{1}")]
    UnknownTarget(String, String),
    /// The model of the server could not be had.
    #[error(transparent)]
    Server(#[from] wattline_server::LoadError),
    /// Measured costs of applications say nothing of the server.
    #[error(transparent)]
    Costs(#[from] wattline_server::CostsError),
    /// The model of the server lacks figures.
    #[error(transparent)]
    Incomplete(#[from] wattline_server::Incomplete),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] wattline_sim::SimError),
    /// A simulation of a request server failed.
    #[error(transparent)]
    Requests(#[from] wattline_sim::requests::RequestError),
    /// A policy of the comparison is not known.
    #[error(transparent)]
    Policy(#[from] wattline_policy::SpecError),
    /// The traffic of a figure could not be made.
    #[error(transparent)]
    Traffic(#[from] wattline_traffic::spec::BuildError),
    /// A fit failed.
    #[error(transparent)]
    Fit(#[from] wattline_server::fit::FitError),
    /// A step did not get what it needs from the model.
    #[error("{0}")]
    Model(String),
    /// The table of claims that is shipped is broken.
    #[error("published/claims.csv: {0}")]
    Claims(#[from] csv::Error),
    /// A result could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}
