//! Known links, and their use as ports.

use super::source::Source;
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};
use wattline_dataplane::forwarding::{PortConfig, VlanConfig};
use wattline_dataplane::port::PortId;
use wattline_dataplane::source_addresses::PortInterface;
use wattline_linux::netlink::Link;
use wattline_packet::mss::Limit;

/// A port of the configuration. Its id is its position in the list.
///
/// The default is a place without a port: no link has its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSpec {
    /// Name of its link.
    pub link: String,
    /// Largest MTU in bytes that the port may use, whatever the link's own.
    pub largest_mtu: u16,
    /// True if frames to other Ethernet addresses are accepted.
    pub promiscuous: bool,
    /// Largest TCP segments through it; `None` for no limit.
    pub clamp_mss: Option<ClampMss>,
}

impl PortSpec {
    /// Returns the largest packet that the port may send through a link.
    fn mtu_on(&self, link: &Link) -> u16 {
        link.mtu.min(u32::from(self.largest_mtu)) as u16
    }
}

/// A limit of TCP segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClampMss {
    /// As large as the MTU permits.
    Mtu,
    /// This many bytes.
    To(u16),
}

/// State of a link for packets that leave through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Egress {
    /// The link is down or unknown.
    Down,
    /// The link is no port, or has no carrier: the kernel sends packets, or keeps them for it.
    Kernel,
    /// The link is a port, or a VLAN of one.
    Port { port: PortId, mtu: u16, mac: [u8; 6], vlan: Option<u16> },
}

pub(super) struct Links {
    ports: Vec<Port>,
    links: HashMap<u32, (Link, u32)>,
    /// Links whose routes are not used without a carrier, with true for IPv6.
    ignore_linkdown: HashSet<(u32, bool)>,
}

struct Port {
    spec: PortSpec,
    serves: Serves,
    /// True if workers still accept its packets but send none to it.
    retires: bool,
}

/// Link that serves as a port. It is not simply the one with the port's name: sockets and programs
/// are bound to one interface, and not to another one with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    /// The first link that is seen with the port's name.
    First,
    /// This link, whatever its present name.
    Link(u32),
    /// No link: none was served yet, or this one was and is no longer.
    None(Option<u32>),
}

impl Links {
    pub fn new(ports: Vec<PortSpec>) -> Self {
        let port = |spec| Port { spec, serves: Serves::First, retires: false };
        Self {
            ports: ports.into_iter().map(port).collect(),
            links: HashMap::new(),
            ignore_linkdown: HashSet::new(),
        }
    }

    /// Makes a place a port that no link serves yet, or a place without a port.
    pub fn set_port(&mut self, port: PortId, spec: Option<PortSpec>) {
        let place = usize::from(port.0);
        let vacant = |spec| Port { spec, serves: Serves::None(None), retires: false };
        while self.ports.len() <= place {
            self.ports.push(vacant(PortSpec::default()));
        }
        self.ports[place] = vacant(spec.unwrap_or_default());
    }

    /// Makes a link the port, or leaves the port without a link.
    pub fn serve(&mut self, port: PortId, link: Option<u32>) {
        if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
            let before = match port.serves {
                Serves::Link(index) | Serves::None(Some(index)) => Some(index),
                Serves::First | Serves::None(None) => None,
            };
            port.serves = link.map_or(Serves::None(before), Serves::Link);
            port.retires = false;
        }
    }

    /// Leaves packets that would leave through a port to the kernel; the port still accepts
    /// packets.
    pub fn retire(&mut self, port: PortId) {
        if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
            port.retires = true;
        }
    }

    /// Returns the link with the configured name of a port, even if it is not the port now; without
    /// one, the link that was the port and has been renamed.
    pub fn named_as(&self, port: PortId) -> Option<&Link> {
        let port = self.ports.get(usize::from(port.0))?;
        let mut links = self.links.values().map(|(link, _)| link);
        links.find(|link| link.name == port.spec.link).or_else(|| match port.serves {
            Serves::None(Some(index)) => self.links.get(&index).map(|(link, _)| link),
            _ => None,
        })
    }

    pub fn name(&self, index: u32) -> Option<&str> {
        self.links.get(&index).map(|(link, _)| link.name.as_str())
    }

    pub fn contains(&self, index: u32) -> bool {
        self.links.contains_key(&index)
    }

    /// Stores whether routes over a link are ignored while it has no carrier; returns true if this
    /// has changed.
    pub fn set_ignores_linkdown(&mut self, link: u32, ipv6: bool, ignores: bool) -> bool {
        match ignores {
            true => self.ignore_linkdown.insert((link, ipv6)),
            false => self.ignore_linkdown.remove(&(link, ipv6)),
        }
    }

    /// Returns true if routes over a link are used. By default the kernel also uses them without a
    /// carrier. A static route, which only Wattline has, gives way to others then.
    pub fn carries(&self, index: u32, ipv6: bool, source: Source) -> bool {
        let Some((link, _)) = self.links.get(&index) else { return false };
        let ignores = source == Source::Static || self.ignore_linkdown.contains(&(index, ipv6));
        link.enabled && (link.running || !ignores)
    }

    /// Returns true for a link that is up and has no carrier.
    pub fn lacks_carrier(&self, index: u32) -> bool {
        self.links.get(&index).is_some_and(|(link, _)| link.enabled && !link.running)
    }

    /// Stores a link; returns true if it has changed.
    pub fn set(&mut self, link: Link, generation: u32) -> bool {
        let index = link.index;
        for port in &mut self.ports {
            if port.serves == Serves::First && port.spec.link == link.name {
                port.serves = Serves::Link(index);
            }
        }
        let before = self.links.insert(index, (link, generation));
        before.map(|(link, _)| link).as_ref() != self.links.get(&index).map(|(link, _)| link)
    }

    /// Returns the MTU of a link in bytes.
    pub fn mtu(&self, index: u32) -> Option<u32> {
        self.links.get(&index).map(|(link, _)| link.mtu)
    }

    pub fn remove(&mut self, index: u32) {
        self.links.remove(&index);
        self.ignore_linkdown.retain(|(link, _)| *link != index);
        for port in &mut self.ports {
            if [Serves::Link(index), Serves::None(Some(index))].contains(&port.serves) {
                port.serves = Serves::None(None);
            }
        }
    }

    /// Returns the kernel's links that a later dump did not contain.
    pub fn older_than(&self, generation: u32) -> Vec<u32> {
        let old = |(_, number): &&(Link, u32)| *number != generation;
        let stays = |link: &Link| link.index >= FIRST_STATIC_LINK;
        self.links
            .values()
            .filter(old)
            .map(|(link, _)| link)
            .filter(|link| !stays(link))
            .map(|link| link.index)
            .collect()
    }

    /// Returns a link and the VLAN subinterfaces on top of it.
    pub fn with_those_above(&self, index: u32) -> Vec<u32> {
        let above = |link: &&Link| link.vlan.is_some_and(|(below, _)| below == index);
        let links = self.links.values().map(|(link, _)| link);
        std::iter::once(index).chain(links.filter(above).map(|link| link.index)).collect()
    }

    /// Returns the same links with their names.
    pub fn names_of_those_on(&self, index: u32) -> Vec<(u32, String)> {
        let named = |index: u32| Some((index, self.links.get(&index)?.0.name.clone()));
        self.with_those_above(index).into_iter().filter_map(named).collect()
    }

    /// Returns the ids of the VLANs of the subinterfaces on a link.
    pub fn vlans_on(&self, index: u32) -> impl Iterator<Item = u16> {
        let vlans = self.links.values().filter_map(|(link, _)| link.vlan);
        vlans.filter(move |(below, _)| *below == index).map(|(_, vlan)| vlan)
    }

    /// Returns the port whose own link this is.
    fn own_port(&self, link: &Link) -> Option<PortId> {
        let place = self.ports.iter().position(|port| port.serves == Serves::Link(link.index))?;
        Some(PortId(place as u16))
    }

    /// Returns true if a link, or the link below it, is a port or may become one.
    pub fn may_be_port(&self, index: u32) -> bool {
        let Some((link, _)) = self.links.get(&index) else { return false };
        let below = link.vlan.and_then(|(below, _)| Some(&self.links.get(&below)?.0));
        let named = |link: &Link| self.ports.iter().any(|port| port.spec.link == link.name);
        std::iter::once(link).chain(below).any(|it| self.own_port(it).is_some() || named(it))
    }

    /// Returns the port and VLAN id whose interface a link is; `None` if it is no port's.
    pub fn interface(&self, index: u32) -> Option<PortInterface> {
        let (link, _) = self.links.get(&index)?;
        if let Some(port) = self.own_port(link) {
            return Some((port, 0));
        }
        let (below, vlan) = link.vlan?;
        Some((self.own_port(&self.links.get(&below)?.0)?, vlan))
    }

    /// Returns the port through which a link sends: its own or that of the link below.
    pub fn port(&self, index: u32) -> Option<PortId> {
        match self.egress(index) {
            Egress::Port { port, .. } => Some(port),
            Egress::Down | Egress::Kernel => None,
        }
    }

    /// Returns the state of a link for packets that leave through it.
    pub fn egress(&self, index: u32) -> Egress {
        let Some((link, _)) = self.links.get(&index) else { return Egress::Down };
        if !link.enabled {
            return Egress::Down;
        }
        if !link.running {
            return Egress::Kernel;
        }
        let below = link.vlan.and_then(|(below, _)| Some(&self.links.get(&below)?.0));
        let (port, vlan) = match (self.own_port(link), below) {
            (Some(port), _) => (port, None),
            (None, Some(below)) => match self.own_port(below) {
                Some(_) if !below.enabled => return Egress::Down,
                Some(_) if !below.running => return Egress::Kernel,
                Some(port) => (port, link.vlan.map(|(_, id)| id)),
                None => return Egress::Kernel,
            },
            (None, None) => return Egress::Kernel,
        };
        let Port { spec, retires, .. } = &self.ports[usize::from(port.0)];
        let Some(mac) = link.mac.filter(|_| !retires) else { return Egress::Kernel };
        let mtu = spec.mtu_on(link);
        Egress::Port { port, mtu, mac, vlan }
    }

    /// Returns the link of the port itself.
    pub fn of_port(&self, port: PortId) -> Option<u32> {
        self.port_links().find(|(id, _)| *id == port).map(|(_, link)| link.index)
    }

    /// Returns the subinterface of a port with this VLAN id.
    pub fn of_vlan(&self, port: PortId, vlan: u16) -> Option<u32> {
        let below = self.of_port(port)?;
        let is_it = |link: &&Link| link.vlan == Some((below, vlan));
        self.links.values().map(|(link, _)| link).find(is_it).map(|link| link.index)
    }

    /// Returns the links that are ports.
    pub fn port_links(&self) -> impl Iterator<Item = (PortId, &Link)> {
        self.links.values().filter_map(|(link, _)| Some((self.own_port(link)?, link)))
    }

    /// Returns the configuration of the ports for the workers; `addresses` returns the addresses of
    /// a link.
    pub fn port_configs(&self, addresses: &dyn Fn(u32) -> Vec<IpNet>) -> Vec<PortConfig> {
        let mut configs: Vec<PortConfig> = self
            .ports
            .iter()
            .map(|Port { spec, .. }| PortConfig {
                promiscuous: spec.promiscuous,
                ..PortConfig::default()
            })
            .collect();
        for (link, _) in self.links.values() {
            if let Some(port) = self.own_port(link) {
                let config = &mut configs[usize::from(port.0)];
                config.mac = link.mac.unwrap_or_default();
                config.is_virtual = link.is_virtual;
                let spec = &self.ports[usize::from(port.0)].spec;
                config.segments = spec.clamp_mss.map(|clamp| match clamp {
                    ClampMss::Mtu => Limit { mtu: spec.mtu_on(link), ..Limit::NONE },
                    ClampMss::To(segment) => Limit { segment, ..Limit::NONE },
                });
                config.addresses = addresses(link.index);
            } else if let Egress::Port { port, vlan: Some(id), .. } = self.egress(link.index) {
                let vlan = VlanConfig { id, addresses: addresses(link.index) };
                configs[usize::from(port.0)].vlans.push(vlan);
            }
        }
        configs.iter_mut().for_each(|config| config.vlans.sort_by_key(|vlan| vlan.id));
        configs
    }
}

/// First link number for ports without an interface; the kernel's numbers are positive `int`s.
pub const FIRST_STATIC_LINK: u32 = 1 << 31;
