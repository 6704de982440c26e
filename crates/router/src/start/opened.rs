//! Fourth phase: XDP programs are attached, which forward nothing yet, and the queues of all ports
//! are opened.

use super::super::error::RouterError;
use super::super::port::action::Action;
use super::super::port::actuator::{Actuator, Failure};
use super::super::port::machine::{Event, State};
use super::super::port::ports::Ports;
use super::super::queues::{self, WorkerQueues};
use super::super::succession::Inherited;
use super::super::tun::Tunnel;
use super::super::workers::Workers;
use super::judged::Judged;
use super::known::Known;
use super::settled::Settled;
use crate::config::Config;
use std::collections::BTreeMap;
use wattline_xdp::XdpError;

/// Ports with their queues, which are not read yet.
pub(super) struct Opened {
    /// One for each worker.
    pub queues: Vec<WorkerQueues>,
    /// The length in bytes of the longest IP packet that sockets take.
    pub longest_packet: u16,
    pub ports: Ports,
    /// The device by which packets enter the kernel.
    pub tunnel: Option<Tunnel>,
}

impl Opened {
    /// Attaches the programs and opens the queues. A port that fails has no interface.
    ///
    /// # Errors
    /// When something fails that all ports need.
    pub fn open(
        settled: &Settled,
        known: &mut Known,
        judged: &mut Judged,
    ) -> Result<Self, RouterError> {
        let (config, workers) = (&settled.config, Workers::default());
        let tunnel = settled.has_interfaces.then(Tunnel::open).flatten();
        let mut ports = Ports {
            list: std::mem::take(&mut judged.ports),
            links: std::mem::take(&mut known.port_links),
            ..Ports::default()
        };
        // The program first: that detects another instance before its queues are touched.
        if known.kernel.is_some() {
            attach(config, &mut ports, known, judged)?;
            if settled.has_interfaces {
                let tun = tunnel.as_ref().map(|tunnel| &*tunnel.name);
                judged.applications.iter_mut().for_each(|it| it.take_over(&known.rib, tun));
            }
        }
        let mut opened = queues::open(config, &known.interfaces, &known.unopened)?;
        (ports.interfaces, ports.captures) = (opened.interfaces, opened.captures);
        known.give_up(config, &opened.failed);
        for port in &mut ports.list {
            if let Some(interface) = known.interfaces.iter().find(|it| it.port == port.id) {
                let sockets = opened.sockets.remove(&port.id).unwrap_or_default();
                port.queues = interface.queues;
                port.take_sockets(sockets, interface, config);
            }
            let unopened = known.unopened.iter().find(|it| it.port == port.id).cloned();
            let (monitor, interfaces) = (judged.monitor.as_ref(), &mut ports.interfaces);
            let actuator = known.actuator(config, monitor, &workers, interfaces);
            let (Some(mut actuator), Some(unopened)) = (actuator, unopened) else { continue };
            let why = unopened.why.clone();
            let event = match port.life.state {
                State::Open => Event::Failed(Action::OpenSockets, why),
                _ => Event::Missing(why),
            };
            actuator.report(port, event);
            port.note_unopened(&unopened);
            port.log_unopened();
        }
        let (queues, longest_packet) = (opened.workers, opened.longest_packet);
        Ok(Self { queues, longest_packet, ports, tunnel })
    }
}

/// Attaches a program to each interface.
fn attach(
    config: &Config,
    ports: &mut Ports,
    known: &mut Known,
    judged: &Judged,
) -> Result<(), RouterError> {
    let (workers, monitor) = (Workers::default(), judged.monitor.as_ref());
    let interfaces = known.interfaces.clone();
    let Some(mut actuator) = known.actuator(config, monitor, &workers, &mut []) else {
        return Ok(());
    };
    actuator.programs.inherited = Inherited::take();
    let mut failed = BTreeMap::new();
    for port in &mut ports.list {
        let interface = interfaces.iter().find(|it| it.port == port.id);
        if interface.is_none() {
            continue;
        }
        match actuator.apply(port, Event::Attach, interface) {
            Ok(()) => port.attached_words = None,
            // The process or the kernel lacks something that every port needs.
            Err(Failure::Program(error @ XdpError::Bpf(_))) => {
                return Err(RouterError::Xdp { port: port.name.clone(), error });
            }
            Err(error) => drop(failed.insert(port.id, error.to_string())),
        }
    }
    let Actuator { programs, rib, .. } = actuator;
    programs.inherited.give_up_rest();
    programs.leave_prefixes(|port| monitor?.left_prefixes(port));
    let ends = judged.applications.iter().flat_map(|it| it.tunnel_ends()).collect();
    programs.end_tunnels(ends, rib);
    programs.publish_addresses(rib);
    known.give_up(config, &failed);
    Ok(())
}
