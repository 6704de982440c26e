//! Routing state to look at.

use super::hops::HopKey;
use super::prefixes::{Candidate, Rank};
use super::{Rib, Source};
use ipnet::IpNet;
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use std::net::IpAddr;
use wattline_dataplane::next_hop::NextHop;
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

    /// Prefixes whose packets the workers leave to the kernel by their routes: over links that are no
    /// ports, or by routes that only the kernel understands. Those of own addresses are not among
    /// them. `None` if there are more than `most`.
    pub fn prefixes_to_kernel(&self, most: usize) -> Option<BTreeSet<IpNet>> {
        let mut found = BTreeSet::new();
        let left = self.audited.left.iter().copied();
        for prefix in self.prefixes.with_routes().chain(left) {
            let Some(entry) = self.prefixes.get(prefix) else { continue };
            let is_own = entry.candidates.first().is_some_and(|it| it.rank == Rank::Local);
            if !is_own && entry.installed.as_ref().is_some_and(|key| self.punts(key)) {
                found.insert(prefix);
                if found.len() > most {
                    return None;
                }
            }
        }
        Some(found)
    }

    fn punts(&self, key: &HopKey) -> bool {
        match key {
            HopKey::Group(members) => members.iter().any(|(member, _)| self.punts(member)),
            key => matches!(self.meaning(key), NextHop::Punt),
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
