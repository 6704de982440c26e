//! Established flows of an nftables flowtable, which XDP programs forward at ports that are left to
//! the kernel.
//!
//! The kernel's own fast path bypasses its chains for packets of such a flow, and so may a program
//! that asks the kernel for the flow. The kernel decides about all other packets.

use super::Forwarding;
use crate::takeover::UsableFlowtable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::{Link, attached_program};
use wattline_rib::Rib;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::{Copies, FlowLookup, Sent, Verdict, XdpCounters, XdpError, XdpProgram};

/// Time after which a port that could not get its program is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Ports at which flows are forwarded.
pub(in super::super) struct Flows {
    /// The kernel's look-up, or why it is unavailable. It is opened at the start of the router,
    /// which then drops the capability to do so.
    lookup: Option<Result<FlowLookup, BpfError>>,
    /// The egress ports, once there is a flowtable.
    egress: Option<Forwarding>,
    /// Maps for the copies of its programs.
    copies: Option<Arc<Copies>>,
    ports: BTreeMap<PortId, FlowPort>,
}

/// A port that has, or had, the program.
struct FlowPort {
    /// Detached while no flows are forwarded; it keeps its counters.
    program: Option<XdpProgram>,
    mac: [u8; 6],
    error: Option<String>,
    next_try: Instant,
}

/// A port at which flows are to be forwarded.
pub(in super::super) struct FlowTarget<'a> {
    pub port: PortId,
    pub name: &'a str,
    pub flowtable: &'a UsableFlowtable,
}

impl Flows {
    /// Looks for the kernel's function, if flows are `wanted`. It does not exist before the module
    /// of flowtables is loaded.
    pub fn new(wanted: bool, copies: Option<Arc<Copies>>) -> Self {
        let lookup = wanted.then(FlowLookup::open);
        Self { lookup, egress: None, copies, ports: BTreeMap::new() }
    }

    /// Attaches programs to these ports, and to no others. Opens the egress ports that can be
    /// opened.
    pub fn poll(&mut self, wanted: &[FlowTarget<'_>], rib: &Rib, now: Instant) {
        let is_wanted = |port: &PortId| wanted.iter().any(|it| it.port == *port);
        let others: Vec<PortId> =
            self.ports.keys().copied().filter(|port| !is_wanted(port)).collect();
        others.into_iter().for_each(|port| self.detach(port));
        for target in wanted {
            let link = rib.link_named_as(target.port).filter(|link| !link.is_bond());
            match link {
                Some(link) => self.serve(target, link, now),
                None => self.detach(target.port),
            }
        }
        let Self { egress: Some(egress), ports, .. } = self else { return };
        let sent = |out: PortId| {
            let programs = ports.values().filter_map(|of| of.program.as_ref());
            programs.filter_map(|it| it.sent(Forwarding::slot(out)).ok()).map(|it| it.packets).sum()
        };
        egress.poll(rib, now, &sent);
    }

    fn serve(&mut self, target: &FlowTarget<'_>, link: &Link, now: Instant) {
        let FlowTarget { port, name, flowtable } = *target;
        let mac = flowtable.bridge.or(link.mac).unwrap_or_default();
        let known = self.ports.get(&port);
        let attached = known.and_then(|it| it.program.as_ref()?.interface());
        if attached == Some(link.index) && known.is_some_and(|it| it.mac == mac) {
            return;
        }
        if known.is_some_and(|it| it.error.is_some() && now < it.next_try) {
            return;
        }
        let before = known.and_then(|it| it.error.clone());
        match self.attach(port, name, link, mac) {
            Ok(()) => {
                tracing::info!(
                    "port {name}: XDP programs forward the established flows of {flowtable}"
                );
            }
            Err(error) => {
                self.detach(port);
                if before.as_ref() != Some(&error) {
                    tracing::warn!(
                        "port {name}: the kernel forwards the flows of {flowtable}: {error}"
                    );
                }
                let of = self.entry(port, now);
                (of.error, of.next_try) = (Some(error), now + TRY_AGAIN);
            }
        }
    }

    fn attach(
        &mut self,
        port: PortId,
        name: &str,
        link: &Link,
        mac: [u8; 6],
    ) -> Result<(), String> {
        let failed = |error: XdpError| error.to_string();
        let lookup = self.lookup.take().filter(Result::is_ok);
        let lookup = self.lookup.insert(lookup.unwrap_or_else(FlowLookup::open));
        let lookup = lookup.as_ref().map_err(|error| match error {
            BpfError::MissingCapability { .. } => {
                format!("{error}; it is opened at the start alone: restart the router")
            }
            _ => error.to_string(),
        })?;
        if self.egress.is_none() {
            let opened = Forwarding::open(true, self.copies.as_ref());
            self.egress = Some(opened.map_err(|error| error.to_string())?);
        }
        let is_attached =
            |it: &FlowPort| it.program.as_ref().is_some_and(|it| it.interface().is_some());
        let attached = self.ports.get(&port).is_some_and(is_attached);
        // Loading costs far more than asking.
        if !attached && let Ok(Some(_)) = attached_program(link.index) {
            return Err(failed(XdpError::Occupied { ifindex: link.index }));
        }
        let known = self.ports.get_mut(&port).and_then(|it| it.program.as_mut());
        let loaded = match (known, &self.egress) {
            (Some(program), _) => {
                program.attach_again(link.index, mac).map_err(failed)?;
                None
            }
            (None, Some(egress)) => {
                let forward = egress.forward();
                Some(XdpProgram::load_of_flows(link.index, mac, forward, lookup).map_err(failed)?)
            }
            (None, None) => None,
        };
        let of = self.entry(port, Instant::now());
        (of.mac, of.error) = (mac, None);
        if loaded.is_some() {
            of.program = loaded;
        }
        if let Some(egress) = &mut self.egress {
            let added = egress.remove(port).and_then(|()| egress.add(port, link.index, name));
            added.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn entry(&mut self, port: PortId, now: Instant) -> &mut FlowPort {
        self.ports.entry(port).or_insert(FlowPort {
            program: None,
            mac: [0; 6],
            error: None,
            next_try: now,
        })
    }

    /// Gives the flows of a port back to the kernel.
    pub fn detach(&mut self, port: PortId) {
        let Some(of) = self.ports.get_mut(&port) else { return };
        of.error = None;
        if let Some(program) = &mut of.program {
            program.detach();
        }
        if let Some(egress) = &mut self.egress
            && let Err(error) = egress.remove(port)
        {
            tracing::debug!("an egress port of flows: {error}");
        }
    }

    /// Does the same for all ports.
    pub fn detach_all(&mut self) {
        let ports: Vec<PortId> = self.ports.keys().copied().collect();
        ports.into_iter().for_each(|port| self.detach(port));
    }

    /// Forgets a port that is removed. Returns the counts of its program.
    pub fn remove(&mut self, port: PortId) -> XdpCounters {
        self.detach(port);
        let removed = self.ports.remove(&port).and_then(|it| it.program);
        removed.and_then(|it| it.counters().ok()).unwrap_or_default()
    }

    /// Returns `Ok` if the program of a port forwards flows, or why it cannot; `None` without a
    /// flowtable.
    pub fn state(&self, port: PortId) -> Option<Result<(), &str>> {
        let of = self.ports.get(&port)?;
        match &of.error {
            Some(error) => Some(Err(error)),
            None => of.program.as_ref()?.interface().map(|_| Ok(())),
        }
    }

    /// Returns the counts of a port's program.
    pub fn counters(&self, port: PortId) -> XdpCounters {
        let program = self.ports.get(&port).and_then(|it| it.program.as_ref());
        program.and_then(|it| it.counters().ok()).unwrap_or_default()
    }

    /// Returns the frames without an egress port that the program of a port counted.
    pub fn no_egress_port(&self, port: PortId) -> u64 {
        self.counters(port).get(Verdict::NoEgressPort)
    }

    /// Returns the ports that have or had a program.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        self.ports.keys().copied()
    }

    /// Returns the frames that one port's program sent out of another port.
    pub fn sent(&self, port: PortId, out: PortId) -> Sent {
        let program = self.ports.get(&port).and_then(|it| it.program.as_ref());
        program.and_then(|it| it.sent(Forwarding::slot(out)).ok()).unwrap_or_default()
    }

    /// Returns the number of frames that a port refused.
    pub fn refused(&self, out: PortId) -> u64 {
        let egress = self.egress.as_ref();
        egress.map_or(0, |it| it.forward().refused(Forwarding::slot(out)).unwrap_or_default())
    }
}
