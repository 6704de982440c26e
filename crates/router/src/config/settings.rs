//! What a configuration says, checked.

use super::power::PowerSettings;
use super::section::Settings;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wattline_dpdk::DeviceText;

/// A whole configuration. Whoever holds one may rely on it: names are unique, ports
/// that are named exist, and values are in range.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The `[router]` section.
    pub router: RouterSettings,
    /// The ports, in the order of the file; a port's id is its index.
    pub ports: Vec<PortSettings>,
    /// Static routes.
    pub routes: Vec<RouteSettings>,
    /// Static neighbours.
    pub neighbours: Vec<NeighbourSettings>,
    /// More static routes.
    pub routes_file: Option<PathBuf>,
    /// How much is logged.
    pub log_level: LogLevel,
    /// Where metrics are served; nowhere without.
    pub metrics: Option<SocketAddr>,
    /// What it says of applications.
    pub applications: Vec<Arc<dyn Settings>>,
    /// The `[power]` section.
    pub power: PowerSettings,
    /// What DPDK's environment is started with.
    pub dpdk_arguments: Vec<String>,
}

/// The `[router]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterSettings {
    /// Number of worker threads.
    pub workers: u16,
    /// What a worker does when there is no work.
    pub mode: Mode,
    /// Most frames that a worker takes from a queue at once.
    pub batch: u16,
    /// The CPU of each worker; empty when they are not pinned.
    pub cpus: Vec<u16>,
    /// Whether sockets ask for preferred busy polling.
    pub busy_poll: bool,
    /// Whether XDP programs forward by themselves what needs no worker.
    pub xdp_forward: XdpForwarding,
    /// What becomes of ports whose packets the kernel would do more with than to route them.
    pub takeover: Takeover,
    /// What flows are spread over several next hops by; drawn at random without.
    pub flow_seed: Option<u32>,
    /// Whether the kernel's routes, neighbours and addresses are followed.
    pub kernel_routes: bool,
    /// How long an adaptive worker polls in vain before it blocks.
    pub idle: Duration,
    /// How long workers may forward what is still queued when the router stops.
    pub drain: Duration,
    /// Chunks of packet memory per worker, where no port is served by AF_XDP.
    pub frames: u32,
    /// Where the control socket is; `None` for the default directory.
    pub socket: Option<PathBuf>,
}

/// What a worker does when there is no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Asks its queues again and again.
    Poll,
    /// Blocks until something arrives.
    Interrupt,
    /// Polls while there is work, blocks when there has been none for a while.
    Adaptive,
}

/// Whether XDP programs forward by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpForwarding {
    /// Where frames would reach workers by copies, and none has to see them.
    Auto,
    /// Always, or the router does not start.
    On,
    /// Never.
    Off,
}

/// What becomes of ports whose packets the kernel would do more with than to route them: filter,
/// translate, shape them, or route them by rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Takeover {
    /// The router does not start. Where it runs already, as with `Narrow`.
    Strict,
    /// They are left to the kernel.
    Narrow,
    /// They are forwarded all the same.
    Force,
}

/// A `[[port]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSettings {
    /// Its name in this file and in all output.
    pub name: String,
    /// Where its frames come from.
    pub kind: PortKind,
    /// Its Ethernet address, where it has none by itself.
    pub mac: Option<[u8; 6]>,
    /// Its addresses with the prefixes that are on its link.
    pub addresses: Vec<IpNet>,
    /// Largest IP packet in bytes; `None` for the interface's own.
    pub mtu: Option<u16>,
    /// Whether frames to other Ethernet addresses are routed too.
    pub promiscuous: bool,
    /// Where packets to it are spread by an indirection table of ours.
    pub steer: Option<SteerSettings>,
}

/// The sender's end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SteerSettings {
    /// The network namespace that it is in; `None` for the router's own.
    pub namespace: Option<String>,
    /// Its name.
    pub interface: String,
}

/// Where a port's frames come from and go to.
#[derive(Debug, Clone, PartialEq)]
pub enum PortKind {
    /// A Linux interface, through AF_XDP.
    Interface(String),
    /// A device of DPDK.
    Dpdk {
        /// The device.
        device: DeviceText,
        /// The TAP device that stands for it in the kernel.
        interface: Option<String>,
    },
    /// Capture files.
    Capture {
        /// Frames are read from here.
        read: Option<PathBuf>,
        /// Frames are written to here.
        write: Option<PathBuf>,
        /// Whether frames come at the times of their timestamps.
        paced: bool,
        /// Whether packets that a snap length cut are filled up to the length that they had.
        original_length: bool,
    },
}

impl PortKind {
    /// The interface that is taken over through AF_XDP.
    pub fn taken_over(&self) -> Option<&str> {
        match self {
            Self::Interface(name) => Some(name),
            Self::Dpdk { .. } | Self::Capture { .. } => None,
        }
    }

    /// The interface that has the port's addresses, neighbours and routes in the kernel.
    pub fn in_kernel(&self) -> Option<&str> {
        match self {
            Self::Interface(name) => Some(name),
            Self::Dpdk { interface, .. } => interface.as_deref(),
            Self::Capture { .. } => None,
        }
    }

    /// Whether it is a device of DPDK.
    pub fn is_dpdk(&self) -> bool {
        matches!(self, Self::Dpdk { .. })
    }
}

/// A `[[route]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSettings {
    /// Destinations.
    pub prefix: IpNet,
    /// What becomes of packets to them.
    pub target: RouteTarget,
}

/// What becomes of the packets that match a static route.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteTarget {
    /// To a neighbour, or to one of several by flow.
    Via(Vec<Via>),
    /// The destinations are themselves neighbours on this port (index into the ports).
    OnLink(usize),
    /// Silently discarded.
    Blackhole,
    /// Discarded with ICMP unreachable.
    Unreachable,
    /// Discarded with ICMP administratively prohibited.
    Prohibit,
}

/// A neighbour that packets are sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Via {
    /// Its address.
    pub gateway: IpAddr,
    /// The port it is on (index into the ports).
    pub port: usize,
}

/// A `[[neighbour]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighbourSettings {
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The port it is on (index into the ports).
    pub port: usize,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what stops the router.
    Error,
    /// And what an operator should look at.
    Warn,
    /// And what changes in its life.
    Info,
    /// And every change of routing state.
    Debug,
    /// And everything else.
    Trace,
}

impl Config {
    /// The address that static routes over `port` (an index) use as Ethernet source when the
    /// port has none by itself: locally administered, from the port's number.
    pub fn port_mac(&self, port: usize) -> [u8; 6] {
        let number = (port as u16 + 1).to_be_bytes();
        self.ports[port].mac.unwrap_or([0x02, 0, 0, 0, number[0], number[1]])
    }

    /// The first port whose on-link prefixes hold `address`.
    pub fn port_of(&self, address: IpAddr) -> Option<usize> {
        port_of(&self.ports, address)
    }

    /// True when every port is a capture, so that the run ends by itself.
    pub fn captures_only(&self) -> bool {
        self.ports.iter().all(|port| matches!(port.kind, PortKind::Capture { .. }))
    }
}

/// The first of `ports` whose on-link prefixes hold `address`.
pub(super) fn port_of(ports: &[PortSettings], address: IpAddr) -> Option<usize> {
    ports.iter().position(|port| port.addresses.iter().any(|net| net.contains(&address)))
}
