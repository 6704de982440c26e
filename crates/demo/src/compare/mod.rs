//! The same real traffic through a router made of namespaces, first by the
//! kernel, then by Wattline's workers, then by its XDP programs; without root, through Wattline's graph between memory ports.

mod live;
mod memory;
mod mix;
mod namespaces;
mod notes;
mod passage;
mod report;
mod settings;

pub use report::{Report, Row};
pub use settings::Settings;

use wattline_testbed::Error;

/// Forwards the traffic by every forwarder that this machine allows.
///
/// # Errors
/// When a capture cannot be read, or a forwarder does not come up.
pub fn run(settings: &Settings) -> Result<Report, Error> {
    if let Some(reason) = why_no_namespaces() {
        return memory::run(settings, reason);
    }
    namespaces::run(settings)
}

/// Why this process cannot build a router out of namespaces; `None` when it can.
fn why_no_namespaces() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root: no namespaces can be built and no AF_XDP socket opened".to_owned());
    }
    ["ip", "ethtool"].iter().find(|program| !wattline_testbed::command::installed(program)).map(|program| {
        format!(
            "`{program}` is not installed (`make tools` installs it): no namespaces can be built"
        )
    })
}
