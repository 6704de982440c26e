//! The configuration's routes and neighbours, as events like those of the kernel.

use crate::config::{Config, PortSettings, RouteSettings, RouteTarget};
use std::collections::HashMap;
use wattline_linux::netlink::{
    Address, Event, Hop, Link, Neighbour, Placement, Route, RouteKind, SourceRank,
};
use wattline_ports::afxdp::largest_mtu;
use wattline_rib::{FIRST_STATIC_LINK, PortSpec, Rib, Source};

/// The link number of each port: its interface's, or a number of its own.
pub(super) type PortLinks = Vec<u32>;

/// Returns the ports in the routing state's form.
pub(super) fn port_specs(config: &Config) -> Vec<PortSpec> {
    config.ports.iter().map(port_spec).collect()
}

/// Returns one port in the routing state's form.
pub(super) fn port_spec(port: &PortSettings) -> PortSpec {
    if port.is_vacant() {
        return PortSpec::default();
    }
    let largest = port.kind.taken_over().map_or(u16::MAX, |_| largest_mtu(0) as u16);
    let link = port.kind.taken_over().map_or_else(|| own_link(port), str::to_owned);
    let largest_mtu = port.mtu.unwrap_or(largest).min(largest);
    PortSpec { link, largest_mtu, promiscuous: port.promiscuous, clamp_mss: port.clamp_mss }
}

/// Returns the link name of a port without a link in the kernel. No interface can have such a name.
fn own_link(port: &PortSettings) -> String {
    format!("capture/{}", port.name)
}

/// Returns the link numbers of the ports, given the interfaces' numbers by name.
pub(super) fn port_links(config: &Config, interfaces: &HashMap<String, u32>) -> PortLinks {
    let number = |(place, port): (usize, &PortSettings)| match port.kind.taken_over() {
        Some(name) => interfaces.get(name).copied().unwrap_or(0),
        None if port.is_vacant() => 0,
        None => FIRST_STATIC_LINK + place as u32,
    };
    config.ports.iter().enumerate().map(number).collect()
}

/// Replaces the static routes and neighbours in a table by those of a configuration.
pub(super) fn apply(rib: &mut Rib, config: &Config, extra: &[RouteSettings], links: &PortLinks) {
    for event in events(config, extra, links) {
        rib.apply(Source::Static, event);
    }
}

/// Returns a complete dump of the configuration's state.
fn events(config: &Config, extra: &[RouteSettings], links: &PortLinks) -> Vec<Event> {
    let mut events = vec![Event::DumpBegin];
    for (place, port) in config.ports.iter().enumerate() {
        if !port.is_vacant() && port.kind.taken_over().is_none() {
            events.push(Event::Link(Link {
                index: links[place],
                name: own_link(port),
                mac: Some(config.port_mac(place)),
                mtu: u32::from(port.mtu.unwrap_or(1500)),
                enabled: true,
                running: true,
                vlan: None,
                is_virtual: false,
                aggregation: None,
                left_because: None,
            }));
        }
        for address in &port.addresses {
            events.push(Event::Address(Address {
                link: links[place],
                address: *address,
                rank: SourceRank::Preferred,
            }));
        }
    }
    for neighbour in &config.neighbours {
        events.push(Event::Neighbour(Neighbour {
            link: links[neighbour.port],
            address: neighbour.address,
            mac: Some(neighbour.mac),
            stale: false,
        }));
    }
    // The later of two routes to the same prefix counts, so that the configuration overrides the
    // file.
    for route in extra.iter().chain(&config.routes) {
        events.push(Event::Route { route: to_route(route, links), placement: Placement::Replace });
    }
    events.push(Event::DumpEnd);
    events
}

fn to_route(settings: &RouteSettings, links: &PortLinks) -> Route {
    let (kind, hops) = match &settings.target {
        RouteTarget::Via(gateways) => {
            let hop = |via: &crate::config::Via| Hop {
                link: links[via.port],
                gateway: Some(via.gateway),
                weight: 1,
                mtu: None,
                dead: false,
            };
            (RouteKind::Unicast, gateways.iter().map(hop).collect())
        }
        RouteTarget::OnLink(port) => (
            RouteKind::Unicast,
            vec![Hop { link: links[*port], gateway: None, weight: 1, mtu: None, dead: false }],
        ),
        RouteTarget::Blackhole => (RouteKind::Blackhole, Vec::new()),
        RouteTarget::Unreachable => (RouteKind::Unreachable, Vec::new()),
        RouteTarget::Prohibit => (RouteKind::Prohibit, Vec::new()),
    };
    Route::new(settings.prefix, 0, kind, hops)
}
