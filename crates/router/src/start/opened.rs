//! Fourth phase: XDP programs are attached, which block, and the queues of all ports are opened.

use super::super::attachments::Attachments;
use super::super::busy_poll::why_in_vain;
use super::super::error::RouterError;
use super::super::programs::Programs;
use super::super::queues::{self, Interface, Unopened, WorkerQueues};
use super::super::succession::Inherited;
use super::super::tun::Tunnel;
use super::judged::Judged;
use super::known::Known;
use super::settled::Settled;
use crate::config::Config;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use wattline_dataplane::port::PortId;
use wattline_ports::capture::CaptureStatus;
use wattline_xdp::XdpError;

/// Ports with their queues, from which nothing is taken yet.
pub(super) struct Opened {
    /// One for each worker.
    pub queues: Vec<WorkerQueues>,
    /// The sockets of interfaces: port, queue, socket.
    pub sockets: Vec<(PortId, u32, OwnedFd)>,
    /// The length in bytes of the longest IP packet that they take.
    pub longest_packet: u16,
    pub captures: Vec<CaptureStatus>,
    /// Whether frames of some interface reach workers without a copy.
    pub zero_copy: bool,
    /// By port, in words.
    pub modes: Vec<String>,
    pub attachments: Attachments,
    /// The device by which packets enter the kernel.
    pub tunnel: Option<Tunnel>,
}

impl Opened {
    /// Attaches the programs and opens the queues. A port that fails is without an interface.
    ///
    /// # Errors
    /// When something fails that all ports need.
    pub fn open(
        settled: &Settled,
        known: &mut Known,
        judged: &mut Judged,
    ) -> Result<Self, RouterError> {
        let config = &settled.config;
        let tunnel = settled.has_interfaces.then(Tunnel::open).flatten();
        // The program first: it finds another instance before that one's queues are touched.
        let mut attached = match known.kernel.take() {
            Some(mut kernel) => {
                let attached = attach(config, &mut kernel.programs, known, judged)?;
                if settled.has_interfaces {
                    let tun = tunnel.as_ref().map(|tunnel| &*tunnel.name);
                    judged.applications.iter_mut().for_each(|it| it.take_over(&known.rib, tun));
                }
                known.kernel = Some(kernel);
                attached
            }
            None => BTreeMap::new(),
        };
        let opened = queues::open(config, &known.interfaces, &known.unopened)?;
        known.give_up(config, |interface| opened.failed.get(&interface.port).cloned());
        attached.retain(|port, _| !opened.failed.contains_key(port));
        let kernel = known.kernel.as_ref();
        let has_program = |port| kernel.is_some_and(|it| it.programs.of(port).is_some());
        let attachments = Attachments::new(
            config,
            &known.interfaces,
            &known.unopened,
            opened.interfaces,
            &opened.states,
            &judged.guards,
            &has_program,
        );
        let modes = modes(config, opened.modes, attached, known);
        for port in known.unopened.iter().map(|it| it.port) {
            known.rib.serve(port, None);
            known.kernel.as_mut().map_or(Ok(()), |it| it.programs.detach_port(port))?;
        }
        Ok(Self {
            queues: opened.workers,
            sockets: opened.sockets,
            longest_packet: opened.longest_packet,
            captures: opened.captures,
            zero_copy: opened.zero_copy,
            modes,
            attachments,
            tunnel,
        })
    }
}

/// Attaches a program to each interface. Returns their modes, in words.
fn attach(
    config: &Config,
    programs: &mut Programs,
    known: &mut Known,
    judged: &Judged,
) -> Result<BTreeMap<PortId, String>, RouterError> {
    programs.inherited = Inherited::take();
    programs.guards.clone_from(&judged.guards);
    for port in (0..config.ports.len() as u16).map(PortId) {
        let why = config.why_by_workers(usize::from(port.0));
        if !why.is_empty() {
            programs.by_workers.insert(port, why.join(", "));
        }
    }
    let mut attached = BTreeMap::new();
    let mut fatal = None;
    known.give_up(config, |Interface { port, link, .. }| {
        if fatal.is_some() {
            return None;
        }
        let name = &config.ports[usize::from(port.0)].name;
        match programs.attach(*port, name, link) {
            Ok(mode) => {
                attached.insert(*port, mode);
                None
            }
            // The process or the kernel lacks something, for every port.
            Err(error @ XdpError::Bpf(_)) => {
                fatal = Some(RouterError::Xdp { port: name.clone(), error });
                None
            }
            Err(error) => Some(error.to_string()),
        }
    });
    if let Some(error) = fatal {
        return Err(error);
    }
    programs.inherited.give_up_rest();
    programs.leave_prefixes(|port| judged.lookout.as_ref()?.left_prefixes(port));
    let ends = judged.applications.iter().flat_map(|it| it.tunnel_ends()).collect();
    programs.end_tunnels(ends, &known.rib);
    programs.tell(&known.rib);
    Ok(attached)
}

/// Mode of each port in words: how its queues are read, its program, and settings in vain.
fn modes(
    config: &Config,
    mut modes: Vec<String>,
    attached: BTreeMap<PortId, String>,
    known: &Known,
) -> Vec<String> {
    for (port, mode) in attached {
        modes[usize::from(port.0)] += &format!(", {mode}");
    }
    for Interface { port, link, queues } in &known.interfaces {
        if config.polls_unaided()
            && let Some(why) = why_in_vain(&link.name, *queues)
        {
            modes[usize::from(port.0)] += &format!(", {why}");
        }
    }
    for Unopened { port, .. } in &known.unopened {
        modes[usize::from(port.0)] = "not attached".to_owned();
    }
    modes
}
