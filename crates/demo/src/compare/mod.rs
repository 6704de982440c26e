//! Sends the same real traffic through a router made of namespaces: forwarded first by the kernel,
//! then by Wattline's workers, then by its XDP programs. Without root, the traffic passes the graph
//! of Wattline between memory ports.

mod live;
mod memory;
mod mix;
mod namespaces;
mod notes;
mod pass;
mod report;
mod settings;

pub use report::{Report, Row};
pub use settings::Settings;

use crate::watch::Watch;
use wattline_testbed::Error;

/// Returns the number of stages of [`run`]: one for each forwarder.
pub fn stages() -> usize {
    if missing_namespaces_reason().is_some() { 1 } else { 3 }
}

/// Sends the traffic through every forwarder that this machine allows, each a stage of what is
/// watched.
///
/// # Errors
/// Fails when a capture cannot be read, or when a forwarder does not start.
pub fn run(settings: &Settings, watch: &Watch) -> Result<Report, Error> {
    if let Some(reason) = missing_namespaces_reason() {
        return memory::run(settings, reason, watch);
    }
    namespaces::run(settings, watch)
}

/// Reason why this process cannot build a router of namespaces; `None` if it can.
fn missing_namespaces_reason() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root: cannot build namespaces or open AF_XDP sockets".to_owned());
    }
    ["ip", "ethtool"].iter().find(|program| !wattline_testbed::command::installed(program)).map(
        |program| {
            format!(
                "`{program}` is not installed (`make tools` installs it): cannot build namespaces"
            )
        },
    )
}
