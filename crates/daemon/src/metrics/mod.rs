//! Metrics of a daemon for Prometheus: the text format, the endpoint, and the families that all
//! governed machines have.

mod build;
mod exposition;
pub mod http;
mod log;
mod power;

pub use build::build_info;
pub use exposition::{Exposition, Kind};
pub use log::log_lines_lost;
pub use power::write_governor;
