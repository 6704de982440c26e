//! All routes to each prefix, best first.

use super::hops::HopKey;
use super::source::Source;
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use wattline_linux::netlink::{Hop, Placement, Route, RouteKind, Table};

/// Rank that precedes the metric in the order of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Addresses of this machine, and routes of the table `local`.
    Local,
    /// Routes for some packets only; the kernel knows for which.
    Selective,
    /// Ordinary routes.
    Route,
    /// Routes of the default table.
    Default,
}

/// One of the routes to a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub source: Source,
    pub rank: Rank,
    pub metric: u32,
    /// See [`Route::selector`].
    pub selector: u64,
    /// See [`Route::identity`].
    pub identity: u64,
    pub kind: RouteKind,
    pub hops: Vec<Hop>,
    /// See [`Route::source`].
    pub sender: Option<IpAddr>,
    /// Number of the next-hop object to which it refers.
    pub nexthop: Option<u32>,
    /// See [`Route::advertised`].
    pub advertised: bool,
    /// Number of the last dump that contained it.
    pub generation: u32,
    /// True if that dump may have contained it twice: when a route by a next-hop object replaces a
    /// rival, Linux lists it once more.
    pub twice: bool,
}

impl Candidate {
    pub fn new(route: Route, source: Source, generation: u32) -> Self {
        let Route { metric, selector, identity, kind, hops, nexthop, advertised, .. } = route;
        let sender = route.source;
        let rank = match route.table {
            Table::Local => Rank::Local,
            _ if selector != 0 => Rank::Selective,
            Table::Main => Rank::Route,
            Table::Default => Rank::Default,
        };
        let twice = false;
        Self {
            source,
            rank,
            metric,
            selector,
            identity,
            kind,
            hops,
            sender,
            nexthop,
            advertised,
            generation,
            twice,
        }
    }

    fn order(&self) -> (Rank, bool, u32, u64) {
        (self.rank, self.source == Source::Kernel, self.metric, self.selector)
    }

    /// Returns true if both have the same place in the order, so that one can replace the other.
    pub fn rivals(&self, other: &Self) -> bool {
        self.order() == other.order()
    }

    /// Returns true if both are one route of the kernel. IPv6 routes are identified by their next
    /// hops alone (rt6_duplicate_nexthop()), IPv4 routes by all their attributes (fib_find_info()).
    fn same(&self, other: &Self, ipv6: bool) -> bool {
        let alike = |(one, other): (&Hop, &Hop)| {
            one.leads_as(other) && (ipv6 || (one.weight, one.mtu) == (other.weight, other.mtu))
        };
        self.rivals(other)
            && self.kind == other.kind
            && self.nexthop == other.nexthop
            && (ipv6 || self.identity == other.identity)
            && (self.nexthop.is_some()
                || self.hops.len() == other.hops.len()
                    && self.hops.iter().zip(&other.hops).all(alike)
                || ipv6 && self.has_hops_of(other) && other.has_hops_of(self))
    }

    fn has_hops_of(&self, other: &Self) -> bool {
        other.hops.iter().all(|hop| self.hops.iter().any(|known| known.leads_as(hop)))
    }

    /// Returns true if an IPv6 route and others with its metric form one with several next hops
    /// (rt6_qualify_for_ecmp()).
    fn joins(&self) -> bool {
        self.nexthop.is_none()
            && !self.advertised
            && !self.hops.is_empty()
            && self.hops.iter().all(|hop| hop.gateway.is_some())
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
    /// Gateways of present and former routes; few compared with the routes.
    gateways: HashSet<IpAddr>,
}

impl Prefixes {
    pub fn len(&self) -> usize {
        self.entries.values().filter(|entry| !entry.candidates.is_empty()).count()
    }

    /// Returns true if a prefix has routes of the table that lookups search first.
    pub fn is_local(&self, prefix: IpNet) -> bool {
        let first = self.entries.get(&prefix).and_then(|entry| entry.candidates.first());
        first.is_some_and(|first| first.rank == Rank::Local)
    }

    /// Returns true if a prefix has a route of kind [`RouteKind::Local`] in any table.
    pub fn has_local(&self, prefix: IpNet) -> bool {
        let candidates = self.entries.get(&prefix).map_or(&[][..], |entry| &entry.candidates);
        candidates.iter().any(|it| it.kind == RouteKind::Local)
    }

    /// Returns the prefixes inside another one.
    pub fn within(&self, outer: IpNet) -> impl Iterator<Item = IpNet> {
        self.entries.keys().copied().filter(move |prefix| outer.contains(prefix))
    }

    pub fn with_routes(&self) -> impl Iterator<Item = IpNet> {
        let has = |(_, entry): &(&IpNet, &Entry)| !entry.candidates.is_empty();
        self.entries.iter().filter(has).map(|(prefix, _)| *prefix)
    }

    pub fn get(&self, prefix: IpNet) -> Option<&Entry> {
        self.entries.get(&prefix)
    }

    /// Returns the prefixes that contain an address, longest first.
    pub fn covering(&self, address: IpAddr) -> impl Iterator<Item = &Entry> {
        let host = IpNet::from(address);
        (0..=host.prefix_len()).rev().filter_map(move |length| {
            let prefix = IpNet::new(address, length).ok()?.trunc();
            self.entries.get(&prefix)
        })
    }

    /// Adds a route. Returns true if it does not fit the known state, so that a change was missed.
    pub fn add(&mut self, prefix: IpNet, new: Candidate, placement: Placement) -> bool {
        self.gateways.extend(new.hops.iter().filter_map(|hop| hop.gateway));
        let list = &mut self.entries.entry(prefix).or_default().candidates;
        match prefix {
            _ if placement == Placement::Dumped => {
                dumped(list, new, prefix.addr().is_ipv6());
                false
            }
            IpNet::V4(_) => add4(list, new, placement),
            IpNet::V6(_) => add6(list, new, placement),
        }
    }

    /// Removes a route, as the kernel describes it. Returns true if it does not fit the known
    /// state.
    pub fn remove(&mut self, prefix: IpNet, gone: &Candidate) -> bool {
        let Some(entry) = self.entries.get_mut(&prefix) else { return false };
        let list = &mut entry.candidates;
        let ipv6 = prefix.addr().is_ipv6();
        if let Some(place) = list.iter().position(|known| known.same(gone, ipv6)) {
            if list[place].twice {
                return true;
            }
            list.remove(place);
            return false;
        }
        // The kernel deletes the members of an IPv6 route one by one.
        let holds = |known: &Candidate| {
            known.rivals(gone)
                && known.kind == gone.kind
                && known.joins()
                && known.has_hops_of(gone)
        };
        if ipv6
            && gone.joins()
            && let Some(known) = list.iter_mut().find(|known| holds(known))
        {
            known.hops.retain(|hop| !gone.hops.iter().any(|gone| gone.leads_as(hop)));
            return false;
        }
        list.iter().any(|known| known.rivals(gone) && gone.rank != Rank::Local)
    }

    /// Removes routes for which `old` returns true; returns the affected prefixes.
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

    /// Changes the next hops of the kernel's routes that refer to a next-hop object, or removes
    /// those routes; returns their prefixes. This is rare, so there is no index.
    pub fn redirect(&mut self, nexthop: u32, to: Option<(RouteKind, &[Hop])>) -> Vec<IpNet> {
        let named = |known: &Candidate| known.nexthop == Some(nexthop);
        let hops = to.iter().flat_map(|(_, hops)| *hops);
        self.gateways.extend(hops.filter_map(|hop| hop.gateway));
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

    /// Returns the prefixes with a route over one of the links.
    pub fn over(&self, links: &[u32]) -> impl Iterator<Item = IpNet> {
        let over = |entry: &Entry| {
            let mut hops = entry.candidates.iter().flat_map(|candidate| &candidate.hops);
            hops.any(|hop| links.contains(&hop.link))
        };
        self.entries.iter().filter(move |(_, entry)| over(entry)).map(|(prefix, _)| *prefix)
    }

    /// Returns the prefixes with a route by a gateway within a network. If there is, or was, such a
    /// gateway, all prefixes are searched.
    pub fn by_gateways_in(&self, network: IpNet) -> impl Iterator<Item = IpNet> {
        let any = self.gateways.iter().any(|gateway| network.contains(gateway));
        let within = move |entry: &Entry| {
            let mut hops = entry.candidates.iter().flat_map(|candidate| &candidate.hops);
            hops.any(|hop| hop.gateway.is_some_and(|gateway| network.contains(&gateway)))
        };
        let entries = any.then_some(&self.entries).into_iter().flatten();
        entries.filter(move |(_, entry)| within(entry)).map(|(prefix, _)| *prefix)
    }

    /// Stores the workers' present next hop, and forgets an empty prefix.
    pub fn set_installed(&mut self, prefix: IpNet, installed: Option<HopKey>) {
        let entry = self.entries.entry(prefix).or_default();
        entry.installed = installed;
        if entry.installed.is_none() && entry.candidates.is_empty() {
            self.entries.remove(&prefix);
        }
    }
}

/// Inserts a route in the order of a dump: after its rivals that the dump listed before.
fn dumped(list: &mut Vec<Candidate>, mut new: Candidate, ipv6: bool) {
    let known = list.iter().position(|known| known.same(&new, ipv6)).or_else(|| {
        // A route with several next hops that has gained or lost some since.
        let overlaps = |known: &Candidate| {
            ipv6 && known.rivals(&new) && known.kind == new.kind && known.joins() && new.joins()
        };
        list.iter().position(overlaps)
    });
    if let Some(known) = known.map(|place| list.remove(place)) {
        new.twice = known.generation == new.generation;
        keep_mtus(&mut new, &known);
    }
    let is_before = |known: &Candidate| {
        known.order() < new.order() || known.rivals(&new) && known.generation == new.generation
    };
    let place = list.partition_point(is_before);
    list.insert(place, new);
}

/// Keeps the MTUs of next hops after the first: each member of an IPv6 route has its own, and the
/// kernel reports only that of the first.
fn keep_mtus(new: &mut Candidate, known: &Candidate) {
    if new.nexthop.is_some() {
        return;
    }
    for hop in new.hops.iter_mut().skip(1) {
        if let Some(known) = known.hops.iter().find(|known| known.leads_as(hop)) {
            hop.mtu = known.mtu;
        }
    }
}

/// Adds an IPv4 route as fib_table_insert() does.
fn add4(list: &mut Vec<Candidate>, new: Candidate, placement: Placement) -> bool {
    let first = list.iter().position(|known| known.rivals(&new));
    let same = list.iter().position(|known| known.same(&new, false));
    if let Some(same) = same {
        list[same].generation = new.generation;
        // The kernel does not have a route twice: it was deleted in the meantime, or it is known
        // from a dump that is newer than this message.
        return placement == Placement::Replace && first != Some(same);
    }
    match (placement, first) {
        (Placement::Replace, Some(first)) => list[first] = new,
        (Placement::First, Some(first)) => list.insert(first, new),
        _ => insert_last(list, new),
    }
    false
}

/// Adds an IPv6 route as fib6_add_rt2node() does.
fn add6(list: &mut Vec<Candidate>, mut new: Candidate, placement: Placement) -> bool {
    let joins = new.joins();
    if placement == Placement::Replace {
        let rivals = |known: &Candidate| known.rivals(&new);
        let alike = list.iter().position(|known| rivals(known) && known.joins() == joins);
        let place = alike.or_else(|| list.iter().position(rivals));
        // Linux reports a change of a next-hop object as if its routes were replaced
        // (fib6_rt_update()): only the tables show whether this replaces a rival.
        let updated = list.iter().position(|known| new.nexthop.is_some() && known.same(&new, true));
        if updated.is_some() && updated != place {
            return true;
        }
        match place {
            Some(place) => list[place] = new,
            None => insert_last(list, new),
        }
        return false;
    }
    if let Some(known) = list.iter_mut().find(|known| known.same(&new, true)) {
        keep_mtus(&mut new, known);
        *known = new;
        return false;
    }
    let grows = |known: &&mut Candidate| known.rivals(&new) && joins && known.joins();
    if let Some(known) = list.iter_mut().find(grows) {
        let larger = new.has_hops_of(known);
        if larger {
            for hop in &mut new.hops {
                if let Some(known) = known.hops.iter().find(|known| known.leads_as(hop)) {
                    hop.mtu = known.mtu;
                }
            }
            *known = new;
        }
        return !larger;
    }
    insert_last(list, new);
    false
}

fn insert_last(list: &mut Vec<Candidate>, new: Candidate) {
    let place = list.partition_point(|known| known.order() <= new.order());
    list.insert(place, new);
}
