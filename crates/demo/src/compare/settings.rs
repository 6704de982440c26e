//! Settings of the comparison.

use std::path::PathBuf;
use wattline_testbed::forwarder::Mode;
use wattline_testbed::probe::Load;

/// Settings of the comparison.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mix of flows and sizes.
    pub load: Load,
    /// Captures to replay after the mix, each for the same time and at the same rate.
    pub captures: Vec<PathBuf>,
    /// Idle mode of Wattline's worker.
    pub mode: Mode,
    /// Path of the `wattline` program.
    pub binary: PathBuf,
}
