//! What a running router knows, for people to look at.

use super::Router;
use crate::application::Topic;
use crate::config::{PortSettings, format_mac};
use ipnet::IpNet;
use serde_json::{Value, json};
use std::net::IpAddr;
use wattline_daemon::socket::Answer;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::{Hop, RouteKind};
use wattline_rib::Source;

/// Entries that one answer has at most.
const MOST: usize = 100_000;

impl Router {
    /// What it knows of a topic.
    pub(super) fn show(&self, topic: Topic, within: Option<IpNet>, most: usize) -> Answer {
        let most = most.min(MOST);
        match topic {
            Topic::Ports => Answer::Ok(self.ports()),
            Topic::Routes => Answer::Ok(self.routes_to(within, most)),
            Topic::Neighbours => Answer::Ok(self.neighbours_in(within, most)),
            Topic::Fib => match within {
                Some(of) if of.prefix_len() == of.max_prefix_len() => Answer::Ok(self.fib(of)),
                _ => Answer::Error("a look-up needs one address".to_owned()),
            },
            Topic::Flows | Topic::Sas | Topic::Acl => {
                let mut known = self.applications.iter();
                known
                    .find_map(|it| it.show(topic, within, most))
                    .map_or_else(|| Answer::Error(off(topic).to_owned()), Answer::Ok)
            }
        }
    }

    fn ports(&self) -> Value {
        let stats = self.stats();
        let configs = self.rib.port_configs();
        let ports =
            stats.ports.iter().zip(self.config.present_ports()).map(|(port, (number, _))| {
                let link = self.rib.link_of(number);
                let config = &configs[usize::from(number.0)];
                let said = self.applications.iter().filter_map(|it| it.says_of(number));
                json!({
                    "name": port.name,
                    "interface": link.map(|link| &link.name),
                    "mac": format_mac(config.mac),
                    "mtu": link.map(|link| link.mtu),
                    "addresses": config.addresses.iter().map(IpNet::to_string).collect::<Vec<_>>(),
                    "vlans": config.vlans.iter().map(|vlan| vlan.id).collect::<Vec<_>>(),
                    "state": port.state,
                    "reason": port.reason,
                    "mode": port.mode,
                    "checks": said.collect::<Vec<_>>(),
                    "by_workers_because": port.xdp_closed_because,
                })
            });
        json!({ "ports": ports.collect::<Vec<_>>(), "needs_restart": self.needs_restart })
    }

    fn routes_to(&self, within: Option<IpNet>, most: usize) -> Value {
        let (routes, total) = self.rib.routes_to(within, most);
        let route = |route: &wattline_rib::RouteView| {
            json!({
                "prefix": route.prefix.to_string(),
                "kind": kind_name(route.kind),
                "via": route.hops.iter().map(|hop| self.hop(hop)).collect::<Vec<_>>(),
                "metric": route.metric,
                "nexthop": route.nexthop,
                "source": source_name(route.source),
                "in_use": route.counts,
            })
        };
        json!({ "routes": routes.iter().map(route).collect::<Vec<_>>(), "total": total })
    }

    fn hop(&self, hop: &Hop) -> Value {
        json!({
            "gateway": hop.gateway,
            "interface": self.rib.link_name(hop.link),
            "port": self.rib.port_of_link(hop.link).map(|port| self.port_name(port)),
            "weight": hop.weight,
            "mtu": hop.mtu,
        })
    }

    fn neighbours_in(&self, within: Option<IpNet>, most: usize) -> Value {
        let asked = self.kernel.iter().flat_map(|kernel| kernel.unanswered());
        let (neighbours, total) = self.rib.neighbours_in(within, most, asked);
        let neighbour = |it: &wattline_rib::NeighbourView| {
            json!({
                "address": it.address,
                "interface": self.rib.link_name(it.link),
                "port": self.rib.port_of_link(it.link).map(|port| self.port_name(port)),
                "mac": it.mac.map(format_mac),
                "stale": it.stale,
                "state": match it.mac {
                    Some(_) if it.stale => "stale",
                    Some(_) => "known",
                    None if it.asked => "incomplete",
                    None => "failed",
                },
                "source": source_name(it.source),
            })
        };
        json!({ "neighbours": neighbours.iter().map(neighbour).collect::<Vec<_>>(), "total": total })
    }

    /// What becomes of packets to an address, by the tables that workers read, and the routes that
    /// hold it.
    fn fib(&self, address: IpNet) -> Value {
        let found = self.routes.longest_match(address.addr());
        let next_hop = found.and_then(|(_, id)| self.routes.next_hop(id));
        json!({
            "address": address.addr(),
            "prefix": found.map(|(prefix, _)| prefix.to_string()),
            "next_hop": next_hop.map_or_else(|| self.next_hop(&NextHop::None), |it| self.next_hop(it)),
            "routes": self.routes_to(Some(address), MOST)["routes"],
            "exceptions": self.exceptions(address.addr()),
        })
    }

    /// The ports by which packets with this address come in without a look at these tables, and why.
    fn exceptions(&self, address: IpAddr) -> Vec<Value> {
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
            Some(json!({ "port": port.name, "why": why(number)? }))
        };
        ports.filter_map(told).collect()
    }

    fn next_hop(&self, next_hop: &NextHop) -> Value {
        match next_hop {
            NextHop::None => json!({ "action": "no route" }),
            NextHop::Forward(to) => json!({
                "action": "forward",
                "port": self.port_name(to.port),
                "to": format_mac(to.destination_mac),
                "from": format_mac(to.source_mac),
                "vlan": to.vlan,
                "mtu": to.mtu,
            }),
            NextHop::Resolve { port, gateway, vlan } => json!({
                "action": "hold and ask for the neighbour",
                "port": self.port_name(*port),
                "gateway": gateway,
                "vlan": vlan,
            }),
            NextHop::Punt => json!({ "action": "leave to the kernel" }),
            NextHop::Blackhole => json!({ "action": "discard" }),
            NextHop::Unreachable => json!({ "action": "unreachable" }),
            NextHop::Prohibit => json!({ "action": "prohibited" }),
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
                    json!({ "places": count, "next_hop": self.next_hop(meaning) })
                };
                let members: Vec<Value> = members.iter().map(member).collect();
                json!({ "action": "one of several by flow", "of": places.len(), "members": members })
            }
        }
    }

    fn port_name(&self, port: PortId) -> Option<&str> {
        self.config.ports.get(usize::from(port.0)).map(|port| port.name.as_str())
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
