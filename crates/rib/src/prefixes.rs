//! All routes to each prefix, best first.

use super::hops::HopKey;
use super::source::Source;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;
use wattline_linux::netlink::{Hop, RouteKind};

/// Rank that precedes the metric in the order of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Addresses of this machine.
    Local,
    /// Ordinary routes.
    Route,
}

/// One of the routes to a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub source: Source,
    pub rank: Rank,
    pub metric: u32,
    pub kind: RouteKind,
    pub hops: Vec<Hop>,
    /// The next hop that it names by number.
    pub nexthop: Option<u32>,
    /// Number of the last dump that contained it.
    pub generation: u32,
}

impl Candidate {
    fn order(&self) -> (Rank, bool, u32) {
        (self.rank, self.source == Source::Kernel, self.metric)
    }

    /// Whether both have the same place in the order, so that one can replace the other.
    fn rivals(&self, other: &Self) -> bool {
        self.order() == other.order()
    }

    fn same(&self, other: &Self) -> bool {
        self.rivals(other) && self.kind == other.kind && self.hops == other.hops
    }
}

/// State of one prefix.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Routes, best first.
    pub candidates: Vec<Candidate>,
    /// Next hop in the workers' tables; `None` if the prefix is not installed.
    pub installed: Option<HopKey>,
}

/// All prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    entries: HashMap<IpNet, Entry>,
}

impl Prefixes {
    pub fn len(&self) -> usize {
        self.entries.values().filter(|entry| !entry.candidates.is_empty()).count()
    }

    pub fn with_routes(&self) -> impl Iterator<Item = IpNet> {
        let has = |(_, entry): &(&IpNet, &Entry)| !entry.candidates.is_empty();
        self.entries.iter().filter(has).map(|(prefix, _)| *prefix)
    }

    pub fn get(&self, prefix: IpNet) -> Option<&Entry> {
        self.entries.get(&prefix)
    }

    /// Prefixes that contain an address, longest first.
    pub fn covering(&self, address: IpAddr) -> impl Iterator<Item = &Entry> {
        let host = IpNet::from(address);
        (0..=host.prefix_len()).rev().filter_map(move |length| {
            let prefix = IpNet::new(address, length).ok()?.trunc();
            self.entries.get(&prefix)
        })
    }

    /// Adds a route. With `replace`, it replaces the one with the same metric. An IPv6 multipath
    /// route replaces its parts, since the kernel announces it as a whole when it grows.
    pub fn add(&mut self, prefix: IpNet, new: Candidate, replace: bool) {
        let list = &mut self.entries.entry(prefix).or_default().candidates;
        if let Some(known) = list.iter_mut().find(|known| known.same(&new)) {
            (known.generation, known.nexthop) = (new.generation, new.nexthop);
            return;
        }
        let grown = |known: &Candidate| {
            prefix.addr().is_ipv6()
                && known.kind == RouteKind::Unicast
                && known.rank == Rank::Route
                && known.hops.iter().all(|hop| new.hops.contains(hop))
        };
        let place = list.iter().position(|known| known.rivals(&new) && (replace || grown(known)));
        match place {
            Some(place) => list[place] = new,
            None => {
                let place = list.partition_point(|known| known.order() <= new.order());
                list.insert(place, new);
            }
        }
    }

    /// Removes a route: an equal one, else (IPv6) a part of a multipath route, else the one with
    /// its metric.
    pub fn remove(&mut self, prefix: IpNet, gone: &Candidate) {
        let Some(entry) = self.entries.get_mut(&prefix) else { return };
        let list = &mut entry.candidates;
        if let Some(place) = list.iter().position(|known| known.same(gone)) {
            list.remove(place);
            return;
        }
        if gone.rank == Rank::Local {
            return;
        }
        let larger = |known: &Candidate| {
            known.hops.len() > gone.hops.len()
                && gone.hops.iter().all(|hop| known.hops.contains(hop))
        };
        let rivals = |known: &Candidate| known.rivals(gone);
        if prefix.addr().is_ipv6()
            && let Some(known) = list.iter_mut().find(|known| rivals(known) && larger(known))
        {
            known.hops.retain(|hop| !gone.hops.contains(hop));
        } else if let Some(place) = list.iter().position(rivals) {
            list.remove(place);
        }
    }

    /// Removes routes that are `old`; returns the affected prefixes.
    pub fn sweep(&mut self, old: &dyn Fn(Source, u32) -> bool) -> Vec<IpNet> {
        let mut changed = Vec::new();
        for (prefix, entry) in &mut self.entries {
            let before = entry.candidates.len();
            entry.candidates.retain(|known| !old(known.source, known.generation));
            if entry.candidates.len() != before {
                changed.push(*prefix);
            }
        }
        changed
    }

    /// Changes the next hops of the kernel's routes that name a next-hop object, or removes those
    /// routes; returns their prefixes. Rare, and so not indexed.
    pub fn redirect(&mut self, nexthop: u32, to: Option<(RouteKind, &[Hop])>) -> Vec<IpNet> {
        let named = |known: &Candidate| known.nexthop == Some(nexthop);
        let mut changed = Vec::new();
        for (prefix, entry) in &mut self.entries {
            if !entry.candidates.iter().any(named) {
                continue;
            }
            changed.push(*prefix);
            let Some((kind, hops)) = to else {
                entry.candidates.retain(|known| !named(known));
                continue;
            };
            for known in entry.candidates.iter_mut().filter(|known| named(known)) {
                let mtu = known.hops.first().and_then(|hop| hop.mtu);
                known.kind = kind;
                known.hops = hops.iter().map(|hop| Hop { mtu, ..hop.clone() }).collect();
            }
        }
        changed
    }

    /// The prefixes with a route over one of the links.
    pub fn over(&self, links: &[u32]) -> impl Iterator<Item = IpNet> {
        let over = |entry: &Entry| {
            let mut hops = entry.candidates.iter().flat_map(|candidate| &candidate.hops);
            hops.any(|hop| links.contains(&hop.link))
        };
        self.entries.iter().filter(move |(_, entry)| over(entry)).map(|(prefix, _)| *prefix)
    }

    /// Stores the workers' present next hop, and forgets a prefix of which nothing is left.
    pub fn set_installed(&mut self, prefix: IpNet, installed: Option<HopKey>) {
        let entry = self.entries.entry(prefix).or_default();
        entry.installed = installed;
        if entry.installed.is_none() && entry.candidates.is_empty() {
            self.entries.remove(&prefix);
        }
    }
}
