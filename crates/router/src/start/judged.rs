//! Third phase: the applications, and the ports that are left to the kernel because it would do
//! more with their packets than route.

use super::super::error::RouterError;
use super::super::takeover::{self, ForwardPathMonitor};
use super::known::Known;
use super::settled::Settled;
use crate::application::{self, Application, Applications};
use crate::config::Config;
use crate::port::Port;
use crate::port::guard::Guard;
use std::time::Instant;
use wattline_dataplane::port::PortId;

/// Applications, and their effects on the ports.
pub(super) struct Judged {
    pub applications: Vec<Box<dyn Application>>,
    /// Ports with an interface, with their guards; none is open yet.
    pub ports: Vec<Port>,
    /// Monitor of the kernel's other treatments of packets, if there are interfaces.
    pub monitor: Option<ForwardPathMonitor>,
}

impl Judged {
    /// Starts the applications and checks the kernel's other treatments of packets.
    ///
    /// # Errors
    /// When an application fails, or a port would be left to the kernel that must not be.
    pub fn new(
        settled: &Settled,
        known: &Known,
        applications: Applications,
    ) -> Result<Self, RouterError> {
        let config = &settled.config;
        let applications = application::start(applications, config)?;
        let guards = applications.iter().any(|it| it.guards());
        let ports = || (0..config.ports.len() as u16).map(PortId);
        let with_interface =
            ports().filter(|port| config.ports[usize::from(port.0)].kind.taken_over().is_some());
        let port = |port| Port::new(port, config, Guard::new(config, port, &applications));
        let of_interfaces: Vec<Port> = with_interface.map(port).collect();
        let strictest = |port| applications.iter().filter_map(|it| it.checks_sources(port)).max();
        let checks = ports().filter_map(|port| Some((port, strictest(port)?))).collect();
        let mut monitor = settled.has_interfaces.then(|| {
            let guarded = of_interfaces.iter().filter(|port| port.life.guard.is_guarded());
            let guarded = guarded.map(|port| port.id).collect();
            let mut monitor = ForwardPathMonitor::new(guards, checks, guarded);
            monitor.check_first(config, &known.rib, Instant::now());
            monitor
        });
        if let Some(monitor) = &mut monitor {
            refuse(monitor, config, &of_interfaces)?;
            monitor.log_first(config);
        }
        Ok(Self { applications, ports: of_interfaces, monitor })
    }
}

/// Refuses to start if a port with access lists or source checks would be left to the kernel, or,
/// with `takeover = "strict"`, any port.
fn refuse(
    monitor: &ForwardPathMonitor,
    config: &Config,
    ports: &[Port],
) -> Result<(), RouterError> {
    if let Some(refusal) = monitor.refusal(config) {
        return Err(RouterError::Obstructed(refusal));
    }
    let judged = ports.iter().filter(|port| !port.by_workers.is_empty());
    let left = judged.filter_map(|Port { id, name, by_workers, .. }| {
        Some(takeover::judged_and_left(name, by_workers, monitor.left(*id)?))
    });
    let left: Vec<String> = left.collect();
    if left.is_empty() { Ok(()) } else { Err(RouterError::Obstructed(left.join("\n"))) }
}
