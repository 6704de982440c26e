//! Sends the same real traffic through a router made of namespaces: forwarded first by the kernel,
//! then by Wattline's workers, then by its XDP programs. Needs root.

mod live;
mod namespaces;
mod notes;
mod pass;
mod report;
mod settings;

pub use report::{Report, Row};
pub use settings::Settings;

use crate::watch::Watch;
use wattline_testbed::Error;

/// Returns the number of stages of [`run`]: one for each forwarder, or a single one for the reason
/// why there is none.
pub fn stages() -> usize {
    if missing_namespaces_reason().is_some() { 1 } else { 3 }
}

/// Sends the traffic through every forwarder; each is a stage of `watch`. If this process cannot
/// build the router, the report has the reason and no rows.
///
/// # Errors
/// Fails when a capture cannot be read, or when a forwarder does not start.
pub fn run(settings: &Settings, watch: &Watch) -> Result<Report, Error> {
    match missing_namespaces_reason() {
        None => namespaces::run(settings, watch),
        Some(reason) => {
            watch.begin("kernel and wattline");
            let note = format!("Not compared: {reason}. Run as root for the comparison.");
            Ok(Report { rows: Vec::new(), wattline: None, wattline_xdp: None, notes: vec![note] })
        }
    }
}

/// Returns the reason why this process cannot build a router of namespaces; `None` if it can.
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
