//! The router's dealings with the kernel while it runs.

use super::by_workers::ByWorkers;
use super::error::RouterError;
use super::flows::{FlowTarget, Flows};
use super::neighbour_requests::{Batch, NeighbourRequests};
use super::succession::{self, Inherited};
use super::unpuntable::join;
use super::xdp_counts::{Counted, XdpCounts};
use super::xdp_forward::{BEHIND_BOND, Forwarding};
use crate::stats::{Departed, KernelStats, XdpTraffic};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use wattline_dataplane::own_addresses::shared;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::{ChangeFeed, Event, Link, attached_program};
use wattline_ports::afxdp::largest_mtu;
use wattline_rib::{Rib, Source};
use wattline_xdp::bpf::BpfError;
use wattline_xdp::{
    ForwardedByCpu, KeptLink, LocalAddress, Verdict, XdpCounters, XdpError, XdpMode, XdpModeChoice,
    XdpProgram,
};

/// Interval of confirming neighbours that are about to be forgotten. The kernel keeps a stale one
/// for a minute at least (gc_stale_time).
const CONFIRM_EVERY: Duration = Duration::from_secs(5);

/// Follows the kernel and asks it for neighbours.
pub(super) struct KernelSide {
    feed: ChangeFeed,
    requests: NeighbourRequests,
    programs: BTreeMap<PortId, Program>,
    /// The egress ports of the programs, where they forward by themselves.
    forwarding: Option<Forwarding>,
    /// Reason if they never do.
    by_workers_all: Option<ByWorkers>,
    /// Flows of flowtables, at ports that are left to the kernel.
    flows: Flows,
    next_confirmation: Instant,
    is_current: bool,
    /// Whether routes, neighbours and addresses are taken over, or links only.
    routes: bool,
    /// Attributes of routes that are not understood and have been reported.
    not_understood: BTreeSet<String>,
    /// Addresses of this machine at which tunnels end.
    tunnel_ends: HashSet<IpAddr>,
    /// Ports whose programs leave nothing to the kernel that it would forward.
    guarded: HashSet<PortId>,
    /// Prefixes whose packets all other programs leave to it.
    unpuntable: BTreeSet<IpNet>,
    /// Ports whose programs do not forward by themselves, and why.
    by_workers: BTreeMap<PortId, String>,
    /// Attachments of the router before this one.
    pub(super) inherited: Inherited,
    /// The longest IP packet that sockets take, once traffic is handed over.
    longest: u16,
    /// One more than the highest number of a port so far.
    places: u16,
    xdp_counts: XdpCounts,
    /// Verdicts of programs that are gone.
    gone: XdpCounters,
}

/// Facts for the program of a port that is added.
pub(super) struct NewPort<'a> {
    /// Reasons for forwarding by workers.
    pub by_workers: &'a [&'a str],
    /// Whether it leaves nothing to the kernel that it would forward.
    pub guarded: bool,
    /// Prefixes whose packets are left to the kernel.
    pub left: &'a BTreeSet<IpNet>,
}

/// The link that a program is attached to.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// Name of the port.
    pub name: &'a str,
    pub link: &'a Link,
    /// Prefixes whose packets the program leaves to the kernel.
    pub left: &'a BTreeSet<IpNet>,
}

/// The XDP program of one port, and what it has been told.
struct Program {
    program: XdpProgram,
    name: String,
    mac: [u8; 6],
    local: HashMap<IpAddr, LocalAddress>,
    vlans: HashSet<u16>,
    /// Prefixes whose packets are left to the kernel.
    left: BTreeSet<IpNet>,
    /// The longest IP packet that is taken over, and the MTU that was last warned of.
    longest: u16,
    warned_of: u32,
}

impl KernelSide {
    /// Begins to follow; takes over routes only where `routes` says so. Programs that are attached
    /// forward by themselves where `forwarding` is given, and not the reason why workers do.
    pub fn new(
        routes: bool,
        forwarding: Result<Forwarding, ByWorkers>,
    ) -> Result<Self, RouterError> {
        let (forwarding, by_workers_all) = match forwarding {
            Ok(forwarding) => (Some(forwarding), None),
            Err(why) => (None, Some(why)),
        };
        let failed = |source| RouterError::system("opening a netlink socket", source);
        Ok(Self {
            feed: ChangeFeed::new().map_err(failed)?,
            requests: NeighbourRequests::new().map_err(failed)?,
            programs: BTreeMap::new(),
            forwarding,
            by_workers_all,
            flows: Flows::new(),
            next_confirmation: Instant::now() + CONFIRM_EVERY,
            is_current: false,
            routes,
            not_understood: BTreeSet::new(),
            tunnel_ends: HashSet::new(),
            guarded: HashSet::new(),
            unpuntable: BTreeSet::new(),
            by_workers: BTreeMap::new(),
            inherited: Inherited::default(),
            longest: u16::MAX,
            places: 0,
            xdp_counts: XdpCounts::default(),
            gone: XdpCounters::default(),
        })
    }

    /// Returns the descriptor that reports changes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.feed.descriptor()
    }

    /// When [`Self::follow`] and [`Self::care`] want to be called at the latest.
    pub fn deadline(&self) -> Instant {
        self.feed.deadline().map_or(self.next_confirmation, |due| due.min(self.next_confirmation))
    }

    /// Takes over what has changed; true when there is more.
    pub fn follow(&mut self, rib: &mut Rib, now: Instant) -> Result<bool, RouterError> {
        let Self { feed, requests, routes, not_understood, .. } = self;
        let routes = *routes;
        let mut apply = |event: Event| {
            requests.follow(&event);
            if routes
                && let Event::Route { route, .. } = &event
                && let Some(attribute) = &route.not_understood
                && not_understood.insert(attribute.clone())
            {
                tracing::warn!(
                    "route {}: Wattline does not understand its attribute \"{attribute}\": \
                     packets of routes with it are left to the kernel",
                    route.prefix
                );
            }
            if let Event::Link(link) = &event
                && let Some(setting) = link.left_because
                && not_understood.insert(format!("{} {setting}", link.name))
            {
                tracing::warn!(
                    "interface {}: it has {setting}, which only the kernel follows: packets through it \
                     are left to the kernel",
                    link.name
                );
            }
            let of_links = matches!(
                event,
                Event::Link(_) | Event::LinkGone(_) | Event::DumpBegin | Event::DumpEnd
            );
            if routes || of_links {
                rib.apply(Source::Kernel, event);
            }
        };
        let more = feed
            .poll(now, &mut apply)
            .map_err(|source| RouterError::system("following the kernel's routes", source))?;
        if rib.take_missed_change() {
            tracing::debug!("a change of routes was missed: the kernel's tables are read again");
            feed.request_dump(now);
        }
        self.is_current = !more && self.feed.is_complete();
        Ok(more)
    }

    /// Returns true if the kernel had told nothing more when it was followed last.
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Whether the kernel's tables are being read as a whole: what is known may lack something.
    pub fn is_reading(&self) -> bool {
        self.feed.is_dumping()
    }

    /// Lets the programs of these ports leave nothing to the kernel that it would forward, once they
    /// hand traffic over.
    pub fn guard(&mut self, ports: HashSet<PortId>) {
        self.guarded = ports;
    }

    /// Lets the program of a port that is attached later forward nothing by itself.
    pub fn leave_to_workers(&mut self, port: PortId, why: String) {
        self.by_workers.insert(port, why);
    }

    /// Attaches the XDP program to the link of a port.
    ///
    /// # Errors
    /// See [`XdpError`]; the port has no program then.
    pub fn attach(&mut self, port: PortId, name: &str, link: &Link) -> Result<String, XdpError> {
        let mac = link.mac.unwrap_or_default();
        self.leave_bond_to_workers(port, link);
        let by_program = !self.by_workers.contains_key(&port);
        let forwarding = self.forwarding.as_ref().filter(|_| by_program);
        let forward = forwarding.map(Forwarding::forward);
        let anew = || XdpProgram::load_forwarding(link.index, mac, mode_for(link), forward);
        let program = match self.inherited.of(link.index) {
            Some(kept) => XdpProgram::load_in_place_of(kept, mac, forward)
                .inspect(|_| {
                    tracing::info!("port {name}: taken over from the last router");
                })
                .or_else(|error| {
                    tracing::warn!(
                        "port {name}: it cannot be taken over from the last router: {error}"
                    );
                    anew()
                }),
            None => anew(),
        };
        let program = program?;
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.add(port, link.index, name)?;
        }
        let mode = self.mode_of(port, &program);
        self.keep(port, name, mac, program);
        Ok(mode)
    }

    /// Lets the program of a port forward nothing by itself where its link is a bond.
    fn leave_bond_to_workers(&mut self, port: PortId, link: &Link) {
        if !link.is_bond() {
            return;
        }
        let reasons = self.by_workers.entry(port).or_default();
        if reasons.is_empty() {
            BEHIND_BOND.clone_into(reasons);
        } else if !reasons.ends_with(BEHIND_BOND) {
            *reasons += &format!(", {BEHIND_BOND}");
        }
    }

    fn keep(&mut self, port: PortId, name: &str, mac: [u8; 6], program: XdpProgram) {
        self.places = self.places.max(port.0 + 1);
        let program = Program {
            program,
            name: name.to_owned(),
            mac,
            local: HashMap::new(),
            vlans: HashSet::new(),
            left: BTreeSet::new(),
            longest: self.longest,
            warned_of: 0,
        };
        self.programs.insert(port, program);
    }

    /// Attaches the program to the link of a port that is added while others forward, which knows
    /// everything before its first frame. All its frames go to the kernel before sockets are set, but
    /// for those that it forwards by itself. Where `guarded`, see [`Self::guard`]; where there is a
    /// reason in `by_workers`, it forwards nothing by itself.
    ///
    /// # Errors
    /// Only from the kernel; nothing stays attached then.
    pub fn add_port(
        &mut self,
        port: PortId,
        name: &str,
        link: &Link,
        rib: &Rib,
        new: &NewPort<'_>,
    ) -> Result<String, RouterError> {
        if !new.by_workers.is_empty() {
            self.by_workers.insert(port, new.by_workers.join(", "));
        }
        if new.guarded {
            self.guarded.insert(port);
        }
        // A guarded program drops what needs a socket: it is that once there are sockets.
        self.load(port, &Target { name, link, left: new.left }, rib, false).map_err(|error| {
            self.by_workers.remove(&port);
            self.guarded.remove(&port);
            RouterError::Xdp { port: name.to_owned(), error }
        })
    }

    /// Loads the program of a port that has none and attaches it, after everything is written to its
    /// maps that it has to know. A `blocked` one leaves nothing to the kernel from its first frame on.
    fn load(
        &mut self,
        port: PortId,
        to: &Target<'_>,
        rib: &Rib,
        blocked: bool,
    ) -> Result<String, XdpError> {
        let Target { name, link, left } = *to;
        let none = BTreeSet::new();
        let left = &join(left, self.unpuntable(port).unwrap_or(&none));
        // Loading costs far more than asking, and an occupied interface is tried once a second.
        if let Ok(Some(_)) = attached_program(link.index) {
            return Err(XdpError::Occupied { ifindex: link.index });
        }
        let mac = link.mac.unwrap_or_default();
        self.leave_bond_to_workers(port, link);
        let by_workers = self.by_workers.contains_key(&port);
        let forward = self.forwarding.as_ref().filter(|_| !by_workers).map(Forwarding::forward);
        let local = self.local(rib);
        let longest = self.longest;
        let mut tell = |program: &XdpProgram| {
            program.set_longest(longest)?;
            program.set_guarded(blocked)?;
            for (address, kind) in &local {
                program.add_local(*address, *kind)?;
            }
            for vlan in rib.vlans_of(link.index) {
                program.set_vlan(vlan, true)?;
            }
            for prefix in left {
                program.add_left(prefix.addr(), prefix.prefix_len())?;
            }
            program.set_leaves(!left.is_empty())
        };
        let program = XdpProgram::load_told(link.index, mac, mode_for(link), forward, &mut tell)?;
        if let Some(forwarding) = self.forwarding.as_mut().filter(|_| !blocked) {
            forwarding.add(port, link.index, name)?;
        }
        let mode = self.mode_of(port, &program);
        self.keep(port, name, mac, program);
        if let Some(program) = self.programs.get_mut(&port) {
            program.local = local;
            program.vlans = rib.vlans_of(link.index).collect();
            program.left.clone_from(left);
        }
        Ok(mode)
    }

    /// Forgets a port that is removed: its program goes from the interface, and programs of others
    /// send no more to it. Afterwards no frame is under way to its sockets.
    ///
    /// # Errors
    /// Only from the kernel; the program is gone all the same.
    pub fn remove_port(&mut self, port: PortId) -> Result<(), BpfError> {
        let closed = self.detach_port(port);
        self.flows.detach(port);
        // What programs sent before is counted when none of them still runs.
        succession::await_programs();
        let counted = self.counted();
        self.xdp_counts.remove(port, &counted);
        self.gone.merge(&self.flows.remove(port));
        if let Some(program) = self.programs.remove(&port) {
            self.gone.merge(&program.program.counters().unwrap_or_default());
        }
        self.by_workers.remove(&port);
        self.guarded.remove(&port);
        closed
    }

    /// Says that a port that was added has all its sockets: from here on its program leaves nothing to
    /// the kernel, where it is guarded.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn begin_guard(&mut self, port: PortId) -> Result<(), BpfError> {
        let guarded = self.guarded.contains(&port);
        let program = self.programs.get_mut(&port).filter(|_| guarded);
        program.map_or(Ok(()), |program| program.program.set_guarded(true))
    }

    /// Has the kernel tell everything again: of links that were no ports, some was not kept.
    pub fn request_dump(&mut self, now: Instant) {
        self.feed.request_dump(now);
    }

    /// The addresses of this machine and of its IPv4 networks.
    fn local(&self, rib: &Rib) -> HashMap<IpAddr, LocalAddress> {
        let mut local: HashMap<_, _> = rib
            .own_networks()
            .filter(|network| network.addr().is_ipv4())
            .flat_map(shared)
            .map(|address| (address, LocalAddress::Shared))
            .collect();
        for address in rib.own_networks().map(|network| network.addr()) {
            let ends_tunnels = self.tunnel_ends.contains(&address);
            let kind = if ends_tunnels { LocalAddress::EndsTunnels } else { LocalAddress::Host };
            local.insert(address, kind);
        }
        local
    }

    /// Takes a port back whose interface is gone: also where that is not so for others, as in
    /// another namespace, nothing of ours stays on it.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn detach_port(&mut self, port: PortId) -> Result<(), BpfError> {
        if let Some(program) = self.programs.get_mut(&port) {
            program.program.detach();
        }
        self.forwarding.as_mut().map_or(Ok(()), |forwarding| forwarding.remove(port))
    }

    /// Takes what comes in at a port from its workers and leaves nothing of it to the kernel that it
    /// would forward: that is dropped until there are sockets again.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn block_port(&mut self, port: PortId) -> Result<(), BpfError> {
        if let Some(program) = self.programs.get_mut(&port) {
            program.program.set_guarded(true)?;
            program.program.clear_sockets()?;
        }
        self.forwarding.as_mut().map_or(Ok(()), |forwarding| forwarding.remove(port))
    }

    /// Has an interface take the program of its port for queues, too, that it did not have before.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cover_queues(&self, port: PortId) -> Result<(), BpfError> {
        self.programs.get(&port).map_or(Ok(()), |program| program.program.cover_queues())
    }

    /// Returns true if a port has a program, attached or not.
    pub fn has_program(&self, port: PortId) -> bool {
        self.programs.contains_key(&port)
    }

    /// The interface that the program of a port is attached to.
    pub fn attached_to(&self, port: PortId) -> Option<u32> {
        self.programs.get(&port)?.program.interface()
    }

    /// Keeps a port blocked whose interface was not there, or is another now.
    ///
    /// # Errors
    /// See [`XdpError`]; the program is attached nowhere then.
    pub fn block_again(
        &mut self,
        port: PortId,
        to: &Target<'_>,
        rib: &Rib,
    ) -> Result<(), XdpError> {
        let link = to.link;
        let Some(program) = self.programs.get_mut(&port) else {
            return self.load(port, to, rib, true).map(|_| ());
        };
        let mac = link.mac.unwrap_or_default();
        program.program.set_guarded(true)?;
        program.program.attach_again(link.index, mac)?;
        program.mac = mac;
        Ok(())
    }

    /// Attaches the program of a port to the link that came in place of the one that is gone, or was
    /// not there at the start. All its frames go to the kernel before sockets are set.
    ///
    /// # Errors
    /// See [`XdpError`]; the program is attached nowhere then.
    pub fn attach_again(
        &mut self,
        port: PortId,
        to: &Target<'_>,
        rib: &Rib,
    ) -> Result<String, XdpError> {
        let link = to.link;
        let Some(program) = self.programs.get_mut(&port) else {
            return self.load(port, to, rib, false);
        };
        let mac = link.mac.unwrap_or_default();
        program.program.attach_again(link.index, mac)?;
        (program.mac, program.warned_of) = (mac, 0);
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.add(port, link.index, &program.name)?;
        }
        let program = self.programs.get(&port);
        Ok(program.map_or_else(String::new, |program| self.mode_of(port, &program.program)))
    }

    /// Describes where a program runs, and why it does not forward.
    fn mode_of(&self, port: PortId, program: &XdpProgram) -> String {
        let mut mode = format!("{:?} XDP", program.mode()).to_lowercase();
        if let Some(why) = program.generic_reason() {
            mode += &format!(", as its driver refused native xdp: {why}");
        }
        match self.by_workers.get(&port).filter(|_| self.forwarding.is_some()) {
            Some(why) => format!("{mode}; workers forward what comes in here: {why}"),
            None => mode,
        }
    }

    /// Hands the transit traffic of a port's queue over to its socket.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_socket(
        &mut self,
        port: PortId,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<(), BpfError> {
        let program = self.programs.get_mut(&port);
        program.map_or(Ok(()), |program| program.program.set_socket(queue, socket))
    }

    /// Leaves the traffic of a port's queue to the kernel.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn clear_socket(&mut self, port: PortId, queue: u32) -> Result<(), BpfError> {
        let program = self.programs.get_mut(&port);
        program.map_or(Ok(()), |program| program.program.clear_socket(queue))
    }

    /// Hands the transit traffic of queues over to their sockets, but for IP packets of more
    /// than `longest` bytes, which no socket takes.
    pub fn hand_over(
        &mut self,
        sockets: Vec<(PortId, u32, OwnedFd)>,
        longest: u16,
    ) -> Result<(), RouterError> {
        self.longest = longest;
        for (port, program) in &mut self.programs {
            program.program.set_longest(longest)?;
            program.longest = longest;
            // Right before the sockets are there: what needs one is dropped until it is. Until
            // here the kernel has forwarded as it did before the router was started.
            program.program.set_guarded(self.guarded.contains(port))?;
        }
        for (port, queue, socket) in sockets {
            if let Some(program) = self.programs.get_mut(&port) {
                program.program.set_socket(queue, socket.as_fd())?;
            }
        }
        Ok(())
    }

    /// Lets XDP programs forward to the ports that take frames from them, unless something stands
    /// against it now; looks once a second, and whenever links have changed.
    pub fn update_egress_ports(&mut self, rib: &Rib, now: Instant) {
        let Self { forwarding, programs, .. } = self;
        if let Some(forwarding) = forwarding {
            let sent = |out: PortId| {
                let slot = Forwarding::slot(out);
                programs
                    .values()
                    .filter_map(|of| of.program.sent(slot).ok())
                    .map(|s| s.packets)
                    .sum()
            };
            forwarding.look(rib, now, &sent);
        }
    }

    /// Lets XDP programs forward the flows of flowtables at these ports, which are left to the kernel, and at
    /// no others.
    pub fn forward_flows(&mut self, at: &[FlowTarget<'_>], rib: &Rib, now: Instant) {
        self.flows.look(at, rib, now);
    }

    /// Returns true if XDP programs forward flows at a port that is left, or why they cannot.
    pub fn flows(&self, port: PortId) -> Option<Result<(), &str>> {
        self.flows.state(port)
    }

    /// Says what in the configuration stands against forwarding in XDP programs.
    pub fn set_obstacles_of_forwarding(&mut self, obstacles: Vec<&'static str>) {
        match (&mut self.forwarding, &mut self.by_workers_all) {
            (Some(forwarding), _) => forwarding.set_obstacles(obstacles),
            (None, Some(by_workers)) => by_workers.set_obstacles(obstacles),
            (None, None) => {}
        }
    }

    /// Whether XDP programs can forward by themselves at all.
    pub fn can_forward(&self) -> bool {
        self.forwarding.is_some() || self.flows.ports().next().is_some()
    }

    /// Whether packets out of a port are forwarded by XDP programs now.
    pub fn forwards_to(&self, port: PortId) -> bool {
        self.forwarding.as_ref().is_some_and(|forwarding| forwarding.is_open(port))
    }

    /// Says why not, or why for a trial only, if known.
    pub fn why_not_forwarded_to(&self, port: PortId) -> Option<&str> {
        match &self.forwarding {
            Some(forwarding) => forwarding.closed_because(port),
            None => {
                self.attached_to(port).and(self.by_workers_all.as_ref()).map(ByWorkers::because)
            }
        }
    }

    /// Gives all traffic back to the kernel: what comes from now on, it forwards, and what came
    /// before is sent, or in the rings of workers. Each interface keeps a program that passes all as
    /// long as what is returned lives. What was counted can still be asked for.
    pub fn retreat(&mut self) -> Vec<KeptLink> {
        self.flows.detach_all();
        let mut kept = Vec::new();
        for Program { program, name, .. } in self.programs.values_mut() {
            match program.pass_all() {
                Ok(link) => kept.extend(link),
                // It is detached instead.
                Err(error) => tracing::debug!("port {name}: {error}"),
            }
        }
        succession::await_programs();
        kept
    }

    /// Sets the addresses at which tunnels end. True when they are others than before: the
    /// programs should be told then.
    pub fn end_tunnels(&mut self, at: HashSet<IpAddr>) -> bool {
        let changed = self.tunnel_ends != at;
        self.tunnel_ends = at;
        changed
    }

    /// Tells the XDP programs what is for this machine and which VLANs are routed.
    pub fn tell_programs(&mut self, rib: &Rib) {
        let local = self.local(rib);
        let configs = rib.port_configs();
        for (port, program) in &mut self.programs {
            let config = &configs[usize::from(port.0)];
            let vlans = config.vlans.iter().map(|vlan| vlan.id).collect();
            if let Err(error) = program.tell(config.mac, &local, &vlans) {
                tracing::error!("[[port]] {}: {error}", program.name);
            }
        }
        self.warn_of_mtus(rib);
    }

    /// Says at which ports packets may be too long for the sockets.
    pub fn warn_of_mtus(&mut self, rib: &Rib) {
        for (port, link) in rib.port_links() {
            if let Some(program) = self.programs.get_mut(&port) {
                program.warn_of_mtu(link.mtu, self.guarded.contains(&port));
            }
        }
    }

    /// Leaves packets of these prefixes to the kernel, by port, and takes over those of all others.
    pub fn leave_prefixes<'a>(&mut self, of: impl Fn(PortId) -> Option<&'a BTreeSet<IpNet>>) {
        let none = BTreeSet::new();
        let Self { programs, guarded, unpuntable, .. } = self;
        for (port, program) in programs {
            let left = of(*port).unwrap_or(&none);
            let left = if guarded.contains(port) { left.clone() } else { join(left, unpuntable) };
            if let Err(error) = program.leave(&left) {
                tracing::error!("[[port]] {}: {error}", program.name);
            }
        }
    }

    /// Asks for neighbours that workers have packets for.
    pub fn resolve(&mut self, rib: &Rib, batch: &Batch) {
        let neighbours = batch.requests.iter().filter_map(|request| {
            let link = rib.link_towards(request.port, request.vlan, request.address)?;
            Some((link, request.address))
        });
        self.requests.resolve(&neighbours.collect::<Vec<_>>(), batch.left_out);
    }

    /// Sets the prefixes whose packets no worker can give to the kernel. [`Self::leave_prefixes`] has
    /// to follow.
    pub fn set_unpuntable(&mut self, prefixes: BTreeSet<IpNet>) {
        self.unpuntable = prefixes;
    }

    /// Returns true if the program of a port leaves packets to the kernel that no router forwards by
    /// their addresses: it has one, which is not guarded.
    pub fn leaves_special(&self, port: PortId) -> bool {
        self.programs.contains_key(&port) && !self.guarded.contains(&port)
    }

    /// Prefixes whose packets a port leaves to the kernel as no worker could give them to it.
    pub fn unpuntable(&self, port: PortId) -> Option<&BTreeSet<IpNet>> {
        (!self.guarded.contains(&port) && !self.unpuntable.is_empty()).then_some(&self.unpuntable)
    }

    /// Asks for gateways that routes need, and confirms neighbours that are in use.
    pub fn care(&mut self, rib: &Rib, now: Instant) {
        if !self.routes || now < self.next_confirmation {
            return;
        }
        self.next_confirmation = now + CONFIRM_EVERY;
        let mut neighbours = rib.stale_neighbours();
        neighbours.extend(rib.unresolved_gateways());
        neighbours.retain(|(link, _)| *link < wattline_rib::FIRST_STATIC_LINK);
        self.requests.confirm(&neighbours);
    }

    /// Neighbours that workers have packets for and that have not answered, as link and address.
    pub fn unanswered(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        self.requests.unanswered()
    }

    /// Returns statistics.
    pub fn stats(&self) -> KernelStats {
        let (dumps, unreadable) = (self.feed.dumps(), self.feed.unreadable());
        self.requests.add_to(KernelStats { dumps, unreadable, ..KernelStats::default() })
    }

    /// Returns traffic of the programs, by port.
    pub fn xdp_traffic(&self, ports: usize) -> Vec<XdpTraffic> {
        self.xdp_counts.traffic(&self.counted(), ports)
    }

    /// Verdicts of all programs, those of removed ports included.
    pub fn all_verdicts(&self) -> XdpCounters {
        let mut sum = self.gone;
        for program in self.programs.values() {
            sum.merge(&program.program.counters().unwrap_or_default());
        }
        for port in self.flows.ports() {
            sum.merge(&self.flows.counters(port));
        }
        sum
    }

    /// Returns the counts of removed ports.
    pub fn departed(&self) -> Departed {
        self.xdp_counts.departed()
    }

    fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        let last = self.flows.ports().last().map_or(0, |port| port.0 + 1);
        let ports = || (0..self.places.max(last)).map(PortId);
        // First, so that no frame is refused that was not sent yet.
        for out in ports() {
            let refused = |of: &Forwarding| of.forward().refused(Forwarding::slot(out));
            let refused = self.forwarding.as_ref().and_then(|of| refused(of).ok()).unwrap_or(0);
            counted.refused.insert(out, refused + self.flows.refused(out));
        }
        for port in self.flows.ports() {
            for out in ports() {
                counted.sent.insert((port, out), self.flows.sent(port, out));
            }
            counted.no_egress_port.insert(port, self.flows.no_egress_port(port));
        }
        for (port, program) in &self.programs {
            for out in ports() {
                let sent = program.program.sent(Forwarding::slot(out)).unwrap_or_default();
                let of_both = counted.sent.entry((*port, out)).or_default();
                of_both.packets += sent.packets;
                of_both.bytes += sent.bytes;
            }
            let verdicts = program.program.counters().unwrap_or_default();
            let gone = verdicts.iter().find(|(verdict, _)| *verdict == Verdict::NoEgressPort);
            *counted.no_egress_port.entry(*port).or_default() += gone.map_or(0, |(_, count)| count);
        }
        counted
    }

    /// Returns counters of frames that programs forward, by port; nothing where they cannot.
    pub fn forwarded(&self, ports: usize) -> Vec<Option<ForwardedByCpu>> {
        if self.forwarding.is_none() {
            return Vec::new();
        }
        let program = |port: u16| self.programs.get(&PortId(port));
        (0..ports as u16).map(|port| Some(program(port)?.program.forwarded())).collect()
    }

    /// Returns a port's verdicts.
    pub fn verdicts(&self, port: PortId) -> BTreeMap<String, u64> {
        let has_flows = self.flows.ports().any(|it| it == port);
        let mut counters = match self.programs.get(&port).map(|it| it.program.counters()) {
            Some(Ok(counters)) => counters,
            None if has_flows => XdpCounters::default(),
            None | Some(Err(_)) => return BTreeMap::new(),
        };
        counters.merge(&self.flows.counters(port));
        counters.iter().map(|(verdict, count)| (verdict.name().to_owned(), count)).collect()
    }
}

impl Program {
    /// Says, once for each, that an MTU has grown beyond what the sockets were made for.
    fn warn_of_mtu(&mut self, mtu: u32, guarded: bool) {
        let Self { name, longest, .. } = &*self;
        let fate = if guarded { "dropped" } else { "forwarded by XDP programs or the kernel" };
        if mtu > u32::from(*longest) && mtu != self.warned_of {
            let how_long = if mtu <= largest_mtu(0) { " until a restart" } else { "" };
            tracing::warn!(
                "[[port]] {name}: its MTU is now {mtu}, but its sockets take packets of at most \
                 {longest} bytes: longer ones are {fate}{how_long}"
            );
        }
        self.warned_of = mtu;
    }

    fn leave(&mut self, prefixes: &BTreeSet<IpNet>) -> Result<(), BpfError> {
        if self.left == *prefixes {
            return Ok(());
        }
        for prefix in self.left.difference(prefixes) {
            self.program.remove_left(prefix.addr(), prefix.prefix_len())?;
        }
        for prefix in prefixes.difference(&self.left) {
            self.program.add_left(prefix.addr(), prefix.prefix_len())?;
        }
        self.program.set_leaves(!prefixes.is_empty())?;
        self.left.clone_from(prefixes);
        Ok(())
    }

    fn tell(
        &mut self,
        mac: [u8; 6],
        local: &HashMap<IpAddr, LocalAddress>,
        vlans: &HashSet<u16>,
    ) -> Result<(), BpfError> {
        if self.mac != mac && mac != [0; 6] {
            self.program.set_mac(mac)?;
            self.mac = mac;
        }
        for (address, kind) in local {
            if self.local.get(address) != Some(kind) {
                self.program.add_local(*address, *kind)?;
            }
        }
        for address in self.local.keys().filter(|address| !local.contains_key(*address)) {
            self.program.remove_local(*address)?;
        }
        self.local.clone_from(local);
        for vlan in vlans.difference(&self.vlans) {
            self.program.set_vlan(*vlan, true)?;
        }
        for vlan in self.vlans.difference(vlans) {
            self.program.set_vlan(*vlan, false)?;
        }
        self.vlans.clone_from(vlans);
        Ok(())
    }
}

/// Chooses the mode of a program. On a bond the kernel would run it in the drivers of the members,
/// whose frames no socket of the bond takes; outside of drivers it runs at the bond itself.
fn mode_for(link: &Link) -> XdpModeChoice {
    if link.is_bond() { XdpModeChoice::Only(XdpMode::Generic) } else { XdpModeChoice::Auto }
}
