//! Links, addresses, neighbours and routes as plain values.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// What stands for several links, among which it spreads what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// By the driver `bonding`.
    Bond,
    /// By the driver `team`.
    Team,
}

impl Aggregation {
    /// That of links of a kind, as `ip -d link` names it.
    pub(crate) fn of_kind(kind: &str) -> Option<Self> {
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
    /// Enabled and with a carrier (IFF_RUNNING): packets can go out.
    pub running: bool,
    /// The link below and the VLAN id, for a VLAN subinterface.
    pub vlan: Option<(u32, u16)>,
    /// Set where it stands for several others.
    pub aggregation: Option<Aggregation>,
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

/// A route of the main table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destinations.
    pub prefix: IpNet,
    /// The lower wins among routes of one prefix.
    pub metric: u32,
    /// What becomes of matching packets.
    pub kind: RouteKind,
    /// Where they go; more than one for multipath, none unless `kind` is unicast.
    pub hops: Vec<Hop>,
    /// The number of the next hop, or group of them, that it names (`ip nexthop`): the route
    /// changes and goes with that.
    pub nexthop: Option<u32>,
}

/// What becomes of packets that match a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// They go out of a link.
    Unicast,
    /// They are for this machine, or need what only the kernel does (tunnel encapsulation).
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
}

/// A change of what the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What follows up to [`Event::DumpEnd`] is everything that there is; changes may be
    /// mixed in. What was known before stays true until then.
    DumpBegin,
    /// What was known at [`Event::DumpBegin`] and has not been named since is gone.
    DumpEnd,
    /// The same as [`Event::DumpBegin`], of neighbours alone.
    NeighbourDumpBegin,
    /// The same as [`Event::DumpEnd`], of neighbours alone.
    NeighbourDumpEnd,
    /// A link is new or has changed.
    Link(Link),
    /// A link is gone, and all that was on it.
    LinkGone(u32),
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
        /// It takes the place of the one with its prefix and metric.
        replace: bool,
    },
    /// A route is gone.
    RouteGone(Route),
    /// The routes that name a next hop by number mean something else from now on.
    Nexthop {
        /// The number.
        id: u32,
        /// What becomes of packets.
        kind: RouteKind,
        /// Where they go; the MTUs of the routes stay.
        hops: Vec<Hop>,
    },
    /// A next hop with a number is gone, and all routes that name it.
    NexthopGone(u32),
}
