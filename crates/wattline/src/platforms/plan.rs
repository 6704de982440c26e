//! Writes that the governor of a router would make on a machine, with reasons; nothing is written.

use super::host::options_of;
use wattline_host::PowerPlan;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::SpecError;
use wattline_router::config::{Config, PowerPlatform, XdpForwarding};
use wattline_server::ServerFile;

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy's text is invalid, or the policy cannot work on this machine.
    #[error("[power] policy: {0}")]
    Policy(#[from] SpecError),
    /// The server model cannot be used.
    #[error("[power] server: {0}")]
    Server(String),
    /// No policy can work on this machine.
    #[error("[power] {0}")]
    Machine(wattline_host::PlanError),
    /// Ports without an interface.
    #[error("{0}")]
    Interface(String),
}

impl From<wattline_host::PlanError> for PlanError {
    fn from(error: wattline_host::PlanError) -> Self {
        match error {
            wattline_host::PlanError::Policy(error) => Self::Policy(error),
            other => Self::Machine(other),
        }
    }
}

/// Returns the plan for a configuration on the machine of `tree`; `None` if the configuration has
/// no governor for it.
///
/// # Errors
/// [`PlanError`].
pub fn plan(config: &Config, tree: &Tree) -> Result<Option<PowerPlan>, PlanError> {
    match config.power.platform {
        PowerPlatform::None | PowerPlatform::Scale => return Ok(None),
        PowerPlatform::Host => {}
    }
    let spec = config.power.policies.parse(&config.power.policy)?;
    let counts = queues(config, tree)?;
    // A recording has no rights of its own: the router is assumed to run as root there.
    let present = if tree.is_live() { Rights::present() } else { Rights::ALL };
    // As for a router that opens interfaces.
    let opens_interfaces = config.ports.iter().any(|port| port.kind.taken_over().is_some());
    let rights = if opens_interfaces { present.after_drop() } else { present };
    let count = |port: usize| counts.get(port).copied().unwrap_or(1);
    // The path by which frames reach workers is known only once sockets are open.
    let by_xdp = config.router.xdp_forward != XdpForwarding::Off
        && opens_interfaces
        && config.obstacles_to_xdp_forwarding().is_empty();
    let options = options_of(config, tree, rights, count, by_xdp);
    let file = ServerFile::load(&config.power.server)
        .map_err(|error| PlanError::Server(error.to_string()))?;
    let server = file.model().map_err(|error| PlanError::Server(error.to_string()))?;
    Ok(Some(wattline_host::plan(&spec, server, config.power.seed.into(), options)?))
}

/// Returns the number of receive queues of each port, from sysfs; in a tree without them, of
/// channels.
fn queues(config: &Config, tree: &Tree) -> Result<Vec<u32>, PlanError> {
    let mut counts = Vec::new();
    let mut missing = Vec::new();
    for port in &config.ports {
        let Some(name) = port.kind.taken_over() else {
            counts.push(1);
            continue;
        };
        let found = tree.numbered(format!("/sys/class/net/{name}/queues"), "rx-").len();
        let channels = || tree.number::<u32>(format!("/ethtool/{name}/combined-channels")).ok();
        match u32::try_from(found).ok().filter(|count| *count > 0).or_else(channels) {
            Some(count) if count <= 4096 => counts.push(count),
            _ => missing.push(format!(
                "[[port]] {}: interface = \"{name}\": there is no such interface",
                port.name
            )),
        }
    }
    if missing.is_empty() { Ok(counts) } else { Err(PlanError::Interface(missing.join("\n"))) }
}
