//! Answers to `show`.

use crate::contract::{Contract, Document};
use crate::router::PortState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use wattline_units::Build;

macro_rules! document {
    ($type:ident, $name:literal) => {
        impl Document for $type {
            const NAME: &'static str = $name;
        }
    };
}

document!(PortTable, "show ports");
document!(RouteTable, "show routes");
document!(NeighbourTable, "show neighbours");
document!(FibEntry, "show fib");
document!(FlowTable, "show flows");
document!(VersionEntry, "show version");
document!(ConfigTable, "show config");

/// Identity of a daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VersionEntry {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Its build.
    pub build: Build,
    /// Configuration file; empty if there is none.
    pub file: String,
    /// Process number.
    pub process: u32,
    /// Time since it was started.
    pub uptime_seconds: f64,
    /// Release of the running kernel.
    pub kernel: String,
    /// Parts of the configuration that are not in force before a restart.
    pub needs_restart: Vec<String>,
}

/// Configuration of a daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Configuration file; empty if there is none.
    pub file: String,
    /// Settings in force, with defaults.
    pub settings: Vec<ConfigSetting>,
    /// Settings of the file, as last read, that wait for a restart.
    pub waiting: Vec<ConfigSetting>,
    /// Parts of the configuration that are not in force before a restart.
    pub needs_restart: Vec<String>,
}

/// A setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigSetting {
    /// Heading of its section, such as `[router]`; empty at the top level.
    pub section: String,
    /// Number of the section among those with the same heading, from 0.
    pub place: usize,
    /// Its key.
    pub key: String,
    /// Its value as TOML; secrets are not shown.
    pub value: String,
    /// True if the file does not set it.
    pub is_default: bool,
}

/// Ports of a router.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Ports.
    pub ports: Vec<PortEntry>,
    /// Parts of the configuration that are not in force before a restart.
    pub needs_restart: Vec<String>,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortEntry {
    /// Its name.
    pub name: String,
    /// Its interface, if it has one.
    pub interface: Option<String>,
    /// Its Ethernet address.
    pub mac: String,
    /// Largest packet of its interface, in bytes.
    pub mtu: Option<u32>,
    /// Its addresses with prefix length.
    pub addresses: Vec<String>,
    /// VLANs on it.
    pub vlans: Vec<u16>,
    /// Its state, as in `stats`.
    pub state: Option<PortState>,
    /// Reason why it is not `up`.
    pub reason: Option<String>,
    /// Mode in which it is served, as in `stats`.
    pub mode: String,
    /// Checks of applications on its packets, in words.
    pub checks: Vec<String>,
    /// Reason why workers forward, and not XDP programs.
    pub by_workers_because: Option<String>,
    /// Received bits per second, as in `stats`.
    #[serde(default)]
    pub received_bits_per_second: Option<f64>,
    /// Transmitted bits per second, as in `stats`.
    #[serde(default)]
    pub transmitted_bits_per_second: Option<f64>,
}

/// Routes of a router.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Routes.
    pub routes: Vec<RouteEntry>,
    /// Number of prefixes, unlisted ones included.
    pub total: usize,
}

/// A route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteEntry {
    /// Its destination.
    pub prefix: String,
    /// `unicast`, `kernel`, `blackhole`, `unreachable` or `prohibit`.
    pub kind: String,
    /// Next hops.
    pub via: Vec<RouteHop>,
    /// Metric; the lowest is used.
    pub metric: u32,
    /// Number of the kernel's next-hop object.
    pub nexthop: Option<u32>,
    /// `configuration` or `kernel`.
    pub source: String,
    /// True if it is selected.
    pub in_use: bool,
}

/// A next hop of a route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteHop {
    /// The gateway; null if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface.
    pub interface: Option<String>,
    /// The port of that interface.
    pub port: Option<String>,
    /// Its share among the next hops.
    pub weight: u32,
    /// Largest packet, in bytes.
    pub mtu: Option<u32>,
}

/// Neighbours of a router.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Neighbours.
    pub neighbours: Vec<NeighbourEntry>,
    /// Number of neighbours, unlisted ones included.
    pub total: usize,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourEntry {
    /// Its address.
    pub address: IpAddr,
    /// The interface.
    pub interface: Option<String>,
    /// The port of that interface.
    pub port: Option<String>,
    /// Its Ethernet address, if known.
    pub mac: Option<String>,
    /// True if the kernel has not confirmed it for a while.
    pub stale: bool,
    /// `known`, `stale`, `incomplete` while being resolved, `failed` if it did not answer.
    pub state: String,
    /// `configuration` or `kernel`.
    pub source: String,
}

/// Forwarding of packets to an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FibEntry {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// The address.
    pub address: IpAddr,
    /// The longest prefix that contains it.
    pub prefix: Option<String>,
    /// Treatment of packets to it.
    pub next_hop: NextHopView,
    /// Reason why routes are not used; null if they are.
    #[serde(default)]
    pub because: Option<String>,
    /// IPsec policies for the address, in the order in which they apply, in words.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Routes that contain it.
    pub routes: Vec<RouteEntry>,
    /// Ports whose packets are forwarded differently.
    pub exceptions: Vec<Exception>,
}

/// Treatment of a packet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextHopView {
    /// `forward`, `no route`, `hold and ask for the neighbour`, `leave to the kernel`, `discard`,
    /// `unreachable`, `prohibited` or `one of several by flow`.
    pub action: String,
    /// Egress port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Ethernet address of the next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Ethernet address of the egress port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Gateway whose Ethernet address is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Largest packet, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Places of a group of next hops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
    /// Members of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<GroupMember>,
}

/// A member of a group of next hops.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupMember {
    /// Places of the group that lead to it: its share of the flows.
    pub places: u32,
    /// Treatment of a packet there.
    pub next_hop: NextHopView,
}

/// A port whose packets are forwarded differently.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exception {
    /// The ingress port.
    pub port: String,
    /// Reason.
    pub why: String,
}

/// The latest flow records, newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Records.
    pub flows: Vec<Flow>,
    /// Number of records, unlisted ones included.
    pub total: usize,
    /// Flows in the tables that have no record yet.
    pub flows_without_a_record_yet: u64,
}

/// A flow record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Source port of TCP or UDP.
    pub source_port: u16,
    /// Destination port of TCP or UDP.
    pub destination_port: u16,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Ingress port.
    #[serde(rename = "in")]
    pub port_in: Option<String>,
    /// Egress port.
    #[serde(rename = "out")]
    pub port_out: Option<String>,
    /// Time of the first packet, in milliseconds since 1970.
    pub first_millis: u64,
    /// Time of the last packet, in milliseconds since 1970.
    pub last_millis: u64,
}
