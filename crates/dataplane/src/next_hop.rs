//! Next hops of routes.
//!
//! The tables of `wattline-fib` map prefixes to ids, and this table maps an id to its meaning. It
//! is an immutable snapshot: the control plane publishes a new one as a whole, and workers pick it
//! up between batches. An id is published here before a route names it, and is reused only after a
//! grace period.

use crate::port::PortId;
use std::net::IpAddr;
use wattline_fib::NextHopId;

/// Treatment of a packet whose destination matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// Unused id: packets with it are dropped as `no-route`.
    None,
    /// Send through a port to a known neighbour.
    Forward(Adjacency),
    /// Send through a port to a neighbour whose MAC address is not known yet. The packet is held,
    /// and the control plane is asked to resolve the address. `gateway` is `None` for a connected
    /// prefix, where the packet's destination is the neighbour.
    Resolve {
        /// Egress port.
        port: PortId,
        /// Address of the neighbour, unless it is the packet's destination.
        gateway: Option<IpAddr>,
        /// Source address that the route prescribes for packets of this machine.
        source: Option<IpAddr>,
        /// VLAN id of the egress interface if that is a VLAN subinterface. A link-local address
        /// does not determine the link of a port.
        vlan: Option<u16>,
    },
    /// Leave to the kernel: the packet is for this machine or for an interface outside Wattline.
    Punt,
    /// Discard without an ICMP error.
    Blackhole,
    /// Discard and send ICMP host unreachable (RFC 1812 5.2.7.1) or ICMPv6 no route.
    Unreachable,
    /// Discard and send ICMP communication administratively prohibited.
    Prohibit,
    /// Choose one of these next hops by flow hash and weight. No member is a group.
    Group(Vec<(NextHopId, u16)>),
}

/// A resolved neighbour on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Adjacency {
    /// Egress port.
    pub port: PortId,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// MTU of the egress interface in bytes, below which `mtu` is that of a route.
    pub link_mtu: u16,
    /// MAC address of the neighbour.
    pub destination_mac: [u8; 6],
    /// MAC address of the port.
    pub source_mac: [u8; 6],
    /// VLAN id of the 802.1Q tag to push, when the egress interface is a VLAN subinterface.
    pub vlan: Option<u16>,
    /// IP address of the neighbour, if it is known.
    pub gateway: Option<IpAddr>,
    /// Source address that the route prescribes for packets of this machine.
    pub source: Option<IpAddr>,
}
