//! Routing state: turns events of the kernel and the configuration into the workers' tables.
//!
//! This is pure logic. [`Rib::apply`] takes an event, and [`Rib::commit`] writes all changes since
//! the last call into [`Routes`]. There is no clock, socket or thread; recorded events give the
//! same tables again.
//!
//! - Of several routes to a prefix, the best *usable* one applies: one whose link is running.
//! - A gateway or on-link destination is a next hop with its own id. When its neighbour is
//!   resolved, moves or is lost, only the meaning of the id changes, however many routes use it.
//! - A neighbour of a connected prefix becomes a host route while it is known.
//! - Own addresses, and links that are not ports, lead to the kernel.
//!
//! `wattline-router` supplies the events from the kernel and from its configuration.
#![forbid(unsafe_code)]

mod addresses;
mod audit;
mod audited;
mod hops;
mod links;
mod local_sources;
mod path_info;
mod prefixes;
mod selection;
mod source;
#[cfg(test)]
mod tests;
mod view;

pub use audit::{Treatment, route_errors};
pub use links::{ClampMss, FIRST_STATIC_LINK, PortSpec};
pub use local_sources::Local;
pub use path_info::PathInfo;
pub use source::Source;
pub use view::{Egress, NeighbourView, RouteView};

use addresses::Addresses;
use audited::Audited;
use hops::{HopKey, Hops};
use ipnet::IpNet;
use links::Links;
use local_sources::LocalSources;
use prefixes::{Candidate, Prefixes};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use wattline_dataplane::flow_hash::KernelHash;
use wattline_dataplane::forwarding::PortConfig;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::own_addresses::shared;
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::{IdRange, RouteError, Routes};
use wattline_dataplane::source_addresses::{PortInterface, SourceAddress};
use wattline_linux::netlink::{
    Address, Event, Hop, Link, Neighbour, Placement, Route, RouteKind, Table,
};

/// State of a neighbour.
#[derive(Debug, Clone)]
struct NeighbourState {
    mac: Option<[u8; 6]>,
    stale: bool,
    source: Source,
    generation: u32,
}

/// Routing state.
pub struct Rib {
    links: Links,
    addresses: Addresses,
    /// Neighbours by address first, so that those within a prefix are a range.
    neighbours: BTreeMap<(IpAddr, u32), NeighbourState>,
    prefixes: Prefixes,
    hops: Hops,
    /// Prefixes that [`Self::commit`] must process again.
    dirty_prefixes: HashSet<IpNet>,
    dirty_hops: HashSet<HopKey>,
    ports_changed: bool,
    kernel_hash: Option<KernelHash>,
    hash_changed: bool,
    port_changes: u64,
    /// True if an event did not fit the known state.
    missed_change: bool,
    /// Prefixes of more than one address that the kernel looks up before all others.
    local_networks: BTreeSet<IpNet>,
    local_sources: LocalSources,
    /// Prefixes that are left to the kernel and have a route with its own MTU.
    left_with_mtu: HashSet<IpNet>,
    /// IPv4 prefixes in the workers' tables whose packets are discarded, or left to the kernel
    /// because only it understands their routes.
    discarded: BTreeSet<IpNet>,
    /// Prefixes that are left to the kernel because a gateway is, or was, in a local route, with
    /// the number of changes.
    by_own_gateways: BTreeSet<IpNet>,
    own_gateway_changes: u64,
    /// Prefixes that are left to the kernel because no next-hop id was free.
    refused: BTreeSet<IpNet>,
    /// True if the next hops that leave packets to the kernel have reserved ids, so that they never
    /// lack one.
    has_reserved: bool,
    /// Number of the last dump of each source.
    generations: [u32; 2],
    /// True for each source whose dump has not ended.
    dumping: [bool; 2],
    /// Number of the last separate dump of neighbours of each source.
    neighbour_generations: [u32; 2],
    audited: Audited,
}

impl Rib {
    /// Makes a routing state that contains only the ports.
    pub fn new(ports: Vec<PortSpec>) -> Self {
        Self {
            links: Links::new(ports),
            addresses: Addresses::default(),
            neighbours: BTreeMap::new(),
            prefixes: Prefixes::default(),
            hops: Hops::default(),
            dirty_prefixes: HashSet::new(),
            dirty_hops: HashSet::new(),
            ports_changed: true,
            kernel_hash: None,
            hash_changed: false,
            port_changes: 0,
            missed_change: false,
            local_networks: BTreeSet::new(),
            local_sources: LocalSources::default(),
            left_with_mtu: HashSet::new(),
            discarded: BTreeSet::new(),
            by_own_gateways: BTreeSet::new(),
            own_gateway_changes: 0,
            refused: BTreeSet::new(),
            has_reserved: false,
            generations: [0; 2],
            dumping: [false; 2],
            neighbour_generations: [0; 2],
            audited: Audited::default(),
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, source: Source, event: Event) {
        let generation = self.generations[source as usize];
        match event {
            Event::DumpBegin => {
                self.generations[source as usize] = generation.wrapping_add(1);
                self.dumping[source as usize] = true;
                self.apply(source, Event::NeighbourDumpBegin);
            }
            Event::DumpEnd => {
                self.dumping[source as usize] = false;
                self.sweep(source, generation);
                self.sweep_neighbours(source);
            }
            Event::NeighbourDumpBegin => {
                let number = &mut self.neighbour_generations[source as usize];
                *number = number.wrapping_add(1);
            }
            Event::NeighbourDumpEnd => self.sweep_neighbours(source),
            Event::Link(link) => self.link(link, generation),
            Event::LinkGone(index) => self.link_gone(index),
            Event::Address(address) => self.address(address, source, generation),
            Event::AddressGone(address) => self.address_gone(&address, source),
            Event::Neighbour(neighbour) => self.neighbour(neighbour, source),
            Event::NeighbourGone { link, address } => self.neighbour_gone(link, address, source),
            Event::LinkParameters { link, ipv6, ignores_linkdown } => {
                if self.links.set_ignores_linkdown(link, ipv6, ignores_linkdown) {
                    self.link_changed(link);
                }
            }
            Event::Route { route, placement } => {
                let prefix = route.prefix;
                if forwardable(prefix) {
                    let candidate = Candidate::new(route, source, generation);
                    self.missed_change |= self.prefixes.add(prefix, candidate, placement);
                    self.route_changed(prefix);
                }
            }
            Event::RouteGone(route) => {
                let prefix = route.prefix;
                let candidate = Candidate::new(route, source, generation);
                self.missed_change |= self.prefixes.remove(prefix, &candidate);
                self.route_changed(prefix);
            }
            Event::Nexthop { id, kind, hops } => self.nexthop(id, Some((kind, &hops))),
            Event::NexthopGone(id) => self.nexthop(id, None),
        }
    }

    /// Writes all changes into the workers' tables and publishes them.
    ///
    /// # Errors
    /// Returns the changes that the tables refused; all others have been made.
    pub fn commit(&mut self, routes: &mut Routes) -> Result<(), Vec<RouteError>> {
        let mut errors = Vec::new();
        if std::mem::take(&mut self.ports_changed) {
            self.port_changes += 1;
            routes.set_ports(self.port_configs());
            routes.set_own_addresses(self.own_networks());
            routes.set_source_addresses(self.source_addresses());
        }
        if std::mem::take(&mut self.hash_changed) {
            routes.set_kernel_hash(self.kernel_hash);
        }
        if !std::mem::replace(&mut self.has_reserved, true) {
            for range in [IdRange::Byte, IdRange::Any] {
                let held = self.hops.hold(&HopKey::Punt, range, &|_| NextHop::Punt, routes);
                errors.extend(held.err());
            }
        }
        for key in std::mem::take(&mut self.dirty_hops) {
            let meaning = self.meaning(&key);
            self.hops.update(&key, &meaning, routes, &mut errors);
        }
        for prefix in std::mem::take(&mut self.dirty_prefixes) {
            self.audited.note(prefix);
            self.install(prefix, routes, &mut errors);
        }
        // Ids that became free are given to the prefixes that were refused one.
        let free = routes.free_ids();
        for prefix in self.refused.iter().copied().take(free).collect::<Vec<_>>() {
            self.install(prefix, routes, &mut errors);
        }
        errors.extend(routes.publish().err().into_iter().flatten());
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns true if [`Self::commit`] has work to do.
    pub fn has_changes(&self) -> bool {
        let has_dirty = !self.dirty_prefixes.is_empty() || !self.dirty_hops.is_empty();
        self.ports_changed || self.hash_changed || has_dirty
    }

    /// Returns true, once, after an event that did not fit the known state: a change was missed,
    /// and the kernel's tables must be read again.
    pub fn take_missed_change(&mut self) -> bool {
        std::mem::take(&mut self.missed_change)
    }

    /// Returns gateways on ports whose neighbour is unknown, as link and address.
    pub fn unresolved_gateways(&self) -> Vec<(u32, IpAddr)> {
        let unknown = |key: &HopKey| match key {
            HopKey::Gateway { link, address, .. } if self.links.port(*link).is_some() => {
                self.mac(*link, *address).is_none().then_some((*link, *address))
            }
            _ => None,
        };
        self.hops.keys().filter_map(unknown).collect()
    }

    /// Returns neighbours in use that the kernel is about to forget, because it does not see the
    /// workers' packets.
    pub fn stale_neighbours(&self) -> Vec<(u32, IpAddr)> {
        let stale = self.neighbours.iter().filter(|(_, state)| state.stale);
        stale
            .map(|((address, link), _)| (*link, *address))
            .filter(|(link, address)| self.hops.of_neighbour(*link, *address).next().is_some())
            .collect()
    }

    /// Returns the link through which a packet leaves `port` for the neighbour `address`: the
    /// port's own link, or a VLAN subinterface of it.
    pub fn link_towards(&self, port: PortId, vlan: u16, address: IpAddr) -> Option<u32> {
        if vlan != 0 {
            return self.links.of_vlan(port, vlan);
        }
        let on_link = self
            .on_link(address)
            .map(|(link, _)| link)
            .filter(|link| self.links.port(*link) == Some(port));
        on_link.or_else(|| self.links.of_port(port))
    }

    /// Returns all addresses of this machine, with their prefix lengths.
    pub fn own_networks(&self) -> impl Iterator<Item = IpNet> {
        self.addresses.networks()
    }

    /// Returns the prefixes of routes whose gateways are, or were, in local routes.
    pub fn by_own_gateways(&self) -> &BTreeSet<IpNet> {
        &self.by_own_gateways
    }

    /// Returns the number of changes of [`Self::local`], except those caused by addresses, and of
    /// [`Self::by_own_gateways`].
    pub fn local_changes(&self) -> u64 {
        self.local_sources.changes() + self.own_gateway_changes
    }

    /// Returns the prefixes of local routes, as sources.
    pub fn local(&self) -> Local {
        let networks: Vec<IpNet> = self.own_networks().collect();
        self.local_sources.by_origin(&networks)
    }

    /// Returns the sources, within the default route of IPv4, whose packets a loose reverse-path
    /// filter drops: sources with discarding routes. `None` without a default route, when it drops
    /// more.
    pub fn loosely_dropped(&self) -> Option<BTreeSet<IpNet>> {
        let default = IpNet::V4(ipnet::Ipv4Net::default());
        let hop = self.prefixes.get(default)?.installed.as_ref()?;
        let leads =
            matches!(hop, HopKey::Gateway { .. } | HopKey::OnLink { .. } | HopKey::Group(_));
        leads.then(|| self.discarded.clone())
    }

    /// Returns true if a link has an IPv4 address.
    pub fn has_ipv4(&self, link: u32) -> bool {
        self.addresses.networks_on(link).any(|network| network.addr().is_ipv4())
    }

    /// Returns the number of commits that changed links or addresses.
    pub fn port_changes(&self) -> u64 {
        self.port_changes
    }

    /// Returns the number of known prefixes, installed or not.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns the links of the present routes with several next hops, 0 for members without a
    /// link; repetitions are possible.
    pub fn links_of_groups(&self) -> impl Iterator<Item = u32> {
        self.hops.links_of_groups()
    }

    /// Returns true if a route in use has its own MTU, including routes that only the kernel uses.
    pub fn has_route_mtus(&self) -> bool {
        self.hops.has_route_mtus() || !self.left_with_mtu.is_empty()
    }

    /// Returns the links that are ports, with the numbers of the ports.
    pub fn port_links(&self) -> impl Iterator<Item = (PortId, &Link)> {
        self.links.port_links()
    }

    /// Returns the link of a port; `None` if it has none.
    pub fn link_of(&self, port: PortId) -> Option<&Link> {
        self.links.port_links().find(|(id, _)| *id == port).map(|(_, link)| link)
    }

    /// Returns the numbers and names of the port's link, or of the link with its name, and of the
    /// VLAN subinterfaces on it.
    pub fn interfaces_of(&self, port: PortId) -> Vec<(u32, String)> {
        let own = self.link_of(port).or_else(|| self.link_named_as(port));
        own.map_or_else(Vec::new, |link| self.links.names_of_those_on(link.index))
    }

    /// Returns the port and VLAN (0 without a tag) whose interface a link is, if any.
    pub fn interface(&self, link: u32) -> Option<PortInterface> {
        self.links.interface(link)
    }

    /// Returns the ids of the VLANs with subinterfaces on a link.
    pub fn vlans_of(&self, link: u32) -> impl Iterator<Item = u16> {
        self.links.vlans_on(link)
    }

    /// Returns true if there is a link with this number.
    pub fn has_link(&self, index: u32) -> bool {
        self.links.contains(index)
    }

    /// Returns the link with the configured name of a port, even if it is not the port now; without
    /// one, the link that was the port and has been renamed.
    pub fn link_named_as(&self, port: PortId) -> Option<&Link> {
        self.links.named_as(port)
    }

    /// Makes a link the port, or leaves the port without a link. Packets to a link that is not a
    /// port go to the kernel. At first, the port is the first link seen with its name. When that
    /// link is gone, the port has none until the next call.
    pub fn serve(&mut self, port: PortId, link: Option<u32>) {
        let before = self.links.of_port(port);
        self.links.serve(port, link);
        for index in [before, link].into_iter().flatten() {
            self.link_changed(index);
        }
    }

    /// Sends nothing more to a port, but still accepts its packets, while workers empty its queues.
    /// [`Self::serve`] ends this.
    pub fn retire(&mut self, port: PortId) {
        self.links.retire(port);
        if let Some(index) = self.links.of_port(port) {
            self.link_changed(index);
        }
    }

    /// Adds a port to the configuration, without a link until [`Self::serve`] is called, or, with
    /// `None`, removes one. The ids of all others are kept.
    pub fn set_port(&mut self, port: PortId, spec: Option<PortSpec>) {
        self.serve(port, None);
        self.links.set_port(port, spec);
        self.ports_changed = true;
    }

    /// Sets the kernel's hash of flows, if it is known.
    pub fn set_kernel_hash(&mut self, hash: Option<KernelHash>) {
        self.hash_changed |= self.kernel_hash != hash;
        self.kernel_hash = hash;
    }

    fn sweep(&mut self, source: Source, generation: u32) {
        let old = |entry: Source, number: u32| entry == source && number != generation;
        for prefix in self.prefixes.sweep(&old) {
            self.route_changed(prefix);
        }
        for address in self.addresses.older_than(generation, source) {
            self.address_gone(&address, source);
        }
        if source == Source::Kernel {
            for index in self.links.older_than(generation) {
                self.link_gone(index);
            }
        }
    }

    fn sweep_neighbours(&mut self, source: Source) {
        let generation = self.neighbour_generations[source as usize];
        let old = |state: &NeighbourState| state.source == source && state.generation != generation;
        let old = self.neighbours.iter().filter(|(_, state)| old(state)).map(|(key, _)| *key);
        for (address, link) in old.collect::<Vec<_>>() {
            self.neighbour_gone(link, address, source);
        }
    }

    fn link(&mut self, link: Link, generation: u32) {
        let index = link.index;
        let before = self.links.mtu(index);
        if self.links.set(link, generation) {
            self.link_changed(index);
        }
        // The kernel then changes MTUs of IPv6 routes without a notification (`rt6_mtu_change`).
        let is_other = before.is_some_and(|before| self.links.mtu(index) != Some(before));
        self.missed_change |= is_other && self.has_route_mtus();
    }

    fn link_gone(&mut self, index: u32) {
        self.links.remove(index);
        let on_it = |key: &&(IpAddr, u32)| key.1 == index;
        let neighbours: Vec<_> = self.neighbours.keys().filter(on_it).copied().collect();
        for (address, link) in neighbours {
            let source = self.neighbours[&(address, link)].source;
            self.neighbour_gone(link, address, source);
        }
        self.link_changed(index);
    }

    /// Marks everything that uses a link as changed. This is rare, so there is no index for it.
    fn link_changed(&mut self, index: u32) {
        self.ports_changed = true;
        // A VLAN subinterface depends on the link below it.
        let affected = self.links.with_those_above(index);
        let Self { prefixes, hops, dirty_prefixes, dirty_hops, neighbours, .. } = self;
        dirty_prefixes.extend(prefixes.over(&affected));
        dirty_hops.extend(hops.keys().filter(|key| key.is_over(&affected)).cloned());
        // Neighbours on other links are affected too: if a route has two links, the remaining link
        // may now lead directly to them.
        dirty_prefixes.extend(neighbours.keys().map(|(address, _)| IpNet::from(*address)));
    }

    fn address(&mut self, address: Address, source: Source, generation: u32) {
        self.addresses.add(&address, source, generation, self.dumping[source as usize]);
        // This is done even for a known address, since its routes must survive the next sweep.
        for route in local_routes(&address, source) {
            let prefix = route.prefix;
            self.prefixes.add(prefix, Candidate::new(route, source, generation), Placement::Last);
            self.route_changed(prefix);
        }
        self.ports_changed = true;
    }

    fn address_gone(&mut self, address: &Address, source: Source) {
        self.addresses.remove(address, source);
        for route in local_routes(address, source) {
            let prefix = route.prefix;
            self.prefixes.remove(prefix, &Candidate::new(route, source, 0));
            self.route_changed(prefix);
        }
        self.ports_changed = true;
    }

    fn nexthop(&mut self, id: u32, to: Option<(RouteKind, &[Hop])>) {
        for prefix in self.prefixes.redirect(id, to) {
            self.route_changed(prefix);
        }
    }

    fn neighbour(&mut self, neighbour: Neighbour, source: Source) {
        let generation = self.neighbour_generations[source as usize];
        let Neighbour { link, address, mac, stale } = neighbour;
        if !forwardable(address.into()) && !self.links.may_be_port(link) {
            return;
        }
        let state = NeighbourState { mac, stale, source, generation };
        let known = self.neighbours.get_mut(&(address, link));
        // A neighbour from the configuration stays unchanged.
        if known
            .as_ref()
            .is_some_and(|known| (known.source, source) == (Source::Static, Source::Kernel))
        {
            return;
        }
        let before = known.and_then(|known| known.mac);
        self.neighbours.insert((address, link), state);
        if before != mac {
            self.neighbour_changed(link, address);
        }
    }

    fn neighbour_gone(&mut self, link: u32, address: IpAddr, source: Source) {
        let known = self.neighbours.get(&(address, link)).filter(|known| known.source == source);
        let Some(NeighbourState { mac, .. }) = known else { return };
        // No route leads to a neighbour that was never resolved: after a scan of a connected prefix
        // there are thousands.
        let was_known = mac.is_some();
        self.neighbours.remove(&(address, link));
        if was_known {
            self.neighbour_changed(link, address);
        }
    }

    fn neighbour_changed(&mut self, link: u32, address: IpAddr) {
        self.dirty_hops.extend(self.hops.of_neighbour(link, address));
        self.dirty_prefixes.insert(address.into());
    }

    /// Marks a prefix as changed, and the neighbours within it that it may make direct.
    fn route_changed(&mut self, prefix: IpNet) {
        if prefix.prefix_len() < prefix.max_prefix_len() {
            let changed = if self.prefixes.is_local(prefix) {
                self.local_networks.insert(prefix)
            } else {
                self.local_networks.remove(&prefix)
            };
            if changed {
                self.dirty_prefixes.extend(self.prefixes.within(prefix));
            }
        }
        if self.local_sources.note(prefix, self.prefixes.has_local(prefix)) {
            self.dirty_prefixes.extend(self.prefixes.by_gateways_in(prefix));
        }
        self.dirty_prefixes.insert(prefix);
        let (first, last) = (prefix.network(), last_address(prefix));
        let within = self.neighbours.range((first, 0)..=(last, u32::MAX));
        self.dirty_prefixes.extend(within.map(|((address, _), _)| IpNet::from(*address)));
    }

    fn mac(&self, link: u32, address: IpAddr) -> Option<[u8; 6]> {
        self.neighbours.get(&(address, link)).and_then(|state| state.mac)
    }

    /// Returns the configuration of the ports for the workers.
    pub fn port_configs(&self) -> Vec<PortConfig> {
        self.links.port_configs(&|link| self.addresses.networks_on(link).collect())
    }

    /// Returns the addresses from which the kernel may send, in its order.
    fn source_addresses(&self) -> Vec<SourceAddress> {
        let own = |(address, link, deprecated)| SourceAddress {
            address,
            interface: self.links.interface(link),
            deprecated,
        };
        self.addresses.senders().into_iter().map(own).collect()
    }
}

/// Returns true unless it is link-local or multicast: such destinations are never forwarded (RFC
/// 4291 2.5.6, RFC 3927 7).
fn forwardable(prefix: IpNet) -> bool {
    match prefix {
        IpNet::V4(prefix) => prefix.prefix_len() < 4 || !prefix.addr().is_multicast(),
        IpNet::V6(prefix) => {
            let link_local = prefix.prefix_len() >= 10 && prefix.addr().is_unicast_link_local();
            let multicast = prefix.prefix_len() >= 8 && prefix.addr().is_multicast();
            !link_local && !multicast
        }
    }
}

fn last_address(prefix: IpNet) -> IpAddr {
    prefix.broadcast()
}

/// Returns the routes that follow from an address of this machine. The address and the shared
/// addresses of its network lead to the kernel. For an address from the configuration, its prefix
/// is on the link.
fn local_routes(address: &Address, source: Source) -> Vec<Route> {
    let net = address.address;
    let hop = |gateway| Hop { link: address.link, gateway, weight: 1, mtu: None, dead: false };
    // The hop contains the owner, so that two addresses with the same broadcast address differ.
    let owner = hop(Some(net.addr()));
    let local = |destination: IpAddr| Route {
        table: Table::Local,
        ..Route::new(destination.into(), 0, RouteKind::Local, vec![owner.clone()])
    };
    let mut routes: Vec<_> = std::iter::once(net.addr()).chain(shared(net)).map(local).collect();
    if source == Source::Static && net.prefix_len() < net.max_prefix_len() {
        routes.push(Route::new(net.trunc(), 0, RouteKind::Unicast, vec![hop(None)]));
    }
    routes.retain(|route| forwardable(route.prefix));
    routes
}
