//! The XDP programs of a router's ports.

use super::succession::{self, Inherited};
use super::xdp_counts::{Counted, XdpCounts};
use super::xdp_forward::flows::Flows;
use super::xdp_forward::{BEHIND_BOND, Egress, Forwarding};
use crate::stats::{Departed, XdpTraffic};
use crate::taps::copying::Copying;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use wattline_dataplane::own_addresses::shared;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::{Link, attached_program};
use wattline_ports::afxdp::largest_mtu;
use wattline_rib::Rib;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::{
    Copies, ForwardedByCpu, KeptLink, Leaves, LocalAddress, Routed, Verdict, XdpCounters, XdpError,
    XdpMode, XdpModeChoice, XdpProgram,
};

/// Description of packets with unfinished checksums, and the remedy.
pub(super) const UNFINISHED: &str = "packets come in whose senders leave checksums to hardware that a virtual \
    interface does not have; the kernel forwards them. `ethtool -K INTERFACE tx off` at the far end lets \
    Wattline forward them";

/// XDP programs by port, and the state that all of them share.
pub(super) struct Programs {
    each: BTreeMap<PortId, Program>,
    /// Forwarders of transit packets: the programs or the workers.
    pub egress: Egress,
    /// Flows of flowtables, at ports that are left to the kernel.
    pub flows: Flows,
    /// True if workers see the packets that begin TCP connections.
    clamps_mss: bool,
    /// Copies of forwarded packets, for captures and traces.
    pub copying: Copying,
    /// Addresses of this machine at which tunnels end.
    tunnel_ends: HashSet<IpAddr>,
    /// Addresses of other machines for which the kernel answers at ports.
    proxied: Vec<(PortId, IpAddr)>,
    /// Attachments inherited from the previous router.
    pub inherited: Inherited,
    /// The longest IP packet that sockets take, once traffic is handed over.
    longest: u16,
    /// One more than the highest port number so far.
    places: u16,
    xdp_counts: XdpCounts,
    /// Verdicts of removed programs.
    gone: XdpCounters,
}

/// The link that a program is attached to.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// Name of the port.
    pub name: &'a str,
    pub link: &'a Link,
    /// Prefixes whose packets the program leaves to the kernel.
    pub left: &'a BTreeSet<IpNet>,
    /// Sections for which workers forward the received packets, if any.
    pub by_workers: &'a str,
    /// True if the kernel may forward no frame that the port receives.
    pub is_guarded: bool,
}

/// XDP program of one port, and the contents of its maps.
pub(super) struct Program {
    program: XdpProgram,
    name: String,
    mac: [u8; 6],
    local: HashMap<IpAddr, LocalAddress>,
    vlans: HashSet<u16>,
    /// Prefixes whose packets are left to the kernel.
    left: BTreeSet<IpNet>,
    /// Treatment of packets by route.
    routes: BTreeMap<IpNet, Routed>,
    /// Longest IP packet that is taken over.
    longest: u16,
    /// Reasons why the program does not forward by itself, if any.
    by_workers: String,
    /// True if the kernel may forward no frame that the port receives.
    is_guarded: bool,
    /// MTU at the last check, so that each change is logged once.
    warned_of: u32,
    /// True once packets with unfinished checksums have been received, which are left to the
    /// kernel.
    sees_unfinished: bool,
}

impl Programs {
    /// Creates an empty set of programs.
    pub fn new(egress: Egress, flows: bool, clamps_mss: bool) -> Self {
        let copies = egress.forwarding().map(|it| it.forward().copies().clone());
        let copies = copies.or_else(|| Copies::new().map(Arc::new).ok());
        Self {
            each: BTreeMap::new(),
            egress,
            flows: Flows::new(flows, copies.clone()),
            clamps_mss,
            copying: Copying::new(copies),
            tunnel_ends: HashSet::new(),
            proxied: Vec::new(),
            inherited: Inherited::default(),
            longest: u16::MAX,
            places: 0,
            xdp_counts: XdpCounts::default(),
            gone: XdpCounters::default(),
        }
    }

    /// Returns the program of a port, attached or not.
    pub fn xdp(&self, port: PortId) -> Option<&XdpProgram> {
        self.each.get(&port).map(|it| &it.program)
    }

    /// Attaches the program of a port to a link, and loads it first if the port has none. If
    /// `blocked`, it leaves the kernel nothing to forward from the first frame on. Otherwise all
    /// frames that the program does not forward go to the kernel until sockets are set. Returns a
    /// description of its mode.
    ///
    /// # Errors
    /// See [`XdpError`]; the program is attached nowhere then.
    pub fn attach(
        &mut self,
        port: PortId,
        to: &Target<'_>,
        rib: &Rib,
        blocked: bool,
    ) -> Result<String, XdpError> {
        match self.each.get_mut(&port) {
            Some(it) => {
                if blocked {
                    it.program.set_guarded(true)?;
                }
                let mac = to.link.mac.unwrap_or_default();
                it.program.attach_again(to.link.index, mac)?;
                (it.mac, it.warned_of) = (mac, 0);
            }
            None => self.load(port, to, rib, blocked)?,
        }
        let program = self.each.get(&port);
        Ok(program.map_or_else(String::new, |it| mode_of(it, self.egress.by_programs())))
    }

    /// Loads the program of a port that has none, fills its maps and then attaches it.
    fn load(
        &mut self,
        port: PortId,
        to: &Target<'_>,
        rib: &Rib,
        blocked: bool,
    ) -> Result<(), XdpError> {
        let Target { name, link, left, is_guarded, .. } = *to;
        let kept = self.inherited.take_for(link.index);
        // Asks first, since loading costs far more and an occupied interface is tried once a
        // second.
        if let (None, Ok(Some(_))) = (&kept, attached_program(link.index)) {
            return Err(XdpError::Occupied { ifindex: link.index });
        }
        let mac = link.mac.unwrap_or_default();
        let bond = link.is_bond().then_some(BEHIND_BOND);
        let by_workers: Vec<&str> =
            [to.by_workers].into_iter().filter(|why| !why.is_empty()).chain(bond).collect();
        let forward = self.egress.forwarding().filter(|_| by_workers.is_empty());
        let forward = forward.map(Forwarding::forward);
        let local = self.local_addresses(port, rib);
        let vlans: HashSet<u16> = rib.vlans_of(link.index).collect();
        let (longest, clamps_mss) = (self.longest, self.clamps_mss);
        let mut fill = |program: &XdpProgram| {
            program.set_longest(longest)?;
            program.set_guarded(blocked)?;
            for (address, kind) in &local {
                program.add_local(*address, *kind)?;
            }
            for vlan in &vlans {
                program.set_vlan(*vlan, true)?;
            }
            for prefix in left {
                program.add_left(prefix.addr(), prefix.prefix_len())?;
            }
            program.set_leaves(Leaves::Unfinished, link.is_virtual)?;
            program.set_leaves(Leaves::Openings, clamps_mss)?;
            program.set_leaves(Leaves::Prefixes, !left.is_empty())
        };
        let taken_over = kept.map(|kept| {
            let program = XdpProgram::load_in_place_of(kept, mac, forward)?;
            fill(&program)?;
            Ok::<_, XdpError>(program)
        });
        let program = match taken_over {
            Some(Ok(program)) => {
                tracing::info!("port {name}: taken over from the last router");
                program
            }
            other => {
                if let Some(Err(error)) = other {
                    tracing::warn!(
                        "port {name}: cannot be taken over from the last router: {error}"
                    );
                }
                XdpProgram::load_prepared(link.index, mac, mode_for(link), forward, &mut fill)?
            }
        };
        self.places = self.places.max(port.0 + 1);
        let program = Program {
            program,
            name: name.to_owned(),
            mac,
            local,
            vlans,
            left: left.clone(),
            routes: BTreeMap::new(),
            longest,
            by_workers: by_workers.join(", "),
            is_guarded,
            warned_of: 0,
            sees_unfinished: false,
        };
        self.each.insert(port, program);
        Ok(())
    }

    /// Removes a port: detaches its program and closes the port to the other programs. Afterwards
    /// no frame is under way to its sockets.
    ///
    /// # Errors
    /// Returns errors of the kernel only; the program is removed in any case.
    pub fn remove_port(&mut self, port: PortId) -> Result<(), BpfError> {
        self.detach(port);
        let closed = self.egress.forwarding_mut().map_or(Ok(()), |it| it.remove(port));
        self.flows.detach(port);
        // The counts are final once no program that began before is still running.
        succession::await_programs();
        let counted = self.counted();
        self.xdp_counts.remove(port, &counted);
        self.gone.merge(&self.flows.remove(port));
        if let Some(program) = self.each.remove(&port) {
            self.gone.merge(&program.program.counters().unwrap_or_default());
        }
        closed
    }

    /// Detaches the program of a port, if it has one. If the interface was moved to another
    /// namespace, the program is removed from it.
    pub fn detach(&mut self, port: PortId) {
        if let Some(it) = self.each.get_mut(&port) {
            it.program.detach();
        }
    }

    /// Leaves IP packets of more than `longest` bytes, which are too long for the sockets, to the
    /// kernel.
    ///
    /// # Errors
    /// Returns errors of the kernel only.
    pub fn set_longest(&mut self, longest: u16) -> Result<(), BpfError> {
        self.longest = longest;
        for it in self.each.values_mut() {
            it.program.set_longest(longest)?;
            it.longest = longest;
        }
        Ok(())
    }

    /// Opens to XDP programs the ports that can take frames from them now, and closes the others.
    /// Checks once a second and whenever links have changed.
    pub fn update_egress_ports(&mut self, rib: &Rib, now: Instant) {
        let Self { egress, each, .. } = self;
        if let Egress::ByPrograms(forwarding) = egress {
            let sent = |out: PortId| {
                let slot = Forwarding::slot(out);
                each.values().filter_map(|of| of.program.sent(slot).ok()).map(|s| s.packets).sum()
            };
            forwarding.poll(rib, now, &sent);
        }
    }

    /// Returns why programs forward nothing out of a port, or only on trial, if known.
    pub fn closed_egress(&self, port: PortId) -> Option<&str> {
        match &self.egress {
            Egress::ByPrograms(forwarding) => forwarding.closed_because(port),
            Egress::ByWorkers(why) => self.xdp(port)?.interface().map(|_| why.because()),
        }
    }

    /// Gives all traffic back to the kernel, which forwards every packet that arrives from now on.
    /// Earlier packets have been sent or are in the rings of workers. Each interface keeps a
    /// program that passes all packets as long as the returned links live. Counts can still be
    /// read.
    pub fn retreat(&mut self) -> Vec<KeptLink> {
        self.flows.detach_all();
        let mut kept = Vec::new();
        for Program { program, name, .. } in self.each.values_mut() {
            match program.pass_all() {
                Ok(link) => kept.extend(link),
                // The program is detached instead.
                Err(error) => tracing::debug!("port {name}: {error}"),
            }
        }
        succession::await_programs();
        kept
    }

    /// Sets the addresses at which tunnels end, and updates the programs if they have changed.
    pub fn end_tunnels(&mut self, at: HashSet<IpAddr>, rib: &Rib) {
        if self.tunnel_ends != at {
            self.tunnel_ends = at;
            self.publish_addresses(rib);
        }
    }

    /// Sets the addresses of other machines for which the kernel answers at ports, and updates the
    /// programs if they have changed.
    pub fn set_proxied(&mut self, proxied: Vec<(PortId, IpAddr)>, rib: &Rib) {
        if self.proxied != proxied {
            self.proxied = proxied;
            self.publish_addresses(rib);
        }
    }

    /// Returns the addresses of this machine, shared addresses of its IPv4 networks, and addresses
    /// for which it answers at a port.
    fn local_addresses(&self, port: PortId, rib: &Rib) -> HashMap<IpAddr, LocalAddress> {
        let proxied = self.proxied.iter().filter(|(at, _)| *at == port);
        let mut local: HashMap<_, _> =
            proxied.map(|(_, address)| (*address, LocalAddress::Proxied)).collect();
        let shared = rib.own_networks().filter(|network| network.addr().is_ipv4()).flat_map(shared);
        local.extend(shared.map(|address| (address, LocalAddress::Shared)));
        for address in rib.own_networks().map(|network| network.addr()) {
            let ends_tunnels = self.tunnel_ends.contains(&address);
            let kind = if ends_tunnels { LocalAddress::EndsTunnels } else { LocalAddress::Host };
            local.insert(address, kind);
        }
        local
    }

    /// Writes the addresses of this machine and the routed VLANs to the XDP programs.
    pub fn publish_addresses(&mut self, rib: &Rib) {
        let configs = rib.port_configs();
        for port in self.ports() {
            let local = self.local_addresses(port, rib);
            let Some(program) = self.each.get_mut(&port) else { continue };
            let config = &configs[usize::from(port.0)];
            let vlans = config.vlans.iter().map(|vlan| vlan.id).collect();
            if let Err(error) = program.publish_addresses(config.mac, &local, &vlans) {
                tracing::error!("[[port]] {}: {error}", program.name);
            }
        }
        self.warn_of_mtus(rib);
    }

    /// Warns of ports at which packets may be too long for the sockets.
    pub fn warn_of_mtus(&mut self, rib: &Rib) {
        for (port, link) in rib.port_links() {
            if let Some(program) = self.each.get_mut(&port) {
                program.warn_of_mtu(link.mtu);
            }
        }
    }

    /// Warns once of each port whose senders leave checksums unfinished. One of 65,536 finished
    /// checksums looks the same.
    pub fn warn_of_unfinished(&mut self) {
        for Program { program, name, sees_unfinished, .. } in self.each.values_mut() {
            let are_unfinished = || {
                let counters = program.counters().unwrap_or_default();
                let all: u64 = counters.iter().map(|(_, count)| count).sum();
                counters.get(Verdict::Unfinished) > 1 + all / 8192
            };
            if !*sees_unfinished && are_unfinished() {
                *sees_unfinished = true;
                tracing::warn!("port {name}: {UNFINISHED}");
            }
        }
    }

    /// Returns true if senders at a port leave checksums unfinished.
    pub fn sees_unfinished(&self, port: PortId) -> bool {
        self.each.get(&port).is_some_and(|program| program.sees_unfinished)
    }

    /// Leaves packets of each port's prefixes to the kernel, and takes over all other packets.
    pub fn leave_prefixes<'a>(&mut self, of: impl Fn(PortId) -> Option<&'a BTreeSet<IpNet>>) {
        let none = BTreeSet::new();
        for (port, program) in &mut self.each {
            if let Err(error) = program.leave(of(*port).unwrap_or(&none)) {
                tracing::error!("[[port]] {}: {error}", program.name);
            }
        }
    }

    /// Returns the ports with a program, attached or not.
    pub fn ports(&self) -> Vec<PortId> {
        self.each.keys().copied().collect()
    }

    /// Returns true if the program of a port itself forwards.
    pub fn does_forward(&self, port: PortId) -> bool {
        self.each.get(&port).is_some_and(|it| it.program.does_forward())
    }

    /// Sets the treatment of packets by route at a port. `redirects` is true if the kernel sends
    /// IPv4 redirects by its interface.
    pub fn set_routes(&mut self, port: PortId, routes: BTreeMap<IpNet, Routed>, redirects: bool) {
        let Some(program) = self.each.get_mut(&port) else { return };
        if let Err(error) = program.set_routes(routes, redirects) {
            tracing::error!("[[port]] {}: {error}", program.name);
        }
    }

    /// Returns traffic of the programs, by port.
    pub fn xdp_traffic(&self, ports: usize) -> Vec<XdpTraffic> {
        self.xdp_counts.traffic(&self.counted(), ports)
    }

    /// Returns the verdicts of all programs, those of removed ports included.
    pub fn all_verdicts(&self) -> XdpCounters {
        let mut sum = self.gone;
        for program in self.each.values() {
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
        let flows = &self.flows;
        let last = flows.ports().last().map_or(0, |port| port.0 + 1);
        let ports = || (0..self.places.max(last)).map(PortId);
        // Read before the sent frames, so that the counts never show more refused than sent frames.
        for out in ports() {
            let refused = |of: &Forwarding| of.forward().refused(Forwarding::slot(out)).ok();
            let refused = self.egress.forwarding().and_then(refused).unwrap_or(0);
            counted.refused.insert(out, refused + flows.refused(out));
        }
        for port in flows.ports() {
            for out in ports() {
                counted.sent.insert((port, out), flows.sent(port, out));
            }
            counted.no_egress_port.insert(port, flows.no_egress_port(port));
        }
        for (port, program) in &self.each {
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

    /// Returns counters of frames that programs forward, by port; empty if they do not forward.
    pub fn forwarded(&self, ports: usize) -> Vec<Option<ForwardedByCpu>> {
        if !self.egress.by_programs() {
            return Vec::new();
        }
        let program = |port: u16| self.each.get(&PortId(port));
        (0..ports as u16).map(|port| Some(program(port)?.program.forwarded())).collect()
    }

    /// Returns true if programs forward anything by themselves.
    pub fn any_forward(&self) -> bool {
        self.egress.by_programs() || self.flows.ports().next().is_some()
    }

    /// Returns a port's verdicts.
    pub fn verdicts(&self, port: PortId) -> BTreeMap<String, u64> {
        let flows = &self.flows;
        let has_flows = flows.ports().any(|it| it == port);
        let mut counters = match self.each.get(&port).map(|it| it.program.counters()) {
            Some(Ok(counters)) => counters,
            None if has_flows => XdpCounters::default(),
            None | Some(Err(_)) => return BTreeMap::new(),
        };
        counters.merge(&flows.counters(port));
        counters.iter().map(|(verdict, count)| (verdict.name().to_owned(), count)).collect()
    }
}

impl Program {
    /// Warns once of each change to an MTU that exceeds the sockets' frame size.
    fn warn_of_mtu(&mut self, mtu: u32) {
        let Self { name, longest, is_guarded, .. } = &*self;
        let fate = if *is_guarded { "dropped" } else { "forwarded by XDP programs or the kernel" };
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
        self.program.set_leaves(Leaves::Prefixes, !prefixes.is_empty())?;
        self.left.clone_from(prefixes);
        Ok(())
    }

    fn set_routes(
        &mut self,
        routes: BTreeMap<IpNet, Routed>,
        redirects: bool,
    ) -> Result<(), BpfError> {
        for prefix in self.routes.keys().filter(|prefix| !routes.contains_key(prefix)) {
            self.program.remove_route(prefix.addr(), prefix.prefix_len())?;
        }
        for (prefix, routed) in &routes {
            if self.routes.get(prefix) != Some(routed) {
                self.program.add_route(prefix.addr(), prefix.prefix_len(), *routed)?;
            }
        }
        self.program.set_leaves(Leaves::Routes, !routes.is_empty())?;
        self.program.set_leaves(Leaves::SameInterface, redirects)?;
        self.routes = routes;
        Ok(())
    }

    fn publish_addresses(
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

/// Describes the mode of a program, and why it does not forward if programs of other ports do.
fn mode_of(Program { program, by_workers, .. }: &Program, others_forward: bool) -> String {
    let mut mode = format!("{:?} XDP", program.mode()).to_lowercase();
    if let Some(why) = program.generic_reason() {
        mode += &format!(", as its driver refused native xdp: {why}");
    }
    if others_forward && !by_workers.is_empty() {
        mode += &format!("; workers forward received packets: {by_workers}");
    }
    mode
}

/// Chooses the mode of a program: generic on a bond, where it runs at the bond itself. In native
/// mode the kernel would run it in the members' drivers, whose frames no socket of the bond takes.
fn mode_for(link: &Link) -> XdpModeChoice {
    if link.is_bond() { XdpModeChoice::Only(XdpMode::Generic) } else { XdpModeChoice::Auto }
}
