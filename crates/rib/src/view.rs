//! Views of the routing state for reports.

use super::hops::HopKey;
use super::prefixes::{Candidate, Rank};
use super::{Rib, Source};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};
use std::net::IpAddr;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::source_addresses::PortInterface;
use wattline_linux::netlink::{Hop, RouteKind};

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteView {
    /// Destination prefix.
    pub prefix: IpNet,
    /// Its origin.
    pub source: Source,
    /// Metric; the lowest among routes of one prefix and source is used.
    pub metric: u32,
    /// Treatment of matching packets.
    pub kind: RouteKind,
    /// Next hops.
    pub hops: Vec<Hop>,
    /// Number of the next-hop object to which it refers (`ip nexthop`).
    pub nexthop: Option<u32>,
    /// True if it is the route in use for its prefix.
    pub counts: bool,
}

/// Egress of packets to a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Egress {
    /// Left to the kernel: through links that are no ports, or by routes that only it understands.
    Kernel,
    /// Through one of these interfaces of ports, by routes that the kernel has too. Empty if there
    /// is no such route, or if its interfaces are not of interest.
    Ports(Vec<PortInterface>),
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourView {
    /// IP address.
    pub address: IpAddr,
    /// Link of the neighbour.
    pub link: u32,
    /// Ethernet address, if known.
    pub mac: Option<[u8; 6]>,
    /// True if the kernel has not confirmed it for a while.
    pub stale: bool,
    /// True if it was asked for and has not answered.
    pub asked: bool,
    /// Its origin.
    pub source: Source,
}

impl Rib {
    /// Returns the first `most` prefixes with routes, in order, with all of their routes, and the
    /// number of prefixes: of all, of those within a prefix, or of those that contain a single
    /// address.
    pub fn routes_to(&self, within: Option<IpNet>, most: usize) -> (Vec<RouteView>, usize) {
        let is_host = |of: IpNet| of.prefix_len() == of.max_prefix_len();
        let asked = |prefix: IpNet| match within {
            None => true,
            Some(of) if is_host(of) => prefix.contains(&of.addr()),
            Some(of) => of.contains(&prefix),
        };
        let mut first: BinaryHeap<IpNet> = BinaryHeap::new();
        let mut count = 0;
        for prefix in self.prefixes.with_routes().filter(|prefix| asked(*prefix)) {
            count += 1;
            first.push(prefix);
            if first.len() > most {
                first.pop();
            }
        }
        let routes = first.into_sorted_vec().into_iter().flat_map(|prefix| self.routes_of(prefix));
        (routes.collect(), count)
    }

    pub(super) fn routes_of(&self, prefix: IpNet) -> Vec<RouteView> {
        let candidates = self.prefixes.get(prefix).map_or(&[][..], |entry| &entry.candidates);
        let best = candidates.iter().position(|candidate| self.is_usable(candidate, prefix));
        let view = |(place, candidate): (usize, &Candidate)| RouteView {
            prefix,
            source: candidate.source,
            metric: candidate.metric,
            kind: candidate.kind,
            hops: candidate.hops.clone(),
            nexthop: candidate.nexthop,
            counts: Some(place) == best,
        };
        // The kernel's local table contains addresses again.
        let again = |place: usize| place > 0 && candidates[place].rank == Rank::Local;
        let shown = candidates.iter().enumerate().filter(|(place, _)| !again(*place));
        shown.map(view).collect()
    }

    /// Returns the first `most` neighbours by address, and their number; within a prefix or all.
    /// Neighbours that were `asked` for, as link and address, are included: the kernel reports a
    /// neighbour only once it has answered or failed.
    pub fn neighbours_in(
        &self,
        within: Option<IpNet>,
        most: usize,
        asked: impl Iterator<Item = (u32, IpAddr)>,
    ) -> (Vec<NeighbourView>, usize) {
        let asked: HashSet<(IpAddr, u32)> = asked.map(|(link, address)| (address, link)).collect();
        let wanted = |(address, _): &&(IpAddr, u32)| within.is_none_or(|of| of.contains(address));
        let found: BTreeSet<&(IpAddr, u32)> =
            self.neighbours.keys().chain(&asked).filter(wanted).collect();
        let view = |key: &&(IpAddr, u32)| {
            let state = self.neighbours.get(key);
            NeighbourView {
                address: key.0,
                link: key.1,
                mac: state.and_then(|state| state.mac),
                stale: state.is_some_and(|state| state.stale),
                asked: asked.contains(key),
                source: state.map_or(Source::Kernel, |state| state.source),
            }
        };
        (found.iter().take(most).map(view).collect(), found.len())
    }

    /// Returns the egress of packets to each prefix, in order, without prefixes of own addresses.
    /// If there are more than `most` prefixes, interfaces are omitted, and the result is empty
    /// unless a prefix is left to the kernel.
    pub fn egresses(&self, most: usize) -> BTreeMap<IpNet, Egress> {
        let is_large = self.prefixes.len() > most;
        let left = self.audited.left.iter().copied();
        let egress_of = |prefix| {
            let entry = self.prefixes.get(prefix)?;
            let is_own = entry.candidates.first().is_some_and(|it| it.rank == Rank::Local);
            let key = entry.installed.as_ref().filter(|_| !is_own)?;
            Some(if self.punts(key) {
                Egress::Kernel
            } else {
                let is_kernels = entry.candidates.iter().all(|it| it.source == Source::Kernel);
                let is_shown = is_kernels && !is_large;
                Egress::Ports(if is_shown { self.interfaces_to(key) } else { Vec::new() })
            })
        };
        let prefixes = || self.prefixes.with_routes().chain(left.clone());
        if is_large && !prefixes().any(|prefix| egress_of(prefix) == Some(Egress::Kernel)) {
            return BTreeMap::new();
        }
        prefixes().filter_map(|prefix| Some((prefix, egress_of(prefix)?))).collect()
    }

    fn punts(&self, key: &HopKey) -> bool {
        match key {
            HopKey::Group(members) => members.iter().any(|(member, _)| self.punts(member)),
            key => matches!(self.meaning(key), NextHop::Punt),
        }
    }

    fn interfaces_to(&self, key: &HopKey) -> Vec<PortInterface> {
        match key {
            HopKey::Group(members) => {
                members.iter().flat_map(|(member, _)| self.interfaces_to(member)).collect()
            }
            HopKey::Gateway { link, .. } | HopKey::OnLink { link, .. } => {
                self.links.interface(*link).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the name of a link, if it exists.
    pub fn link_name(&self, index: u32) -> Option<&str> {
        self.links.name(index)
    }

    /// Returns the port through which a link sends now.
    pub fn port_of_link(&self, index: u32) -> Option<wattline_dataplane::port::PortId> {
        self.links.port(index)
    }
}
