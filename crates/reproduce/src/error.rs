//! Errors of the reproduction.

use std::path::PathBuf;

/// Reasons why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// There is no paper or figure of this name.
    #[error("\"{0}\" is not a paper or figure that can be reproduced; allowed:{1}")]
    UnknownTarget(String, String),
    /// A figure has no traffic that could be replaced.
    #[error(
        "{figure}: has no traffic to replace: full load, steady rates, equations or other people's \
         measurements; figures with traffic: {with_traffic}"
    )]
    NoTraffic {
        /// The figure, or a whole paper.
        figure: String,
        /// Names of the figures that take a capture or rates.
        with_traffic: String,
    },
    /// The server model could not be loaded.
    #[error(transparent)]
    Server(#[from] wattline_server::LoadError),
    /// The measured costs of applications cannot be applied to the server model.
    #[error(transparent)]
    Costs(#[from] wattline_server::CostsError),
    /// The server model lacks parameters that are needed.
    #[error(transparent)]
    Incomplete(#[from] wattline_server::Incomplete),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] wattline_sim::SimError),
    /// A simulation of a request server failed.
    #[error(transparent)]
    Requests(#[from] wattline_sim::requests::RequestError),
    /// The policy to be compared is unknown.
    #[error(transparent)]
    Policy(#[from] wattline_policy::SpecError),
    /// The traffic of a figure could not be built.
    #[error(transparent)]
    Traffic(#[from] wattline_traffic::spec::BuildError),
    /// A fit failed.
    #[error(transparent)]
    Fit(#[from] wattline_study::fit::FitError),
    /// A step could not get a value from the model.
    #[error("{0}")]
    Model(String),
    /// The shipped table of claims is malformed.
    #[error("crates/reproduce/published/claims.csv: {0}")]
    Claims(#[from] csv::Error),
    /// A result could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}
