//! Result of one run of a sweep.

use schemars::JsonSchema;
use serde::Serialize;
use wattline_server::Application;
use wattline_sim::Report;

/// A run and its report.
#[derive(Serialize, JsonSchema)]
pub struct Row {
    pub server: String,
    pub policy: String,
    pub traffic: String,
    pub application: Application,
    pub seed: u64,
    #[serde(flatten)]
    pub report: Report,
    /// Equal parts of its time, for traffic that is the same with each seed.
    #[serde(skip)]
    pub parts: Vec<Report>,
}
