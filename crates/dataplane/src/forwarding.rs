//! The tables that the nodes read: next hops, ports, and the FIBs that lead to them.
//!
//! # Order
//! A worker looks up an address in the FIB *first* and fetches the next-hop table *after* that. The
//! control plane ([`crate::routes`]) publishes a next hop in a table before a FIB entry names it.
//! The table therefore knows every id that a lookup can return. Ids are reused only after a grace
//! period, and a worker reports itself quiescent only between batches. An id therefore keeps its
//! meaning for the whole batch, in every newer table as well.

use crate::flow_hash::{FlowHash, Shares};
use crate::next_hop::{Adjacency, NextHop};
use crate::own_addresses::OwnAddresses;
use crate::port::PortId;
use crate::source_addresses::SourceAddresses;
use arc_swap::{ArcSwap, Cache};
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wattline_fib::grace::ReaderSlot;
use wattline_fib::{Fib4Reader, Fib6Reader, NextHopId};
use wattline_packet::{flow, mss};

/// Configuration of a port that matters for received packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// MAC address of the port.
    pub mac: [u8; 6],
    /// True if frames for other stations are accepted as if they were for this one.
    pub promiscuous: bool,
    /// True if the interface is virtual: its senders may leave checksums unfinished.
    pub is_virtual: bool,
    /// IP addresses of the port with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// VLANs that are routed; frames of all others go to the kernel.
    pub vlans: Vec<VlanConfig>,
    /// Largest TCP segments through the port, in either direction.
    pub segments: Option<mss::Limit>,
}

/// A VLAN subinterface of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VlanConfig {
    /// VLAN id, 1 to 4094.
    pub id: u16,
    /// IP addresses of the subinterface with their prefix lengths.
    pub addresses: Vec<IpNet>,
}

/// Kind of a next hop, as one byte for the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum HopKind {
    /// Same as [`NextHop::None`].
    #[default]
    None,
    /// Same as [`NextHop::Forward`].
    Forward,
    /// Same as [`NextHop::Resolve`].
    Resolve,
    /// Same as [`NextHop::Punt`].
    Punt,
    /// Same as [`NextHop::Blackhole`].
    Blackhole,
    /// Same as [`NextHop::Unreachable`].
    Unreachable,
    /// Same as [`NextHop::Prohibit`].
    Prohibit,
    /// Same as [`NextHop::Group`].
    Group,
}

/// A next hop laid out for the fast path; two of them share a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(32))]
pub struct Hop {
    /// Destination and source MAC address, in the order in which they are written into a frame.
    pub macs: [u8; 12],
    /// Largest IP packet in bytes; 0 unless `kind` is [`HopKind::Forward`]. A single comparison
    /// then also rejects packets whose next hop has no egress port.
    pub mtu: u16,
    /// MTU of the egress interface: at least `mtu`.
    pub link_mtu: u16,
    /// Egress port.
    pub port: PortId,
    /// VLAN id to push, 0 for none.
    pub vlan: u16,
    /// `mtu` without a VLAN id, otherwise 0: a single comparison finds packets that need no tag.
    pub untagged_mtu: u16,
    /// Kind of the next hop.
    pub kind: HopKind,
    /// Index into the table's addresses of next hops or groups, depending on `kind`.
    index: u32,
}

/// Meaning of all next-hop ids; immutable, published as a whole.
#[derive(Debug, Default)]
pub struct Table {
    hops: Vec<Hop>,
    vias: Vec<Via>,
    groups: Vec<Shares>,
    ports: Arc<[PortConfig]>,
    own: Arc<OwnAddresses>,
    sources: Arc<SourceAddresses>,
    flow_hash: FlowHash,
}

/// Addresses of a next hop.
#[derive(Debug, Clone, Copy, Default)]
struct Via {
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
}

static NO_HOP: Hop = Hop {
    macs: [0; 12],
    mtu: 0,
    link_mtu: 0,
    port: PortId(0),
    vlan: 0,
    untagged_mtu: 0,
    kind: HopKind::None,
    index: 0,
};

impl Table {
    /// Builds the table from next hops in the order of their ids; the first is that of
    /// [`NextHopId::NONE`].
    pub fn new<'a>(
        next_hops: impl Iterator<Item = &'a NextHop>,
        ports: Arc<[PortConfig]>,
        (own, sources): (Arc<OwnAddresses>, Arc<SourceAddresses>),
        flow_hash: FlowHash,
    ) -> Self {
        let mut table = Self { ports, own, sources, flow_hash, ..Self::default() };
        for next_hop in next_hops {
            let hop = table.lay_out(next_hop);
            table.hops.push(hop);
        }
        table
    }

    fn lay_out(&mut self, next_hop: &NextHop) -> Hop {
        let plain = |kind| Hop { kind, ..NO_HOP };
        match next_hop {
            NextHop::None => NO_HOP,
            NextHop::Punt => plain(HopKind::Punt),
            NextHop::Blackhole => plain(HopKind::Blackhole),
            NextHop::Unreachable => plain(HopKind::Unreachable),
            NextHop::Prohibit => plain(HopKind::Prohibit),
            NextHop::Forward(adjacency) => {
                let Adjacency { gateway, source, .. } = *adjacency;
                Hop { index: self.index_of(Via { gateway, source }), ..forward(adjacency) }
            }
            NextHop::Resolve { port, gateway, source, vlan } => {
                let index = self.index_of(Via { gateway: *gateway, source: *source });
                let vlan = vlan.unwrap_or(0);
                Hop { kind: HopKind::Resolve, port: *port, vlan, index, ..NO_HOP }
            }
            NextHop::Group(members) => {
                self.groups.push(Shares::new(members));
                let index = (self.groups.len() - 1) as u32;
                Hop { kind: HopKind::Group, index, ..NO_HOP }
            }
        }
    }

    fn index_of(&mut self, via: Via) -> u32 {
        self.vias.push(via);
        (self.vias.len() - 1) as u32
    }

    /// Returns the next hop of an id; that of [`NextHopId::NONE`] if the table does not know the
    /// id.
    #[inline]
    pub fn hop(&self, id: NextHopId) -> &Hop {
        self.hops.get(usize::from(id.0)).unwrap_or(&NO_HOP)
    }

    /// Returns all next hops by id, for loops over a batch.
    #[inline]
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Returns the member of a group for a flow with this hash; no route if the group is empty.
    pub fn member(&self, group: &Hop, hash: u32) -> NextHopId {
        let group = self.groups.get(group.index as usize);
        group.map_or(NextHopId::NONE, |shares| shares.choose(hash))
    }

    /// Returns the members of a group; none if the next hop is no group.
    pub fn members(&self, hop: &Hop) -> impl Iterator<Item = NextHopId> {
        let group = (hop.kind == HopKind::Group).then(|| self.groups.get(hop.index as usize));
        group.flatten().into_iter().flat_map(Shares::members)
    }

    /// Returns the hash by which flows choose between the members of a group.
    pub fn flow_hash(&self) -> &FlowHash {
        &self.flow_hash
    }

    /// Returns the hash of the network of a sender, keyed by this router's seed.
    pub fn sender(&self, address: IpAddr) -> u32 {
        flow::sender(address, self.flow_hash.seed)
    }

    /// Returns the neighbour to resolve for `hop`; `None` if it is the packet's destination.
    pub fn gateway(&self, hop: &Hop) -> Option<IpAddr> {
        self.via(hop).gateway
    }

    /// Returns the source address that the route of `hop` prescribes.
    pub fn prescribed_source(&self, hop: &Hop) -> Option<IpAddr> {
        self.via(hop).source
    }

    fn via(&self, hop: &Hop) -> Via {
        let has = matches!(hop.kind, HopKind::Forward | HopKind::Resolve);
        has.then(|| self.vias.get(hop.index as usize).copied()).flatten().unwrap_or_default()
    }

    /// Returns the addresses from which this machine sends.
    pub fn sources(&self) -> &SourceAddresses {
        &self.sources
    }

    /// Returns the router's own addresses.
    #[inline]
    pub fn own(&self) -> &OwnAddresses {
        &self.own
    }

    /// Returns the configuration of a port; `None` if there is no such port.
    #[inline]
    pub fn port(&self, port: PortId) -> Option<&PortConfig> {
        self.ports.get(usize::from(port.0))
    }
}

fn forward(adjacency: &Adjacency) -> Hop {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&adjacency.destination_mac);
    macs[6..].copy_from_slice(&adjacency.source_mac);
    // Otherwise, at an interface with MTU 0, packets would be looked up again for ever.
    let mtu = adjacency.mtu.max(1);
    let vlan = adjacency.vlan.unwrap_or(0);
    Hop {
        macs,
        mtu,
        link_mtu: adjacency.link_mtu.max(adjacency.mtu).max(1),
        port: adjacency.port,
        vlan,
        untagged_mtu: if vlan == 0 { mtu } else { 0 },
        kind: HopKind::Forward,
        index: 0,
    }
}

/// The tables that the control plane publishes to all workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub table: Arc<ArcSwap<Table>>,
    /// Number of publications, including those of the FIB; a change announces a publication.
    pub generation: Arc<AtomicU64>,
}

/// One worker's access to the published tables.
pub struct RouteReader {
    /// IPv4 FIB: prefixes to next-hop ids.
    pub fib4: Fib4Reader,
    /// IPv6 FIB: prefixes to next-hop ids.
    pub fib6: Fib6Reader,
    /// Reports when this worker holds no reference: between batches and while it sleeps.
    pub slot: ReaderSlot,
    table: Cache<Arc<ArcSwap<Table>>, Arc<Table>>,
    generation: Arc<AtomicU64>,
}

impl RouteReader {
    pub(crate) fn new(
        fib4: Fib4Reader,
        fib6: Fib6Reader,
        slot: ReaderSlot,
        published: &Published,
    ) -> Self {
        Self {
            fib4,
            fib6,
            slot,
            table: Cache::new(published.table.clone()),
            generation: published.generation.clone(),
        }
    }

    /// Returns the newest table. Call this after a FIB lookup, never before it (see the module's
    /// "Order").
    #[inline]
    pub fn table(&mut self) -> &Table {
        self.table.load()
    }

    /// Returns the newest table and the IPv4 FIB, for callers whose id does not come from a lookup.
    #[inline]
    pub fn table_and_fib4(&mut self) -> (&Table, &Fib4Reader) {
        (self.table.load(), &self.fib4)
    }

    /// Returns a number that changes with every publication.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the next hop for `destination`, with all lookups combined; for slow paths.
    pub fn resolve(&mut self, destination: IpAddr, flow_hash: u32) -> (NextHopId, Hop) {
        let id = match destination {
            IpAddr::V4(address) => self.fib4.lookup(address.into()),
            IpAddr::V6(address) => self.fib6.lookup(address.into()),
        };
        let table = self.table.load();
        let hop = table.hop(id);
        if hop.kind == HopKind::Group {
            let member = table.member(hop, flow_hash);
            return (member, *table.hop(member));
        }
        (id, *hop)
    }
}
