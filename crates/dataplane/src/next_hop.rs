//! What a route leads to.
//!
//! The tables of `wattline-fib` map prefixes to ids; this table says what an id means. It is
//! an immutable snapshot: the control plane publishes a new one whole, workers pick it
//! up between batches. Ids are published here before a route names them, and reused
//! only after a grace period.

use crate::port::PortId;
use std::net::IpAddr;
use wattline_fib::NextHopId;

/// What becomes of a packet whose destination matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// Unused id: packets that get here are dropped as `no-route`.
    None,
    /// Out of a port, to a known neighbour.
    Forward(Adjacency),
    /// Out of a port, to a neighbour whose address is not known yet: the packet is held
    /// and the control plane asked to resolve it. `gateway` is `None` for a connected
    /// prefix, where the packet's own destination is the neighbour.
    Resolve {
        /// Way out.
        port: PortId,
        /// The neighbour, when it is not the packet's destination.
        gateway: Option<IpAddr>,
    },
    /// For this machine, or out of an interface that Wattline does not own: to the kernel.
    Punt,
    /// Discard silently.
    Blackhole,
    /// Discard, ICMP host unreachable (RFC 1812 5.2.7.1) or ICMPv6 no route.
    Unreachable,
    /// Discard, ICMP communication administratively prohibited.
    Prohibit,
    /// One of several by flow hash; never a group itself. Weights are expressed by repetition.
    Group(Vec<NextHopId>),
}

/// A resolved neighbour on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Adjacency {
    /// Way out.
    pub port: PortId,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// The neighbour.
    pub destination_mac: [u8; 6],
    /// The port's own.
    pub source_mac: [u8; 6],
    /// 802.1Q tag to push (VLAN id), when the way out is a VLAN subinterface.
    pub vlan: Option<u16>,
}
