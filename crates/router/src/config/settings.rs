//! A checked configuration.

use super::application::Settings;
use super::power::{PowerPlatform, PowerSettings};
use super::router::RouterSettings;
use ipnet::IpNet;
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use wattline_daemon::settings::LogLevel;
use wattline_dataplane::port::PortId;
use wattline_rib::ClampMss;

/// A whole configuration. It is valid: names are unique, referenced ports exist, and values are in
/// range.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file that it was read from; empty for a text.
    pub file: PathBuf,
    /// Its text, if it was read from a file.
    pub text: Arc<str>,
    /// The `[router]` section.
    pub router: RouterSettings,
    /// The ports; a port's id is its index. They are in the order of the file, unless ports were
    /// added or removed while the router runs ([`Config::load_beside`]): then some places are
    /// [`PortKind::Vacant`].
    pub ports: Vec<PortSettings>,
    /// Static routes.
    pub routes: Vec<RouteSettings>,
    /// Static neighbours.
    pub neighbours: Vec<NeighbourSettings>,
    /// More static routes.
    pub routes_file: Option<PathBuf>,
    /// The log level.
    pub log_level: LogLevel,
    /// Address of the metrics; `None` for none.
    pub metrics: Option<SocketAddr>,
    /// Settings of applications.
    pub applications: Vec<Arc<dyn Settings>>,
    /// The `[power]` section.
    pub power: PowerSettings,
    /// Remarks on valid values, for the maintainer of the file.
    pub notes: Vec<String>,
}

/// A `[[port]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSettings {
    /// Its name in this file and in all output.
    pub name: String,
    /// Origin of its frames.
    pub kind: PortKind,
    /// Its Ethernet address, if it has none by itself.
    pub mac: Option<[u8; 6]>,
    /// Its addresses with the prefixes that are on its link.
    pub addresses: Vec<IpNet>,
    /// Largest IP packet in bytes; `None` for the interface's own.
    pub mtu: Option<u16>,
    /// True if frames to other Ethernet addresses are routed too.
    pub promiscuous: bool,
    /// Largest segments of TCP connections through it; `None` leaves them unchanged.
    pub clamp_mss: Option<ClampMss>,
    /// Wattline's indirection table that spreads packets to the port, if any.
    pub steer: Option<SteerSettings>,
}

impl PortSettings {
    /// Returns a place without a port.
    pub fn vacant() -> Self {
        Self {
            name: String::new(),
            kind: PortKind::Vacant,
            mac: None,
            addresses: Vec::new(),
            mtu: None,
            promiscuous: false,
            clamp_mss: None,
            steer: None,
        }
    }

    /// Returns true if it is a place without a port.
    pub fn is_vacant(&self) -> bool {
        self.kind == PortKind::Vacant
    }
}

/// The sender's end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SteerSettings {
    /// The network namespace that it is in; `None` for the router's own.
    pub namespace: Option<String>,
    /// Its name.
    pub interface: String,
}

/// Origin and destination of a port's frames.
#[derive(Debug, Clone, PartialEq)]
pub enum PortKind {
    /// A Linux interface, through AF_XDP.
    Interface(String),
    /// Capture files.
    Capture {
        /// Frames are read from here.
        read: Option<PathBuf>,
        /// Frames are written to here.
        write: Option<PathBuf>,
        /// True if frames come at the times of their timestamps.
        paced: bool,
        /// True if packets that a snap length cut are filled up to the length that they had.
        original_length: bool,
    },
    /// Nowhere: the port that was here was removed while the router runs.
    Vacant,
}

impl PortKind {
    /// Returns the interface that is taken over through AF_XDP.
    pub fn taken_over(&self) -> Option<&str> {
        match self {
            Self::Interface(name) => Some(name),
            Self::Capture { .. } | Self::Vacant => None,
        }
    }
}

/// A `[[route]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSettings {
    /// Destinations.
    pub prefix: IpNet,
    /// Treatment of packets to them.
    pub target: RouteTarget,
}

/// Treatment of packets that match a static route.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteTarget {
    /// Sent to a neighbour, or to one of several by flow.
    Via(Vec<Via>),
    /// Sent to the destinations themselves, which are neighbours on this port (index into the
    /// ports).
    OnLink(usize),
    /// Silently discarded.
    Blackhole,
    /// Discarded with ICMP unreachable.
    Unreachable,
    /// Discarded with ICMP administratively prohibited.
    Prohibit,
}

/// A neighbour to which packets are sent.
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

impl Config {
    /// Returns the Ethernet source of static routes over `port` (an index) when the port has no
    /// address by itself: locally administered, from the port's number.
    pub fn port_mac(&self, port: usize) -> [u8; 6] {
        let number = (port as u16 + 1).to_be_bytes();
        self.ports[port].mac.unwrap_or([0x02, 0, 0, 0, number[0], number[1]])
    }

    /// Returns true if any port limits the segments of TCP connections.
    pub fn clamps_mss(&self) -> bool {
        self.ports.iter().any(|port| port.clamp_mss.is_some())
    }

    /// Returns an application's settings, by their type.
    pub fn of<T: Any>(&self) -> Option<&T> {
        self.applications.iter().find_map(|settings| settings.downcast())
    }

    /// Returns the first port whose on-link prefixes contain `address`.
    pub fn port_of(&self, address: IpAddr) -> Option<usize> {
        port_of(&self.ports, address)
    }

    /// Iterates over the ports that exist, with their ids.
    pub fn present_ports(&self) -> impl Iterator<Item = (PortId, &PortSettings)> {
        let ports = (0..).map(PortId).zip(&self.ports);
        ports.filter(|(_, port)| !port.is_vacant())
    }

    /// Returns the port of a name.
    pub fn port_named(&self, name: &str) -> Option<usize> {
        port_named(&self.ports, name)
    }

    /// Returns the number of ports that can be added while the router runs: none with emulated
    /// cores or without interfaces, where all ports exist from the start. XDP programs count at
    /// most [`wattline_xdp::FORWARD_PORTS_MAX`] ports.
    pub fn spare_ports(&self) -> usize {
        let has_interface = self.ports.iter().any(|port| port.kind.taken_over().is_some());
        if self.power.platform == PowerPlatform::Scale || !has_interface {
            return 0;
        }
        let countable = wattline_xdp::FORWARD_PORTS_MAX as usize;
        usize::from(self.router.spare_ports).min(countable.saturating_sub(self.ports.len()))
    }

    /// Returns true if queues are busy-polled and no governor defers their interrupts, as one of
    /// this machine does.
    pub fn polls_unaided(&self) -> bool {
        self.router.busy_poll && self.power.platform != PowerPlatform::Host
    }

    /// Returns true if every port is a capture, so that the run ends by itself.
    pub fn captures_only(&self) -> bool {
        self.ports.iter().all(|port| matches!(port.kind, PortKind::Capture { .. }))
    }
}

/// Returns the port of a name.
pub(super) fn port_named(ports: &[PortSettings], name: &str) -> Option<usize> {
    ports.iter().position(|port| port.name == name && !port.is_vacant())
}

/// Returns the first of `ports` whose on-link prefixes contain `address`.
pub(super) fn port_of(ports: &[PortSettings], address: IpAddr) -> Option<usize> {
    ports.iter().position(|port| port.addresses.iter().any(|net| net.contains(&address)))
}
