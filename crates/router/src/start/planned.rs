//! Ports that a router would leave to the kernel, before it is started.

use super::super::by_workers::ByWorkers;
use super::super::error::RouterError;
use super::super::kernel::KernelSide;
use super::super::statics;
use super::super::takeover::ForwardPathMonitor;
use super::super::xdp_forward::Egress;
use super::known::read_all;
use crate::config::{Config, PortSettings};
use std::collections::BTreeMap;
use std::time::Instant;
use wattline_dataplane::port::PortId;
use wattline_rib::Rib;
use wattline_status::PortPlan;

/// Reads the kernel's state and reports, for each port with an interface, the packets that would be
/// left to the kernel now, and why. Source checks of `[urpf]` are not considered.
///
/// # Errors
/// When the kernel's tables cannot be read.
pub fn plan_ports(config: &Config) -> Result<Vec<PortPlan>, RouterError> {
    let interfaces = || {
        let ports = (0..).map(PortId).zip(&config.ports);
        ports.filter(|(_, settings)| settings.kind.taken_over().is_some())
    };
    if interfaces().next().is_none() {
        return Ok(Vec::new());
    }
    let mut rib = Rib::new(statics::port_specs(config));
    let egress = Egress::ByWorkers(ByWorkers::for_good("none is started".into()));
    let mut kernel = KernelSide::new(false, egress, false, config.clamps_mss())?;
    read_all(&mut kernel, &mut rib)?;
    let judges = |port: &PortId| !config.sections_for_workers(usize::from(port.0)).is_empty();
    let guarded = interfaces().map(|(port, _)| port).filter(judges).collect();
    let mut monitor = ForwardPathMonitor::new(false, BTreeMap::new(), guarded);
    monitor.check_first(config, &rib, Instant::now());
    let plan = |(port, settings): (PortId, &PortSettings)| PortPlan {
        name: settings.name.clone(),
        is_absent: rib.interfaces_of(port).is_empty(),
        left_because: monitor.left(port).map(str::to_owned),
        left_prefixes: monitor
            .left_prefixes(port)
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect(),
        prefixes_because: monitor.prefixes_because(port),
        flowtable: monitor.flows(port).map(|flows| match flows {
            Ok(flowtable) => format!(
                "XDP programs can forward the established flows of {flowtable}, but for those with \
                 VLAN tags or over PPPoE: the kernel's bpf_xdp_flow_lookup() does not find them"
            ),
            Err(why) => why.clone(),
        }),
        is_guarded: monitor.is_guarded(port),
    };
    Ok(interfaces().map(plan).collect())
}
