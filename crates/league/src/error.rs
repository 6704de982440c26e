//! Errors of leagues.

use thiserror::Error;
use wattline_sim::SimError;
use wattline_traffic::capture::CaptureError;
use wattline_traffic::spec::BuildError;

/// Reason why a case cannot be played or computed.
#[derive(Debug, Error)]
pub enum LeagueError {
    /// The simulation cannot be run.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The packets cannot be generated or read.
    #[error("traffic: {0}")]
    Traffic(#[from] CaptureError),
    /// The traffic cannot be made from its description.
    #[error("traffic: {0}")]
    Build(#[from] BuildError),
    /// The bound does not hold for this server.
    #[error(
        "server {0}: its service times are random, so a lucky draw may take less energy than any \
         bound; allowed are servers with service_time = \"fixed\""
    )]
    RandomService(String),
    /// No packet can pass in time.
    #[error(
        "p99 = {budget}: no packet passes {server} in less than {least}; allowed is more than that"
    )]
    Budget {
        /// The budget as written.
        budget: String,
        /// Name of the server.
        server: String,
        /// Latency of an unhindered packet.
        least: String,
    },
    /// The server does not have the application.
    #[error("server {server} has no cost of {application}")]
    Application {
        /// Name of the server.
        server: String,
        /// Name of the application.
        application: String,
    },
    /// A league file cannot be read.
    #[error("league {place}: {problem}")]
    File {
        /// File, and place in it.
        place: String,
        /// Problem, and allowed values.
        problem: String,
    },
    /// Fields of a league file are wrong; lists all of them, each with its file.
    #[error("{}", .0.iter().map(|problem| format!("league {problem}")).collect::<Vec<_>>().join("\n"))]
    Plan(Vec<String>),
    /// A piece is not in the store, and playing it was not requested.
    #[error("the piece is not in the store")]
    Absent,
    /// A file of results cannot be written or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
}
