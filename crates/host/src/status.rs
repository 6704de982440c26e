//! The state of this machine's knobs, for statistics and metrics.

pub use wattline_status::{HostStatus as Status, Stuck};
