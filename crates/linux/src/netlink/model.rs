//! Links, addresses, neighbours and routes as plain values.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// Kind of device that stands for several links and distributes packets to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// Made by the driver `bonding`.
    Bond,
    /// Made by the driver `team`.
    Team,
}

impl Aggregation {
    /// Returns the aggregation of a link kind, named as in `ip -d link`.
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
    /// Index of the link in the kernel.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Set up by the administrator (IFF_UP).
    pub enabled: bool,
    /// Enabled and with a carrier (IFF_RUNNING or IFF_LOWER_UP): packets can be sent.
    pub running: bool,
    /// The link below and the VLAN id, for a VLAN subinterface.
    pub vlan: Option<(u32, u16)>,
    /// Made by software (veth, bridge, tun), whose senders may leave checksums unfinished.
    pub is_virtual: bool,
    /// Kind of aggregation, if it stands for several links.
    pub aggregation: Option<Aggregation>,
    /// Setting because of which only the kernel can send through it, if any.
    pub left_because: Option<&'static str>,
}

impl Link {
    /// Returns true for a bond. XDP in drivers would run at its members, whose sockets are not
    /// those of the bond.
    pub fn is_bond(&self) -> bool {
        self.aggregation == Some(Aggregation::Bond)
    }
}

/// An address of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Link with the address.
    pub link: u32,
    /// Address with its prefix length.
    pub address: IpNet,
    /// Rank among the source addresses of this machine's own packets.
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
    /// Link of the neighbour.
    pub link: u32,
    /// IP address.
    pub address: IpAddr,
    /// Ethernet address; `None` while it is being resolved or when that failed.
    pub mac: Option<[u8; 6]>,
    /// True if the kernel has not confirmed it for a while: it will be forgotten unless it is used.
    pub stale: bool,
}

/// Routing table that lookups reach without rules of policy routing, in the order of lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Table {
    /// Addresses of this machine, and routes that were added there.
    Local,
    /// Ordinary routes.
    #[default]
    Main,
    /// Routes for packets without a route in the main table (IPv4 only).
    Default,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Table.
    pub table: Table,
    /// Digest of the conditions that limit it to some packets (type of service, source prefix); 0
    /// for all packets.
    pub selector: u64,
    /// Digest of the attributes that distinguish it from another route with the same next hops and
    /// do not affect forwarding (protocol, preferred source address and others).
    pub identity: u64,
    /// First attribute, type or flag that is not understood: its packets are left to the kernel.
    pub not_understood: Option<String>,
    /// Destination prefix.
    pub prefix: IpNet,
    /// Metric; the lowest among routes of one prefix is used.
    pub metric: u32,
    /// Treatment of matching packets.
    pub kind: RouteKind,
    /// Next hops; more than one for multipath, none unless `kind` is unicast.
    pub hops: Vec<Hop>,
    /// Number of its next hop or next-hop group (`ip nexthop`), with which the route changes and
    /// vanishes.
    pub nexthop: Option<u32>,
    /// Source address of packets that this machine sends through it (`src`).
    pub source: Option<IpAddr>,
    /// True if it comes from a router advertisement. Advertised routes with one metric are not
    /// joined.
    pub advertised: bool,
}

impl Route {
    /// Makes a route of the main table for all packets.
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
    /// Replaces the first.
    Replace,
    /// In the order of the dump.
    Dumped,
}

/// Treatment of packets that match a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// Sent through a link.
    Unicast,
    /// Delivered to this machine or a group (types local, broadcast, anycast and multicast), in any
    /// table. The kernel forwards no IPv4 packet from such an address.
    Local,
    /// Left to the kernel, as for tunnel encapsulation.
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
    /// Egress link.
    pub link: u32,
    /// Address of the neighbour; `None` if destinations are neighbours themselves. May be IPv6 for
    /// an IPv4 prefix (RFC 5549).
    pub gateway: Option<IpAddr>,
    /// Weight among several next hops, from 1.
    pub weight: u16,
    /// Largest IP packet in bytes that the route lets pass (RTAX_MTU), if it has a limit.
    pub mtu: Option<u16>,
    /// True if it is not used at present, although the link is up (RTNH_F_DEAD).
    pub dead: bool,
}

impl Hop {
    /// Returns true for the same neighbour on the same link, whatever the weight and state.
    pub fn leads_as(&self, other: &Self) -> bool {
        (self.link, self.gateway) == (other.link, other.gateway)
    }
}

/// A change of the kernel's network state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Start of a dump: events up to [`Event::DumpEnd`] name everything that exists, and may
    /// include changes. Earlier knowledge stays valid until then.
    DumpBegin,
    /// End of a dump: objects known at [`Event::DumpBegin`] and not named since are gone.
    DumpEnd,
    /// As [`Event::DumpBegin`], for neighbours only.
    NeighbourDumpBegin,
    /// As [`Event::DumpEnd`], for neighbours only.
    NeighbourDumpEnd,
    /// A link is new or has changed.
    Link(Link),
    /// A link is gone, with everything on it.
    LinkGone(u32),
    /// Parameters of a link (`net.ipv4.conf`, `net.ipv6.conf`).
    LinkParameters {
        /// The link.
        link: u32,
        /// True for the parameters of IPv6, false for IPv4.
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
        /// Link of the neighbour.
        link: u32,
        /// IP address.
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
    /// The routes that refer to a next hop by number now have this meaning.
    Nexthop {
        /// The number.
        id: u32,
        /// Treatment of packets.
        kind: RouteKind,
        /// Next hops; the MTUs of the routes are kept.
        hops: Vec<Hop>,
    },
    /// A next hop with a number is gone, with all routes that refer to it.
    NexthopGone(u32),
}
