//! Routing state: what the kernel and the configuration say becomes what workers read.
//!
//! Pure logic: [`Rib::apply`] takes an event, [`Rib::commit`] writes what has changed since the
//! last time into [`Routes`]. No clock, no socket, no thread; recorded events give the
//! same tables again.
//!
//! - Of several routes to a prefix the best *usable* one counts: one whose link runs.
//! - A gateway or on-link destination is a next hop with an id of its own: when its
//!   neighbour is resolved, moves or is lost, only what the id means changes, however many
//!   routes lead to it.
//! - A neighbour of a connected prefix becomes a host route while it is known.
//! - Own addresses, and ways out of links that are not ports, lead to the kernel.
//!
//! `wattline-router` brings the events, of the kernel and of its configuration.
#![forbid(unsafe_code)]

mod hops;
mod links;
mod prefixes;
mod selection;
#[cfg(test)]
mod tests;
mod view;
mod way;

pub use links::{FIRST_STATIC_LINK, PortSpec};
pub use view::{NeighbourView, RouteView};
pub use way::Way;

use hops::{HopKey, Hops};
use ipnet::IpNet;
use links::Links;
use prefixes::{Candidate, Prefixes, Rank};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use wattline_dataplane::forwarding::PortConfig;
use wattline_dataplane::own_addresses::shared;
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::{RouteError, Routes};
use wattline_linux::netlink::{Address, Event, Hop, Link, Neighbour, Route, RouteKind};

/// Where an event comes from. Each source has dumps of its own: what one does not mention is
/// not thereby gone from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The configuration; wins over the kernel where both have a route to a prefix.
    Static,
    /// The kernel.
    Kernel,
}

/// What is known of a neighbour.
#[derive(Debug, Clone)]
struct NeighbourState {
    mac: Option<[u8; 6]>,
    stale: bool,
    source: Source,
    generation: u32,
}

/// An address of this machine, as told by one source.
type OwnAddress = (Address, Source);

/// Routing state.
pub struct Rib {
    links: Links,
    addresses: BTreeMap<IpNet, Vec<(OwnAddress, u32)>>,
    /// By address first, so that those within a prefix are a range.
    neighbours: BTreeMap<(IpAddr, u32), NeighbourState>,
    prefixes: Prefixes,
    hops: Hops,
    /// What [`Self::commit`] must look at again.
    dirty_prefixes: HashSet<IpNet>,
    dirty_hops: HashSet<HopKey>,
    ports_changed: bool,
    /// The number of the last dump of each source.
    generations: [u32; 2],
}

impl Rib {
    /// Nothing known yet but the ports.
    pub fn new(ports: Vec<PortSpec>) -> Self {
        Self {
            links: Links::new(ports),
            addresses: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            prefixes: Prefixes::default(),
            hops: Hops::default(),
            dirty_prefixes: HashSet::new(),
            dirty_hops: HashSet::new(),
            ports_changed: true,
            generations: [0; 2],
        }
    }

    /// Takes note of an event.
    pub fn apply(&mut self, source: Source, event: Event) {
        let generation = self.generations[source as usize];
        match event {
            Event::DumpBegin => self.generations[source as usize] = generation.wrapping_add(1),
            Event::DumpEnd => self.sweep(source, generation),
            Event::Link(link) => self.link(link, generation),
            Event::LinkGone(index) => self.link_gone(index),
            Event::Address(address) => self.address(address, source, generation),
            Event::AddressGone(address) => self.address_gone(&address, source),
            Event::Neighbour(neighbour) => self.neighbour(neighbour, source, generation),
            Event::NeighbourGone { link, address } => self.neighbour_gone(link, address, source),
            Event::Route { route, replace } => {
                let prefix = route.prefix;
                if forwardable(prefix) {
                    let candidate = candidate(route, source, generation);
                    self.prefixes.add(prefix, candidate, replace);
                    self.route_changed(prefix);
                }
            }
            Event::RouteGone(route) => {
                let prefix = route.prefix;
                self.prefixes.remove(prefix, &candidate(route, source, generation));
                self.route_changed(prefix);
            }
            Event::Nexthop { id, kind, hops } => self.nexthop(id, Some((kind, &hops))),
            Event::NexthopGone(id) => self.nexthop(id, None),
        }
    }

    /// Writes what has changed into the workers' tables and publishes it.
    ///
    /// # Errors
    /// What the tables refused; all else is done.
    pub fn commit(&mut self, routes: &mut Routes) -> Result<(), Vec<RouteError>> {
        let mut errors = Vec::new();
        if std::mem::take(&mut self.ports_changed) {
            routes.set_ports(self.port_configs());
            routes.set_own_addresses(self.own_networks());
        }
        for key in std::mem::take(&mut self.dirty_hops) {
            let meaning = self.meaning(&key);
            self.hops.update(&key, &meaning, routes, &mut errors);
        }
        for prefix in std::mem::take(&mut self.dirty_prefixes) {
            self.install(prefix, routes, &mut errors);
        }
        errors.extend(routes.publish().err().into_iter().flatten());
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// True when [`Self::commit`] has something to do.
    pub fn has_changes(&self) -> bool {
        self.ports_changed || !self.dirty_prefixes.is_empty() || !self.dirty_hops.is_empty()
    }

    /// Gateways on ports whose neighbour is not known.
    pub fn unresolved_gateways(&self) -> Vec<(u32, IpAddr)> {
        let unknown = |key: &HopKey| match key {
            HopKey::Gateway { link, address, .. } if self.links.port(*link).is_some() => {
                self.mac(*link, *address).is_none().then_some((*link, *address))
            }
            _ => None,
        };
        self.hops.keys().filter_map(unknown).collect()
    }

    /// Neighbours that packets are sent to and that the kernel is about to forget, since it
    /// does not see those packets.
    pub fn stale_neighbours(&self) -> Vec<(u32, IpAddr)> {
        let stale = self.neighbours.iter().filter(|(_, state)| state.stale);
        stale
            .map(|((address, link), _)| (*link, *address))
            .filter(|(link, address)| self.hops.of_neighbour(*link, *address).next().is_some())
            .collect()
    }

    /// The link on which a packet that leaves by `port` for the neighbour `address` goes out:
    /// the port's own, or a VLAN subinterface of it.
    pub fn link_towards(&self, port: PortId, address: IpAddr) -> Option<u32> {
        let on_link = self
            .on_link(address)
            .map(|(link, _)| link)
            .filter(|link| self.links.port(*link) == Some(port));
        on_link.or_else(|| self.links.of_port(port))
    }

    /// Every address of this machine, with the length of its prefix.
    pub fn own_networks(&self) -> impl Iterator<Item = IpNet> {
        self.addresses.keys().copied()
    }

    /// True when links or addresses have changed since the last [`Self::commit`].
    pub fn ports_changed(&self) -> bool {
        self.ports_changed
    }

    /// Number of prefixes that are known, installed or not.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// The links over which routes with several next hops lead now, 0 for what leads over none;
    /// some more than once.
    pub fn links_of_groups(&self) -> impl Iterator<Item = u32> {
        self.hops.links_of_groups()
    }

    /// Whether some route that leads somewhere has an MTU of its own.
    pub fn has_route_mtus(&self) -> bool {
        self.hops.has_route_mtus()
    }

    /// The links that are ports, as last heard of, with the number of the port.
    pub fn port_links(&self) -> impl Iterator<Item = (PortId, &Link)> {
        self.links.port_links()
    }

    /// The link that is a port.
    pub fn link_of(&self, port: PortId) -> Option<&Link> {
        self.links.port_links().find(|(id, _)| *id == port).map(|(_, link)| link)
    }

    /// Numbers and names of the link that is a port, or else has the name of one, and of the VLAN
    /// subinterfaces on it.
    pub fn interfaces_of(&self, port: PortId) -> Vec<(u32, String)> {
        let own = self.link_of(port).or_else(|| self.link_named_as(port));
        own.map_or_else(Vec::new, |link| self.links.names_of_those_on(link.index))
    }

    /// Whether there is a link of this number.
    pub fn has_link(&self, index: u32) -> bool {
        self.links.contains(index)
    }

    /// The link that has the name that the configuration gives a port, be it the port or not.
    pub fn link_named_as(&self, port: PortId) -> Option<&Link> {
        self.links.named_as(port)
    }

    /// Makes a link the port, or none: packets that leave by one that is not a port are the
    /// kernel's. At first that link is the port which is seen first of its name; when it is gone,
    /// none is, before this says which.
    pub fn serve(&mut self, port: PortId, link: Option<u32>) {
        let before = self.links.of_port(port);
        self.links.serve(port, link);
        for index in [before, link].into_iter().flatten() {
            self.link_changed(index);
        }
    }

    fn sweep(&mut self, source: Source, generation: u32) {
        let old = |entry: Source, number: u32| entry == source && number != generation;
        for prefix in self.prefixes.sweep(&old) {
            self.route_changed(prefix);
        }
        let neighbours: Vec<(IpAddr, u32)> = self
            .neighbours
            .iter()
            .filter(|(_, state)| old(state.source, state.generation))
            .map(|(key, _)| *key)
            .collect();
        for (address, link) in neighbours {
            self.neighbour_gone(link, address, source);
        }
        let addresses: Vec<OwnAddress> = self
            .addresses
            .values()
            .flatten()
            .filter(|((_, of), number)| old(*of, *number))
            .map(|(own, _)| own.clone())
            .collect();
        for (address, _) in addresses {
            self.address_gone(&address, source);
        }
        if source == Source::Kernel {
            for index in self.links.older_than(generation) {
                self.link_gone(index);
            }
        }
    }

    fn link(&mut self, link: Link, generation: u32) {
        let index = link.index;
        if self.links.set(link, generation) {
            self.link_changed(index);
        }
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

    /// Everything that goes out of a link is looked at again: rare, and so not indexed.
    fn link_changed(&mut self, index: u32) {
        self.ports_changed = true;
        // A VLAN subinterface depends on the link below.
        let affected = self.links.with_those_above(index);
        let Self { prefixes, hops, dirty_prefixes, dirty_hops, neighbours, .. } = self;
        dirty_prefixes.extend(prefixes.over(&affected));
        dirty_hops.extend(hops.keys().filter(|key| key.is_over(&affected)).cloned());
        // Those on other links too: of a route over two links the one that is left may now lead
        // straight to them.
        dirty_prefixes.extend(neighbours.keys().map(|(address, _)| IpNet::from(*address)));
    }

    fn address(&mut self, address: Address, source: Source, generation: u32) {
        let own = (address, source);
        let list = self.addresses.entry(own.0.address).or_default();
        if let Some((_, number)) = list.iter_mut().find(|(known, _)| *known == own) {
            *number = generation;
        } else {
            list.push((own.clone(), generation));
        }
        // Also when known: its routes must survive the next sweep.
        for route in local_routes(&own.0, source) {
            let prefix = route.prefix;
            let rank = if route.kind == RouteKind::Kernel { Rank::Local } else { Rank::Route };
            let candidate = Candidate { rank, ..candidate(route, source, generation) };
            self.prefixes.add(prefix, candidate, false);
            self.route_changed(prefix);
        }
        self.ports_changed = true;
    }

    fn address_gone(&mut self, address: &Address, source: Source) {
        let Some(list) = self.addresses.get_mut(&address.address) else { return };
        list.retain(|((known, of), _)| known != address || *of != source);
        if list.is_empty() {
            self.addresses.remove(&address.address);
        }
        for route in local_routes(address, source) {
            let prefix = route.prefix;
            let rank = if route.kind == RouteKind::Kernel { Rank::Local } else { Rank::Route };
            self.prefixes.remove(prefix, &Candidate { rank, ..candidate(route, source, 0) });
            self.route_changed(prefix);
        }
        self.ports_changed = true;
    }

    fn nexthop(&mut self, id: u32, to: Option<(RouteKind, &[Hop])>) {
        for prefix in self.prefixes.lead(id, to) {
            self.route_changed(prefix);
        }
    }

    fn neighbour(&mut self, neighbour: Neighbour, source: Source, generation: u32) {
        let Neighbour { link, address, mac, stale } = neighbour;
        if !forwardable(address.into()) && !self.links.may_be_port(link) {
            return;
        }
        let state = NeighbourState { mac, stale, source, generation };
        let known = self.neighbours.get_mut(&(address, link));
        // What the configuration says of a neighbour stands.
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
        if self.neighbours.get(&(address, link)).is_some_and(|known| known.source == source) {
            self.neighbours.remove(&(address, link));
            self.neighbour_changed(link, address);
        }
    }

    fn neighbour_changed(&mut self, link: u32, address: IpAddr) {
        self.dirty_hops.extend(self.hops.of_neighbour(link, address));
        self.dirty_prefixes.insert(address.into());
    }

    /// A route to `prefix` came or went: it may also be what makes neighbours within it direct.
    fn route_changed(&mut self, prefix: IpNet) {
        self.dirty_prefixes.insert(prefix);
        let (first, last) = (prefix.network(), last_address(prefix));
        let within = self.neighbours.range((first, 0)..=(last, u32::MAX));
        self.dirty_prefixes.extend(within.map(|((address, _), _)| IpNet::from(*address)));
    }

    fn mac(&self, link: u32, address: IpAddr) -> Option<[u8; 6]> {
        self.neighbours.get(&(address, link)).and_then(|state| state.mac)
    }

    /// What workers know of the ports.
    pub fn port_configs(&self) -> Vec<PortConfig> {
        let on = |link: u32| {
            let of_link = |list: &Vec<(OwnAddress, u32)>| {
                list.iter().any(|((address, _), _)| address.link == link)
            };
            self.addresses
                .iter()
                .filter(|(_, list)| of_link(list))
                .map(|(address, _)| *address)
                .collect::<Vec<IpNet>>()
        };
        self.links.port_configs(&on)
    }
}

/// Link-local and multicast destinations are never forwarded (RFC 4291 2.5.6, RFC 3927 7).
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

fn candidate(route: Route, source: Source, generation: u32) -> Candidate {
    let Route { metric, kind, hops, nexthop, .. } = route;
    Candidate { source, rank: Rank::Route, metric, kind, hops, nexthop, generation }
}

/// What an address of this machine means for routing: it is the kernel's, as are those that all of
/// its network have in common. For one from the configuration, its prefix is on the link.
fn local_routes(address: &Address, source: Source) -> Vec<Route> {
    let net = address.address;
    // Its owner stands in the hop, so that two addresses with one broadcast address differ.
    let hop = Hop { link: address.link, gateway: Some(net.addr()), weight: 1, mtu: None };
    let local = |destination: IpAddr| Route {
        prefix: destination.into(),
        metric: 0,
        kind: RouteKind::Kernel,
        hops: vec![hop.clone()],
        nexthop: None,
    };
    let mut routes: Vec<_> = std::iter::once(net.addr()).chain(shared(net)).map(local).collect();
    if source == Source::Static && net.prefix_len() < net.max_prefix_len() {
        let hops = vec![Hop { link: address.link, gateway: None, weight: 1, mtu: None }];
        let prefix = net.trunc();
        routes.push(Route { prefix, metric: 0, kind: RouteKind::Unicast, hops, nexthop: None });
    }
    routes.retain(|route| forwardable(route.prefix));
    routes
}
