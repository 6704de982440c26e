//! Links, addresses, neighbours and routes as plain values.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// Kind of device that stands for several links and spreads its packets over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// By the driver `bonding`.
    Bond,
    /// By the driver `team`.
    Team,
}

impl Aggregation {
    /// Returns the aggregation of a link kind, as `ip -d link` names it.
    pub(crate) fn from_kind(kind: &str) -> Option<Self> {
        match kind {
            "bond" => Some(Self::Bond),
            "team" => Some(Self::Team),
            _ => None,
        }
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bond => "bond",
            Self::Team => "team",
        })
    }
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Set up by the administrator (IFF_UP).
    pub enabled: bool,
    /// Enabled and with a carrier (IFF_RUNNING or IFF_LOWER_UP): packets can go out.
    pub running: bool,
    /// The link below and the VLAN id, for a VLAN subinterface.
    pub vlan: Option<(u32, u16)>,
    /// Made by software (veth, bridge, tun), whose senders may leave checksums unfinished.
    pub is_virtual: bool,
    /// Set where it stands for several others.
    pub aggregation: Option<Aggregation>,
    /// Setting because of which only the kernel can send through it, where there is one.
    pub left_because: Option<&'static str>,
}

impl Link {
    /// Whether it is a bond: XDP in drivers would run at its members, whose sockets are not those
    /// of the bond.
    pub fn is_bond(&self) -> bool {
        self.aggregation == Some(Aggregation::Bond)
    }
}

/// An address of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The link it belongs to.
    pub link: u32,
    /// The address and the length of its prefix.
    pub address: IpNet,
    /// Rank among the sources of packets that this machine sends itself.
    pub rank: SourceRank,
}

/// Rank of an address among the source addresses that the kernel chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceRank {
    /// Chosen before others.
    Preferred,
    /// Chosen if there is no other.
    Deprecated,
    /// Not chosen: tentative (IPv6), secondary, or of the scope of a link or host (IPv4).
    Never,
}

/// A neighbour on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The link it is on.
    pub link: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address; `None` while it is being resolved or when that failed.
    pub mac: Option<[u8; 6]>,
    /// The kernel has not confirmed it for a while: it will be forgotten unless it is used.
    pub stale: bool,
}

/// Routing table that lookups reach without rules of policy routing, in the order of lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Table {
    /// Addresses of this machine, and what was added there.
    Local,
    /// Ordinary routes.
    #[default]
    Main,
    /// Routes for packets that the main table has none for (IPv4 alone).
    Default,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its table.
    pub table: Table,
    /// Digest of what limits it to some packets (type of service, source prefix); 0 for all packets.
    pub selector: u64,
    /// Digest of the attributes that tell it from another route with the same next hops, and that
    /// do not matter for forwarding (protocol, preferred source address and others).
    pub identity: u64,
    /// First attribute, type or flag that is not understood: its packets are the kernel's.
    pub not_understood: Option<String>,
    /// Destinations.
    pub prefix: IpNet,
    /// The lower wins among routes of one prefix.
    pub metric: u32,
    /// Treatment of matching packets.
    pub kind: RouteKind,
    /// Next hops; more than one for multipath, none unless `kind` is unicast.
    pub hops: Vec<Hop>,
    /// The number of the next hop, or group of them, that it names (`ip nexthop`): the route
    /// changes and goes with that.
    pub nexthop: Option<u32>,
    /// Source address of packets that this machine sends by it (`src`).
    pub source: Option<IpAddr>,
    /// Whether it comes from a router's advertisement: such routes of one metric are not joined to one.
    pub advertised: bool,
}

impl Route {
    /// A route of the main table for all packets.
    pub fn new(prefix: IpNet, metric: u32, kind: RouteKind, hops: Vec<Hop>) -> Self {
        Self {
            table: Table::Main,
            selector: 0,
            identity: 0,
            not_understood: None,
            prefix,
            metric,
            kind,
            hops,
            nexthop: None,
            source: None,
            advertised: false,
        }
    }
}

/// Place of a new route among those of its prefix and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Before the others.
    First,
    /// After the others.
    Last,
    /// In place of the first.
    Replace,
    /// In the order in which a dump names them.
    Dumped,
}

/// Treatment of packets that match a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// They go out of a link.
    Unicast,
    /// They are for this machine or a group (types local, broadcast, anycast and multicast), in any
    /// table. The kernel forwards no IPv4 packet from such an address.
    Local,
    /// They need what only the kernel does, such as tunnel encapsulation.
    Kernel,
    /// Silently discarded.
    Blackhole,
    /// Discarded with ICMP host unreachable.
    Unreachable,
    /// Discarded with ICMP administratively prohibited.
    Prohibit,
}

/// One next hop of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The link out of which packets go.
    pub link: u32,
    /// The neighbour; `None` when destinations are neighbours themselves. May be IPv6 for
    /// an IPv4 prefix (RFC 5549).
    pub gateway: Option<IpAddr>,
    /// Its share among several ways, from 1.
    pub weight: u16,
    /// Largest IP packet in bytes that the route lets pass (RTAX_MTU), where it says so.
    pub mtu: Option<u16>,
    /// Not used at present, although the link is up (RTNH_F_DEAD).
    pub dead: bool,
}

impl Hop {
    /// Returns true for the same neighbour on the same link, whatever its share and state.
    pub fn leads_as(&self, other: &Self) -> bool {
        (self.link, self.gateway) == (other.link, other.gateway)
    }
}

/// A change of what the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Start of a dump: events up to [`Event::DumpEnd`] name everything that exists, changes may be
    /// mixed in. Earlier knowledge stays valid until then.
    DumpBegin,
    /// End of a dump: objects known at [`Event::DumpBegin`] and not named since are gone.
    DumpEnd,
    /// The same as [`Event::DumpBegin`], of neighbours alone.
    NeighbourDumpBegin,
    /// The same as [`Event::DumpEnd`], of neighbours alone.
    NeighbourDumpEnd,
    /// A link is new or has changed.
    Link(Link),
    /// A link is gone, and all that was on it.
    LinkGone(u32),
    /// Parameters of a link (`net.ipv4.conf`, `net.ipv6.conf`).
    LinkParameters {
        /// The link.
        link: u32,
        /// Those of IPv6; otherwise of IPv4.
        ipv6: bool,
        /// Routes over the link are not used while it has no carrier
        /// (`ignore_routes_with_linkdown`).
        ignores_linkdown: bool,
    },
    /// An address is new or has changed.
    Address(Address),
    /// An address is gone.
    AddressGone(Address),
    /// A neighbour is new or has changed.
    Neighbour(Neighbour),
    /// A neighbour is gone.
    NeighbourGone {
        /// The link it was on.
        link: u32,
        /// Its address.
        address: IpAddr,
    },
    /// A route is new.
    Route {
        /// The route.
        route: Route,
        /// Its place among the routes with its prefix and metric.
        placement: Placement,
    },
    /// A route is gone.
    RouteGone(Route),
    /// The routes that name a next hop by number mean something else from now on.
    Nexthop {
        /// The number.
        id: u32,
        /// Treatment of packets.
        kind: RouteKind,
        /// Next hops; the MTUs of the routes stay.
        hops: Vec<Hop>,
    },
    /// A next hop with a number is gone, and all routes that name it.
    NexthopGone(u32),
}
