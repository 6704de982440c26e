//! Routing state to look at.

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
    /// Destinations.
    pub prefix: IpNet,
    /// Its origin.
    pub source: Source,
    /// The lower wins among routes of one prefix and source.
    pub metric: u32,
    /// Treatment of matching packets.
    pub kind: RouteKind,
    /// Its next hops.
    pub hops: Vec<Hop>,
    /// The number of the next hop that it names (`ip nexthop`).
    pub nexthop: Option<u32>,
    /// Whether it is the one of its prefix that counts.
    pub counts: bool,
}

/// Egress of the packets to a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Egress {
    /// The kernel forwards them: out of links that are no ports, or by routes that only it understands.
    Kernel,
    /// They leave by one of these interfaces of ports, by routes that the kernel has too; by none if there
    /// is no such route, or if its interfaces are not of interest.
    Ports(Vec<PortInterface>),
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourView {
    /// Its address.
    pub address: IpAddr,
    /// The link it is on.
    pub link: u32,
    /// Its Ethernet address, where it is known.
    pub mac: Option<[u8; 6]>,
    /// The kernel has not confirmed it for a while.
    pub stale: bool,
    /// It has been asked for and has not answered.
    pub asked: bool,
    /// Its origin.
    pub source: Source,
}

impl Rib {
    /// The first `most` prefixes that have routes, in their order, with all of their routes, and how
    /// many prefixes there are: of all, of those within a prefix, or of those that hold a single
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
        // Addresses are in the kernel's local table, too.
        let again = |place: usize| place > 0 && candidates[place].rank == Rank::Local;
        let shown = candidates.iter().enumerate().filter(|(place, _)| !again(*place));
        shown.map(view).collect()
    }

    /// The first `most` neighbours by address, and how many there are; within a prefix or all. Those
    /// that were `asked` for, as link and address, are among them: the kernel reports a neighbour
    /// only once it has answered or failed.
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

    /// Egress of the packets to each prefix, in order; without prefixes of own addresses. If there are more
    /// than `most` prefixes, only the kernel's are known as such, and nothing is returned if it has none.
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

    /// The name of a link, where there is such a link.
    pub fn link_name(&self, index: u32) -> Option<&str> {
        self.links.name(index)
    }

    /// The port out of which a link sends, as it is now.
    pub fn port_of_link(&self, index: u32) -> Option<wattline_dataplane::port::PortId> {
        self.links.port(index)
    }
}
