//! Second phase: the kernel's state, read completely before anything is attached.

use super::super::error::RouterError;
use super::super::kernel::KernelSide;
use super::super::port::actuator::Actuator;
use super::super::queues::{self, Interface, Unopened, WorkerInterfaces};
use super::super::takeover::ForwardPathMonitor;
use super::super::workers::Workers;
use super::super::{statics, xdp_forward};
use super::settled::Settled;
use crate::config::{Config, XdpForwarding};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::{RouteError, Routes};
use wattline_rib::Rib;

/// Tables, and the present ports.
pub(super) struct Known {
    pub rib: Rib,
    pub routes: Routes,
    pub kernel: Option<KernelSide>,
    pub interfaces: Vec<Interface>,
    pub unopened: Vec<Unopened>,
    pub port_links: statics::PortLinks,
}

impl Known {
    /// Reads the kernel's state until it is complete, and looks up the ports' interfaces.
    ///
    /// # Errors
    /// When an interface can never be a port, or the tables refuse a route.
    pub fn learn(settled: &Settled) -> Result<Self, RouterError> {
        let Settled { config, extra_routes, has_interfaces, .. } = settled;
        let mut rib = Rib::new(statics::port_specs(config));
        let mut routes = Routes::new(rib.port_configs());
        routes.set_flow_seed(flow_seed(config, *has_interfaces));
        let kernel = if *has_interfaces || config.router.kernel_routes {
            let egress = xdp_forward::prepare(config)?;
            let flows = config.router.xdp_forward == XdpForwarding::On;
            let mut kernel =
                KernelSide::new(config.router.kernel_routes, egress, flows, config.clamps_mss())?;
            read_all(&mut kernel, &mut rib)?;
            Some(kernel)
        } else {
            None
        };
        let (interfaces, unopened) = queues::interfaces(config, &rib)?;
        let links = interfaces.iter().map(|it| &it.link);
        let links = links.chain(unopened.iter().filter_map(|it| it.link.as_ref()));
        let numbers = links.map(|link| (link.name.clone(), link.index)).collect();
        let port_links = statics::port_links(config, &numbers);
        statics::apply(&mut rib, config, extra_routes, &port_links);
        let mut known = Self { rib, routes, kernel, interfaces, unopened, port_links };
        for port in known.unopened.iter().map(|it| it.port) {
            // Otherwise the next link of its name would be the port before it is attached.
            known.rib.serve(port, None);
        }
        known.commit()?;
        Ok(known)
    }

    /// Returns the system that ports act on; `None` without the kernel's state.
    pub fn actuator<'a>(
        &'a mut self,
        config: &'a Config,
        monitor: Option<&'a ForwardPathMonitor>,
        workers: &'a Workers,
        interfaces: &'a mut [WorkerInterfaces],
    ) -> Option<Actuator<'a>> {
        let programs = &mut self.kernel.as_mut()?.programs;
        Some(Actuator { config, programs, rib: &mut self.rib, workers, interfaces, monitor })
    }

    /// Publishes the known state to the tables of the workers.
    ///
    /// # Errors
    /// When the tables refuse a route.
    pub fn commit(&mut self) -> Result<(), RouterError> {
        self.rib.commit(&mut self.routes).map_err(refused)
    }

    /// Removes the ports that have `failed` from those to be opened.
    pub fn give_up(&mut self, config: &Config, failed: &BTreeMap<PortId, String>) {
        for interface in std::mem::take(&mut self.interfaces) {
            match failed.get(&interface.port) {
                None => self.interfaces.push(interface),
                Some(why) => {
                    self.unopened.push(Unopened::failed(&interface, config, why.clone()));
                }
            }
        }
    }
}

/// Reads the kernel's state until it is complete: nothing is forwarded before.
pub(super) fn read_all(kernel: &mut KernelSide, rib: &mut Rib) -> Result<(), RouterError> {
    loop {
        kernel.follow(rib, Instant::now())?;
        if !kernel.is_reading() {
            return Ok(());
        }
    }
}

/// Returns the seed of the choice between several next hops. Consecutive routers with the same seed
/// would use only one of several links. Between captures the seed is the same in every run.
fn flow_seed(config: &Config, has_interfaces: bool) -> u64 {
    match config.router.flow_seed {
        Some(seed) => seed.into(),
        // Random for each router.
        None if has_interfaces => RandomState::new().hash_one(std::process::id()),
        None => 0,
    }
}

fn refused(errors: Vec<RouteError>) -> RouterError {
    let lines: Vec<String> = errors.iter().take(20).map(ToString::to_string).collect();
    RouterError::Unfit(lines.join("\n"))
}
