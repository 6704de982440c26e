//! What a running router knows, for people to look at.

use super::Router;
use crate::application::Topic;
use crate::config::{PortSettings, format_mac};
use ipnet::IpNet;
use std::net::IpAddr;
use wattline_daemon::socket::Answer;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::{Hop, RouteKind};
use wattline_rib::Source;
use wattline_status::{
    AclTable, Contract, Document, Exception, FibEntry, FlowTable, GroupMember, NeighbourEntry,
    NeighbourTable, NextHopView, PortEntry, PortTable, RouteEntry, RouteHop, RouteTable, SaTable,
};

/// Entries that one answer has at most.
const MOST: usize = 100_000;

impl Router {
    /// What it knows of a topic.
    pub(super) fn show(&self, topic: Topic, within: Option<IpNet>, most: usize) -> Answer {
        let most = most.min(MOST);
        match topic {
            Topic::Ports => Answer::document(&self.ports()),
            Topic::Routes => Answer::document(&self.routes_to(within, most)),
            Topic::Neighbours => Answer::document(&self.neighbours_in(within, most)),
            Topic::Fib => match within {
                Some(of) if of.prefix_len() == of.max_prefix_len() => {
                    Answer::document(&self.fib(of))
                }
                _ => Answer::Error("a look-up needs one address".to_owned()),
            },
            Topic::Flows | Topic::Sas | Topic::Acl => {
                let mut known = self.applications.iter();
                match (known.find_map(|it| it.show(topic, within, most)), topic) {
                    (None, _) => Answer::Error(off(topic).to_owned()),
                    (Some(value), Topic::Flows) => stamped::<FlowTable>(value),
                    (Some(value), Topic::Acl) => stamped::<AclTable>(value),
                    (Some(value), _) => stamped::<SaTable>(value),
                }
            }
        }
    }

    fn ports(&self) -> PortTable {
        let stats = self.stats();
        let configs = self.rib.port_configs();
        let ports =
            stats.ports.into_iter().zip(self.config.present_ports()).map(|(port, (number, _))| {
                let link = self.rib.link_of(number);
                let config = &configs[usize::from(number.0)];
                PortEntry {
                    name: port.name,
                    interface: link.map(|link| link.name.clone()),
                    mac: format_mac(config.mac),
                    mtu: link.map(|link| link.mtu),
                    addresses: config.addresses.iter().map(IpNet::to_string).collect(),
                    vlans: config.vlans.iter().map(|vlan| vlan.id).collect(),
                    state: port.state,
                    reason: port.reason,
                    mode: port.mode,
                    checks: self.applications.iter().filter_map(|it| it.says_of(number)).collect(),
                    by_workers_because: port.xdp_closed_because,
                }
            });
        PortTable {
            ports: ports.collect(),
            needs_restart: crate::owned(&self.needs_restart),
            ..PortTable::default()
        }
    }

    fn routes_to(&self, within: Option<IpNet>, most: usize) -> RouteTable {
        let (routes, total) = self.rib.routes_to(within, most);
        let route = |route: &wattline_rib::RouteView| RouteEntry {
            prefix: route.prefix.to_string(),
            kind: kind_name(route.kind).to_owned(),
            via: route.hops.iter().map(|hop| self.hop(hop)).collect(),
            metric: route.metric,
            nexthop: route.nexthop,
            source: source_name(route.source).to_owned(),
            in_use: route.counts,
        };
        RouteTable { routes: routes.iter().map(route).collect(), total, ..RouteTable::default() }
    }

    fn hop(&self, hop: &Hop) -> RouteHop {
        RouteHop {
            gateway: hop.gateway,
            interface: self.rib.link_name(hop.link).map(Into::into),
            port: self.port_of_link(hop.link),
            weight: hop.weight.into(),
            mtu: hop.mtu.map(Into::into),
        }
    }

    fn port_of_link(&self, link: u32) -> Option<String> {
        self.rib.port_of_link(link).and_then(|port| self.port_name(port)).map(str::to_owned)
    }

    fn neighbours_in(&self, within: Option<IpNet>, most: usize) -> NeighbourTable {
        let asked = self.kernel.iter().flat_map(|kernel| kernel.unanswered());
        let (neighbours, total) = self.rib.neighbours_in(within, most, asked);
        let neighbour = |it: &wattline_rib::NeighbourView| {
            let state = match it.mac {
                Some(_) if it.stale => "stale",
                Some(_) => "known",
                None if it.asked => "incomplete",
                None => "failed",
            };
            NeighbourEntry {
                address: it.address,
                interface: self.rib.link_name(it.link).map(Into::into),
                port: self.port_of_link(it.link),
                mac: it.mac.map(format_mac),
                stale: it.stale,
                state: state.to_owned(),
                source: source_name(it.source).to_owned(),
            }
        };
        let neighbours = neighbours.iter().map(neighbour).collect();
        NeighbourTable { neighbours, total, ..NeighbourTable::default() }
    }

    /// What becomes of packets to an address, by the tables that workers read, and the routes that
    /// hold it.
    fn fib(&self, address: IpNet) -> FibEntry {
        let found = self.routes.longest_match(address.addr());
        let next_hop = found.and_then(|(_, id)| self.routes.next_hop(id));
        FibEntry {
            contract: Contract::default(),
            address: address.addr(),
            prefix: found.map(|(prefix, _)| prefix.to_string()),
            next_hop: self.next_hop(next_hop.unwrap_or(&NextHop::None)),
            routes: self.routes_to(Some(address), MOST).routes,
            exceptions: self.exceptions(address.addr()),
        }
    }

    /// The ports by which packets with this address come in without a look at these tables, and why.
    fn exceptions(&self, address: IpAddr) -> Vec<Exception> {
        let why = |port: PortId| {
            if let Some((state @ ("left" | "blocked"), reason)) = self.attachments.state(port) {
                return Some(format!("the port is {state}: {}", reason.unwrap_or_default()));
            }
            let left = self.lookout.as_ref().and_then(|it| it.left_prefixes(port));
            let unpuntable = self.kernel.as_ref().and_then(|it| it.unpuntable(port));
            let mut prefixes = left.into_iter().chain(unpuntable).flatten();
            let prefix = prefixes.find(|prefix| prefix.contains(&address))?;
            Some(format!("the kernel forwards packets from and to {prefix}"))
        };
        let ports = self.config.present_ports();
        let told = |(number, port): (PortId, &PortSettings)| {
            Some(Exception { port: port.name.clone(), why: why(number)? })
        };
        ports.filter_map(told).collect()
    }

    fn next_hop(&self, next_hop: &NextHop) -> NextHopView {
        let action = |action: &str| NextHopView { action: action.to_owned(), ..<_>::default() };
        let port_name = |port| self.port_name(port).map(str::to_owned);
        match next_hop {
            NextHop::None => action("no route"),
            NextHop::Forward(to) => NextHopView {
                port: port_name(to.port),
                to: Some(format_mac(to.destination_mac)),
                from: Some(format_mac(to.source_mac)),
                vlan: to.vlan,
                mtu: Some(to.mtu.into()),
                ..action("forward")
            },
            NextHop::Resolve { port, gateway, vlan } => NextHopView {
                port: port_name(*port),
                gateway: *gateway,
                vlan: *vlan,
                ..action("hold and ask for the neighbour")
            },
            NextHop::Punt => action("leave to the kernel"),
            NextHop::Blackhole => action("discard"),
            NextHop::Unreachable => action("unreachable"),
            NextHop::Prohibit => action("prohibited"),
            NextHop::Group(places) => {
                let mut members: Vec<(_, u32)> = Vec::new();
                for id in places {
                    match members.iter_mut().find(|(known, _)| known == id) {
                        Some((_, count)) => *count += 1,
                        None => members.push((*id, 1)),
                    }
                }
                let member = |(id, count): &(_, u32)| {
                    let meaning = self.routes.next_hop(*id).unwrap_or(&NextHop::None);
                    GroupMember { places: *count, next_hop: self.next_hop(meaning) }
                };
                NextHopView {
                    of: Some(places.len()),
                    members: members.iter().map(member).collect(),
                    ..action("one of several by flow")
                }
            }
        }
    }

    fn port_name(&self, port: PortId) -> Option<&str> {
        self.config.ports.get(usize::from(port.0)).map(|port| port.name.as_str())
    }
}

/// Answers with the document of an application.
fn stamped<T: Document>(value: serde_json::Value) -> Answer {
    match wattline_status::stamp::<T>(value) {
        Ok(document) => Answer::document(&document),
        Err(error) => Answer::Error(error.to_string()),
    }
}

/// Why nothing is known of a topic, and what turns it on. Applications are started with the router.
fn off(topic: Topic) -> &'static str {
    match topic {
        Topic::Flows => {
            "flow records are off: a section [flow_records] with `collectors` in the configuration turns \
             them on, after a restart"
        }
        Topic::Acl => {
            "there are no access lists: a section [[acl]] for each rule in the configuration makes them, \
             after a restart"
        }
        _ => {
            "IPsec is off: a section [ipsec] with kernel = true, or an [[ipsec_tunnel]] with an \
             [[ipsec_policy]], in the configuration turns it on, after a restart"
        }
    }
}

fn kind_name(kind: RouteKind) -> &'static str {
    match kind {
        RouteKind::Unicast => "unicast",
        RouteKind::Kernel => "kernel",
        RouteKind::Blackhole => "blackhole",
        RouteKind::Unreachable => "unreachable",
        RouteKind::Prohibit => "prohibit",
    }
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Static => "configuration",
        Source::Kernel => "kernel",
    }
}
