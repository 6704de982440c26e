//! The log of a daemon, for Prometheus.

use super::exposition::{Exposition, Kind};

/// Writes the number of lost log lines.
pub fn log_lines_lost(to: &mut Exposition, count: u64) {
    let help = "Lines of the log that could not be written to standard error.";
    to.single_family("wattline_log_lines_lost_total", Kind::Counter, help, count as f64);
}
