//! What is compared, and under which traffic.

use std::path::PathBuf;
use wattline_testbed::forwarder::Mode;
use wattline_testbed::probe::Load;

/// What to demonstrate.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mix of flows and sizes.
    pub load: Load,
    /// Captures to replay after it, each for as long and at the same rate.
    pub captures: Vec<PathBuf>,
    /// What Wattline's worker does when there is no work.
    pub mode: Mode,
    /// The `wattline` program.
    pub binary: PathBuf,
}
