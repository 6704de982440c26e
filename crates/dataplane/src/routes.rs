//! Control-plane side of the tables that the workers read.
//!
//! [`Routes`] collects changes and makes them visible together in [`Routes::publish`]: first the
//! next-hop table, then the FIB entries that name its new ids, then the generation for waiting
//! nodes. An id without references keeps its meaning until a grace period is over. Only then is it
//! reused.

use crate::flow_hash::{FlowHash, KernelHash};
use crate::forwarding::{PortConfig, Published, RouteReader, Table};
use crate::next_hop::NextHop;
use crate::own_addresses::OwnAddresses;
use crate::source_addresses::{SourceAddress, SourceAddresses};
use ipnet::IpNet;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wattline_fib::grace::{Epoch, Grace};
use wattline_fib::{Fib4, Fib6, FibError, NextHopId, ROOT_BITS};

/// Reasons why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// All next-hop ids are in use.
    #[error("no more than {} different next hops are possible", NextHopId::MAX.0)]
    NextHopsExhausted,
    /// The id was never assigned, or was released.
    #[error("next hop {0} does not exist")]
    UnknownNextHop(u16),
    /// The group has no member, or one of its members is a group.
    #[error("a group needs at least one member, and none may be a group")]
    BadGroup,
    /// The FIB refused a prefix; all other changes of the same publication are in place.
    #[error("route {prefix}: {error}")]
    Fib {
        /// Prefix that was refused.
        prefix: IpNet,
        /// Error of the FIB.
        error: FibError,
    },
}

/// Range of ids for a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRange {
    /// Ids up to [`NextHopId::BYTE_MAX`], for prefixes of at most 24 bits: lookups read less. Other
    /// ids if none is left.
    Byte,
    /// Other ids, so that neighbours of a large network leave room for gateways. Ids of one byte if
    /// none is left.
    Any,
}

impl IdRange {
    /// Ids for the next hop of a prefix.
    pub fn for_prefix(prefix: IpNet) -> Self {
        if prefix.prefix_len() <= ROOT_BITS { Self::Byte } else { Self::Any }
    }
}

#[derive(Debug)]
struct Entry {
    next_hop: NextHop,
    references: u32,
}

/// Writer of everything that workers read. The readers of the workers must come from the same
/// `Routes`.
pub struct Routes {
    grace: Grace,
    fib4: Fib4,
    fib6: Fib6,
    published: Published,
    ports: Arc<[PortConfig]>,
    own: Arc<OwnAddresses>,
    sources: Arc<SourceAddresses>,
    flow_hash: FlowHash,
    entries: Vec<Entry>,
    ids: HashMap<NextHop, NextHopId>,
    /// Ids to use again: up to [`NextHopId::BYTE_MAX`], and above it.
    unused: [Vec<NextHopId>; 2],
    /// Ids that have lost their last reference since the last publication.
    released: Vec<NextHopId>,
    retired: VecDeque<(Epoch, Vec<NextHopId>)>,
    table_changed: bool,
    /// Changes in order; `None` removes a route. Each `Some` holds a reference.
    pending: Vec<(IpNet, Option<NextHopId>)>,
}

impl Routes {
    /// Tables without routes, for these ports; the flow seed is 0.
    pub fn new(ports: Vec<PortConfig>) -> Self {
        let grace = Grace::new();
        let mut routes = Self {
            fib4: Fib4::new(&grace),
            fib6: Fib6::new(&grace),
            grace,
            published: Published::default(),
            ports: ports.into(),
            own: Arc::default(),
            sources: Arc::default(),
            flow_hash: FlowHash::default(),
            entries: vec![Entry { next_hop: NextHop::None, references: 1 }],
            ids: HashMap::new(),
            unused: Default::default(),
            released: Vec::new(),
            retired: VecDeque::new(),
            table_changed: false,
            pending: Vec::new(),
        };
        routes.publish_table();
        routes
    }

    /// Returns a reader for one more worker.
    pub fn reader(&self) -> RouteReader {
        let slot = self.grace.register();
        RouteReader::new(self.fib4.reader(), self.fib6.reader(), slot, &self.published)
    }

    /// Replaces the configuration of the ports with the next publication.
    pub fn set_ports(&mut self, ports: Vec<PortConfig>) {
        self.ports = ports.into();
        self.table_changed = true;
    }

    /// Sets the seed with which flows choose between members of groups, with the next publication.
    /// Routers in a row need different seeds to use all their links.
    pub fn set_flow_seed(&mut self, seed: u64) {
        self.flow_hash.seed = seed;
        self.table_changed = true;
    }

    /// Sets the kernel's hash, if it is known, with the next publication.
    pub fn set_kernel_hash(&mut self, hash: Option<KernelHash>) {
        self.flow_hash.kernel = hash;
        self.table_changed = true;
    }

    /// Replaces the router's own addresses and their prefix lengths with the next publication.
    /// Packets with these source addresses are not forwarded, and shared addresses of such a
    /// network get no ICMP errors.
    pub fn set_own_addresses(&mut self, addresses: impl IntoIterator<Item = IpNet>) {
        self.own = Arc::new(addresses.into_iter().collect());
        self.table_changed = true;
    }

    /// Replaces the addresses from which this machine sends, in the kernel's order, with the next publication.
    pub fn set_source_addresses(&mut self, addresses: impl IntoIterator<Item = SourceAddress>) {
        self.sources = Arc::new(addresses.into_iter().collect());
        self.table_changed = true;
    }

    /// Returns the id of a next hop, with one reference, which the caller must [`Self::release`].
    /// Equal next hops have the same id.
    ///
    /// # Errors
    /// Fails when no id is free or a group is invalid.
    pub fn acquire(&mut self, next_hop: &NextHop) -> Result<NextHopId, RouteError> {
        if let Some(id) = self.ids.get(next_hop) {
            self.entries[usize::from(id.0)].references += 1;
            return Ok(*id);
        }
        self.check(next_hop)?;
        let id = self.unused_id(IdRange::Byte)?;
        self.reference_members(next_hop);
        self.entries[usize::from(id.0)] = Entry { next_hop: next_hop.clone(), references: 1 };
        self.ids.insert(next_hop.clone(), id);
        self.table_changed = true;
        Ok(id)
    }

    /// Returns an id that is not shared with equal next hops, with one reference for the caller;
    /// for next hops that will change individually with [`Self::set`].
    ///
    /// # Errors
    /// Fails when no id is free or a group is invalid.
    pub fn acquire_own(
        &mut self,
        next_hop: &NextHop,
        range: IdRange,
    ) -> Result<NextHopId, RouteError> {
        self.check(next_hop)?;
        let id = self.unused_id(range)?;
        self.reference_members(next_hop);
        self.entries[usize::from(id.0)] = Entry { next_hop: next_hop.clone(), references: 1 };
        self.table_changed = true;
        Ok(id)
    }

    /// Releases a reference. An id outlives its last reference by a grace period.
    pub fn release(&mut self, id: NextHopId) {
        let Some(entry) = self.entries.get_mut(usize::from(id.0)) else { return };
        if id == NextHopId::NONE || entry.references == 0 {
            return;
        }
        entry.references -= 1;
        if entry.references == 0 {
            // Removes the id from the index, unless another id has taken over that next hop.
            if self.ids.get(&entry.next_hop) == Some(&id) {
                self.ids.remove(&entry.next_hop);
            }
            self.released.push(id);
        }
    }

    /// Changes the next hop of an id for all routes that use it at once: a neighbour was resolved,
    /// has moved, or was lost.
    ///
    /// # Errors
    /// Fails when the id does not exist or a group is invalid.
    pub fn set(&mut self, id: NextHopId, next_hop: &NextHop) -> Result<(), RouteError> {
        let number = usize::from(id.0);
        if id == NextHopId::NONE || self.entries.get(number).is_none_or(|e| e.references == 0) {
            return Err(RouteError::UnknownNextHop(id.0));
        }
        if self.entries[number].next_hop == *next_hop {
            return Ok(());
        }
        self.check(next_hop)?;
        self.reference_members(next_hop);
        let old = std::mem::replace(&mut self.entries[number].next_hop, next_hop.clone());
        if self.ids.get(&old) == Some(&id) {
            self.ids.remove(&old);
        }
        self.ids.entry(next_hop.clone()).or_insert(id);
        self.release_members(&old);
        self.table_changed = true;
        Ok(())
    }

    /// Returns the next hop of an id, published or not.
    pub fn next_hop(&self, id: NextHopId) -> Option<&NextHop> {
        self.entries.get(usize::from(id.0)).filter(|e| e.references > 0).map(|e| &e.next_hop)
    }

    /// Adds or replaces a route with the next publication; the route holds its own reference.
    ///
    /// # Errors
    /// Fails when the id does not exist.
    pub fn insert(&mut self, prefix: IpNet, id: NextHopId) -> Result<(), RouteError> {
        let entry = self.entries.get_mut(usize::from(id.0)).filter(|entry| entry.references > 0);
        let entry = entry.filter(|_| id != NextHopId::NONE);
        entry.ok_or(RouteError::UnknownNextHop(id.0))?.references += 1;
        self.pending.push((prefix.trunc(), Some(id)));
        Ok(())
    }

    /// Calls [`Self::acquire`] and [`Self::insert`].
    ///
    /// # Errors
    /// Fails as these two do.
    pub fn route(&mut self, prefix: IpNet, next_hop: &NextHop) -> Result<NextHopId, RouteError> {
        let id = self.acquire(next_hop)?;
        let result = self.insert(prefix, id);
        self.release(id);
        result.map(|()| id)
    }

    /// Removes a route with the next publication.
    pub fn remove(&mut self, prefix: IpNet) {
        self.pending.push((prefix.trunc(), None));
    }

    /// Makes all changes visible, in the order that [`crate::forwarding`] explains.
    ///
    /// # Errors
    /// Returns the prefixes that the FIB refused; all other changes are published.
    pub fn publish(&mut self) -> Result<(), Vec<RouteError>> {
        self.reclaim();
        if self.table_changed {
            self.publish_table();
        }
        let mut errors = Vec::new();
        for (prefix, id) in std::mem::take(&mut self.pending) {
            let replaced = match (prefix, id) {
                (IpNet::V4(prefix), Some(id)) => self.fib4.insert(prefix, id),
                (IpNet::V6(prefix), Some(id)) => self.fib6.insert(prefix, id),
                (IpNet::V4(prefix), None) => Ok(self.fib4.remove(prefix)),
                (IpNet::V6(prefix), None) => Ok(self.fib6.remove(prefix)),
            };
            match replaced {
                Ok(Some(old)) => self.release(old),
                Ok(None) => {}
                Err(error) => {
                    errors.push(RouteError::Fib { prefix, error });
                    self.release(id.unwrap_or_default());
                }
            }
        }
        // Release order: a reader of the new generation also sees everything written above.
        self.published.generation.fetch_add(1, Ordering::Release);
        if !self.released.is_empty() {
            let epoch = self.grace.retire();
            self.retired.push_back((epoch, std::mem::take(&mut self.released)));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns the longest published prefix that contains an address, and its next hop.
    pub fn longest_match(&self, address: IpAddr) -> Option<(IpNet, NextHopId)> {
        match address {
            IpAddr::V4(address) => {
                self.fib4.longest_match(address).map(|(prefix, id)| (prefix.into(), id))
            }
            IpAddr::V6(address) => {
                self.fib6.longest_match(address).map(|(prefix, id)| (prefix.into(), id))
            }
        }
    }

    /// Returns the number of published prefixes: IPv4, IPv6.
    pub fn len(&self) -> (usize, usize) {
        (self.fib4.len(), self.fib6.len())
    }

    /// Returns true if no prefix is published.
    pub fn is_empty(&self) -> bool {
        self.fib4.is_empty() && self.fib6.is_empty()
    }

    fn publish_table(&mut self) {
        let next_hops = self.entries.iter().map(|entry| &entry.next_hop);
        self.published.table.store(Arc::new(Table::new(
            next_hops,
            self.ports.clone(),
            (self.own.clone(), self.sources.clone()),
            self.flow_hash,
        )));
        self.table_changed = false;
    }

    /// Reclaims ids whose grace period is over.
    fn reclaim(&mut self) {
        while let Some((epoch, _)) = self.retired.front() {
            if !self.grace.passed(*epoch) {
                return;
            }
            let Some((_, ids)) = self.retired.pop_front() else { return };
            for id in ids {
                let entry = &mut self.entries[usize::from(id.0)];
                let old = std::mem::replace(&mut entry.next_hop, NextHop::None);
                self.release_members(&old);
                self.unused[usize::from(id > NextHopId::BYTE_MAX)].push(id);
            }
        }
    }

    /// Returns the number of ids that next hops can still get.
    pub fn free_ids(&mut self) -> usize {
        self.reclaim();
        let never_used = usize::from(NextHopId::MAX.0) + 1 - self.entries.len();
        self.unused.iter().map(Vec::len).sum::<usize>() + never_used
    }

    /// Takes an unused id, of this range as long as it has any.
    fn unused_id(&mut self, range: IdRange) -> Result<NextHopId, RouteError> {
        let (own, other) = (range as usize, 1 - range as usize);
        if self.unused[own].is_empty() {
            self.reclaim();
        }
        if let Some(id) = self.unused[own].pop() {
            return Ok(id);
        }
        let (first, others) = (self.entries.len(), usize::from(NextHopId::BYTE_MAX.0) + 1);
        let (next, most) = match range {
            IdRange::Byte => (first, others),
            IdRange::Any => (first.max(others), usize::from(NextHopId::MAX.0) + 1),
        };
        if next >= most
            && let Some(id) = self.unused[other].pop()
        {
            return Ok(id);
        }
        if next > usize::from(NextHopId::MAX.0) {
            return Err(RouteError::NextHopsExhausted);
        }
        self.entries.resize_with(next + 1, || Entry { next_hop: NextHop::None, references: 0 });
        // The lowest id is taken first.
        let skipped = (first..next).rev().map(|id| NextHopId(id as u16));
        self.unused[IdRange::Byte as usize].extend(skipped);
        Ok(NextHopId(next as u16))
    }

    fn check(&self, next_hop: &NextHop) -> Result<(), RouteError> {
        let NextHop::Group(members) = next_hop else { return Ok(()) };
        if members.is_empty() {
            return Err(RouteError::BadGroup);
        }
        for (member, _) in members {
            match self.next_hop(*member) {
                None => return Err(RouteError::UnknownNextHop(member.0)),
                Some(NextHop::Group(_)) => return Err(RouteError::BadGroup),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn reference_members(&mut self, next_hop: &NextHop) {
        if let NextHop::Group(members) = next_hop {
            for (member, _) in members {
                self.entries[usize::from(member.0)].references += 1;
            }
        }
    }

    fn release_members(&mut self, next_hop: &NextHop) {
        if let NextHop::Group(members) = next_hop {
            for (member, _) in members {
                self.release(*member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::HopKind;
    use crate::port::PortId;
    use crate::testing::{MAC_A, frame4, net};

    fn resolve(port: u16) -> NextHop {
        NextHop::Resolve { port: PortId(port), gateway: None, source: None, vlan: None }
    }

    #[test]
    fn equal_next_hops_share_an_id_that_is_reused_only_after_a_grace_period() {
        let mut routes = Routes::new(vec![]);
        let reader = routes.reader();
        let a = routes.route(net("10.0.0.0/8"), &resolve(1)).unwrap();
        let b = routes.route(net("2001:db8::/32"), &resolve(1)).unwrap();
        assert_eq!(a, b);
        routes.publish().unwrap();
        routes.remove(net("10.0.0.0/8"));
        routes.publish().unwrap();
        assert!(routes.next_hop(a).is_some(), "one route still holds it");
        routes.remove(net("2001:db8::/32"));
        routes.publish().unwrap();
        assert!(routes.next_hop(a).is_none());
        assert_ne!(routes.acquire(&resolve(2)).unwrap(), a, "a worker may still use it");
        reader.slot.quiescent();
        routes.publish().unwrap();
        assert_eq!(routes.acquire(&resolve(3)).unwrap(), a);
        assert!(routes.is_empty());
    }

    #[test]
    fn readers_see_changes_only_when_published_and_then_together() {
        let mut routes = Routes::new(vec![]);
        let mut reader = routes.reader();
        let address = "10.1.2.3".parse().unwrap();
        let id = routes.route(net("10.0.0.0/8"), &NextHop::Blackhole).unwrap();
        assert_eq!(reader.resolve(address, 0).1.kind, HopKind::None);
        let generation = reader.generation();
        routes.publish().unwrap();
        assert_eq!(reader.resolve(address, 0), (id, *reader.table().hop(id)));
        assert_eq!(reader.resolve(address, 0).1.kind, HopKind::Blackhole);
        assert_ne!(reader.generation(), generation);
        routes.set(id, &NextHop::Punt).unwrap();
        routes.publish().unwrap();
        assert_eq!(reader.resolve(address, 0).1.kind, HopKind::Punt);
        assert_eq!(routes.longest_match(address), Some((net("10.0.0.0/8"), id)));
    }

    #[test]
    fn groups_hold_their_members_and_spread_flows() {
        let mut routes = Routes::new(vec![]);
        let mut reader = routes.reader();
        let members: Vec<_> = (0..2).map(|p| routes.acquire(&resolve(p)).unwrap()).collect();
        let group = NextHop::Group(members.iter().map(|id| (*id, 1)).collect());
        let id = routes.route(net("0.0.0.0/0"), &group).unwrap();
        for member in &members {
            routes.release(*member);
        }
        routes.publish().unwrap();
        let mut to = |hash| reader.resolve("192.0.2.1".parse().unwrap(), hash).0;
        let mut taken: Vec<_> = (0..64).map(|hash| to(hash << 26)).collect();
        assert_eq!(to(63 << 26), taken[63]);
        taken.sort_unstable_by_key(|id| id.0);
        taken.dedup();
        assert_eq!(taken, members);
        assert_eq!(routes.acquire(&NextHop::Group(vec![(id, 1)])), Err(RouteError::BadGroup));
        assert_eq!(routes.acquire(&NextHop::Group(vec![])), Err(RouteError::BadGroup));
        routes.remove(net("0.0.0.0/0"));
        routes.publish().unwrap();
        reader.slot.quiescent();
        routes.publish().unwrap();
        assert!(members.iter().all(|member| routes.next_hop(*member).is_none()));
    }

    #[test]
    fn neighbours_leave_room_in_bytes_for_gateways() {
        let mut routes = Routes::new(vec![]);
        let mut acquire = |prefix: &str| {
            routes.acquire_own(&resolve(1), IdRange::for_prefix(net(prefix))).map(|id| id.0)
        };
        assert_eq!(acquire("192.0.2.1/32"), Ok(255));
        assert_eq!(acquire("2001:db8::/32"), Ok(256));
        let gateways: Vec<_> = (0..254).map(|_| acquire("10.0.0.0/24").unwrap()).collect();
        assert!(gateways.iter().copied().eq(1..=254), "{gateways:?}");
        assert_eq!(acquire("10.0.0.0/24"), Ok(257), "one more is not refused");
        while acquire("192.0.2.1/32").is_ok_and(|id| id < NextHopId::MAX.0) {}
        for prefix in ["192.0.2.1/32", "10.0.0.0/24"] {
            assert_eq!(acquire(prefix), Err(RouteError::NextHopsExhausted));
        }
        routes.release(NextHopId(7));
        routes.release(NextHopId(300));
        routes.publish().unwrap();
        routes.publish().unwrap();
        let mut acquire = |prefix: &str| {
            routes.acquire_own(&resolve(1), IdRange::for_prefix(net(prefix))).map(|id| id.0)
        };
        assert_eq!(acquire("192.0.2.1/32"), Ok(300));
        assert_eq!(acquire("192.0.2.1/32"), Ok(7), "the last one is for any prefix");
    }

    #[test]
    fn unknown_ids_are_refused() {
        let mut routes = Routes::new(vec![]);
        let unknown = Err(RouteError::UnknownNextHop(9));
        assert_eq!(routes.insert(net("10.0.0.0/8"), NextHopId(9)), unknown);
        assert_eq!(routes.set(NextHopId(9), &NextHop::Punt), unknown);
        routes.release(NextHopId(9));
        assert!(routes.insert(net("10.0.0.0/8"), NextHopId::NONE).is_err());
    }

    /// Two routers in a row: the second spreads over both links the flows that the first sends one
    /// way.
    #[test]
    fn routers_with_different_seeds_spread_flows_differently() {
        let router = |seed| {
            let mut routes = Routes::new(vec![]);
            let members = [1, 2].map(|port| (routes.acquire(&resolve(port)).unwrap(), 1)).to_vec();
            routes.route(net("10.0.0.0/8"), &NextHop::Group(members)).unwrap();
            routes.set_flow_seed(seed);
            routes.publish().unwrap();
            let mut reader = routes.reader();
            move |packet: &[u8]| {
                let _alive = &routes;
                let hash = reader.table().flow_hash().hash_ipv4(packet);
                reader.resolve("10.1.2.3".parse().unwrap(), hash).1.port
            }
        };
        let (mut first, mut same, mut second) = (router(5), router(5), router(6));
        let packet = |port: u16| frame4(MAC_A, 64, &[&port.to_be_bytes()[..], &[0; 6]].concat());
        let packets = (0..2_000).map(|port| packet(port).split_off(14));
        let taken: Vec<_> = packets.filter(|packet| first(packet) == PortId(1)).collect();
        assert!(taken.iter().all(|packet| same(packet) == PortId(1)), "one seed, one choice");
        let share = taken.iter().filter(|packet| second(packet) == PortId(1)).count();
        // The count is binomial with mean about 500 and deviation 16; the bound is six deviations.
        assert!(share.abs_diff(taken.len() / 2) < 96, "{share} of {}", taken.len());
        assert!(taken.len().abs_diff(1_000) < 135, "{}", taken.len());
    }
}
