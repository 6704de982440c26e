//! State of a running router, for users.

use super::Router;
use crate::application::Application;
use crate::config::{PortSettings, format_mac, keys};
use crate::stats::PortState;
use ipnet::IpNet;
use std::net::IpAddr;
use wattline_daemon::settings::Key;
use wattline_daemon::socket::{Answer, Topic};
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::{Hop, RouteKind};
use wattline_packet::{ipv4, ipv6};
use wattline_rib::Source;
use wattline_status::{
    Contract, Document, Exception, FibEntry, GroupMember, NeighbourEntry, NeighbourTable,
    NextHopView, PortEntry, PortTable, RouteEntry, RouteHop, RouteTable,
};

/// Treatments of packets in words.
const TO_KERNEL: &str = "leave to the kernel";
const DISCARD: &str = "discard";
/// Most entries of one answer.
const MOST: usize = 100_000;

impl Router {
    /// Answers on a topic.
    pub(crate) fn show(&self, topic: Topic, within: Option<IpNet>, most: usize) -> Answer {
        let most = most.min(MOST);
        match topic {
            Topic::Ports => Answer::document(&self.ports()),
            Topic::Version => Answer::document(
                &self
                    .configured
                    .identity
                    .version(self.started.elapsed().as_secs_f64(), &self.configured.needs_restart),
            ),
            Topic::Config => {
                let keys: Vec<&Key> = keys::all(&self.configured.sections).collect();
                let config = self.configured.identity.config(
                    &keys,
                    keys::stands_once,
                    &self.configured.needs_restart,
                );
                Answer::document(&config)
            }
            Topic::Routes => Answer::document(&self.routes_to(within, most)),
            Topic::Neighbours => Answer::document(&self.neighbours_in(within, most)),
            Topic::Fib => match within {
                Some(of) if of.prefix_len() == of.max_prefix_len() => {
                    Answer::document(&self.fib(of))
                }
                _ => Answer::Error("a look-up needs one address".to_owned()),
            },
            Topic::Flows => self.application_table(topic, |it| it.flows(within, most)),
            Topic::Acl => self.application_table(topic, |it| it.rules(most)),
            Topic::Sas => self.application_table(topic, |it| it.associations()),
        }
    }

    /// Answers with the table of the first application that has one.
    fn application_table<T: Document>(
        &self,
        topic: Topic,
        table: impl Fn(&dyn Application) -> Option<T>,
    ) -> Answer {
        match self.applications.iter().find_map(|it| table(&**it)) {
            Some(table) => Answer::document(&table),
            None => Answer::Error(off(topic).to_owned()),
        }
    }

    fn ports(&self) -> PortTable {
        let stats = self.stats();
        let configs = self.rib.port_configs();
        let ports = stats.ports.into_iter().zip(self.configured.config.present_ports()).map(
            |(port, (number, _))| {
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
                    received_bits_per_second: port.received_bits_per_second,
                    transmitted_bits_per_second: port.transmitted_bits_per_second,
                }
            },
        );
        PortTable {
            ports: ports.collect(),
            needs_restart: self.configured.pending(),
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

    /// Returns the treatment of packets to an address by the workers' tables, and the routes that
    /// contain it.
    fn fib(&self, address: IpNet) -> FibEntry {
        let addr = address.addr();
        let policies = self.applications.iter().flat_map(|it| it.says_of_address(addr)).collect();
        let entry = FibEntry {
            contract: Contract::default(),
            address: addr,
            prefix: None,
            next_hop: NextHopView { action: TO_KERNEL.to_owned(), ..<_>::default() },
            because: None,
            policies,
            routes: Vec::new(),
            exceptions: self.exceptions(addr),
        };
        if let Some((kind, by_workers)) = special(addr) {
            // Programs leave such packets to the kernel, unless they are guarded.
            let judged = |port: PortId| {
                let port = self.ports.get(port);
                port.is_none_or(|it| it.life.guard.is_guarded() || it.is_bond.is_none())
            };
            let ports = || self.configured.config.present_ports();
            let only_workers = ports().all(|(port, _)| judged(port));
            let because = Some(format!("{kind} address"));
            match by_workers {
                ByWorkers::Leave => return FibEntry { because, ..entry },
                ByWorkers::Drop if only_workers => {
                    let next_hop = NextHopView { action: DISCARD.to_owned(), ..<_>::default() };
                    return FibEntry { because, next_hop, ..entry };
                }
                ByWorkers::Forward if only_workers => {}
                ByWorkers::Drop | ByWorkers::Forward => {
                    let why = match by_workers {
                        ByWorkers::Drop => "workers judge what comes in, and drop packets to it",
                        _ => "workers judge what comes in, and forward it by their routes",
                    };
                    let mut exceptions = entry.exceptions;
                    for (number, port) in ports().filter(|(port, _)| judged(*port)) {
                        if self.ports.state(number).is_none_or(|state| state.0 == PortState::Up) {
                            let (port, why) = (port.name.clone(), why.to_owned());
                            exceptions.push(Exception { port, why });
                        }
                    }
                    return FibEntry { because, exceptions, ..entry };
                }
            }
        }
        let found = self.routes.longest_match(addr);
        let next_hop = found.and_then(|(_, id)| self.routes.next_hop(id));
        FibEntry {
            prefix: found.map(|(prefix, _)| prefix.to_string()),
            next_hop: self.next_hop(next_hop.unwrap_or(&NextHop::None)),
            routes: self.routes_to(Some(address), MOST).routes,
            ..entry
        }
    }

    /// Lists the ports at which packets with this address bypass these tables, and why.
    fn exceptions(&self, address: IpAddr) -> Vec<Exception> {
        let why = |port: PortId| {
            if let Some((state @ (PortState::Left | PortState::Blocked), reason)) =
                self.ports.state(port)
            {
                let reason = reason.unwrap_or_default();
                return Some(format!("the port is {}: {reason}", state.name()));
            }
            let left = self.monitor.as_ref().and_then(|it| it.left_prefixes(port));
            let mut prefixes = left.into_iter().flatten();
            let prefix = prefixes.find(|prefix| prefix.contains(&address))?;
            Some(format!("the kernel forwards packets from and to {prefix}"))
        };
        let ports = self.configured.config.present_ports();
        let exception = |(number, port): (PortId, &PortSettings)| {
            Some(Exception { port: port.name.clone(), why: why(number)? })
        };
        ports.filter_map(exception).collect()
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
            NextHop::Resolve { port, gateway, vlan, .. } => NextHopView {
                port: port_name(*port),
                gateway: *gateway,
                vlan: *vlan,
                ..action("hold and ask for the neighbour")
            },
            NextHop::Punt => action(TO_KERNEL),
            NextHop::Blackhole => action(DISCARD),
            NextHop::Unreachable => action("unreachable"),
            NextHop::Prohibit => action("prohibited"),
            NextHop::Group(members) => {
                let member = |(id, weight): &(_, u16)| {
                    let meaning = self.routes.next_hop(*id).unwrap_or(&NextHop::None);
                    GroupMember { places: (*weight).into(), next_hop: self.next_hop(meaning) }
                };
                NextHopView {
                    of: Some(members.iter().map(|(_, weight)| usize::from(*weight)).sum()),
                    members: members.iter().map(member).collect(),
                    ..action("one of several by flow")
                }
            }
        }
    }

    fn port_name(&self, port: PortId) -> Option<&str> {
        self.configured.config.ports.get(usize::from(port.0)).map(|port| port.name.as_str())
    }
}

/// Workers' treatment of packets to an address that routers do not forward to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByWorkers {
    /// They leave it to the kernel, as XDP programs do.
    Leave,
    Drop,
    /// They forward them like others.
    Forward,
}

/// Returns the kind of an address to which XDP programs forward nothing, and its treatment by
/// workers.
fn special(address: IpAddr) -> Option<(&'static str, ByWorkers)> {
    let special = match address {
        IpAddr::V4(address) => match ipv4::kind_of(address.into()) {
            ipv4::AddressKind::Multicast => ("multicast", ByWorkers::Leave),
            ipv4::AddressKind::Broadcast => ("broadcast", ByWorkers::Leave),
            ipv4::AddressKind::Reserved => ("reserved", ByWorkers::Drop),
            ipv4::AddressKind::Loopback => ("loopback", ByWorkers::Drop),
            ipv4::AddressKind::ThisNetwork => ("unspecified", ByWorkers::Drop),
            ipv4::AddressKind::Unicast if address.is_link_local() => {
                ("link-local", ByWorkers::Forward)
            }
            ipv4::AddressKind::Unicast => return None,
        },
        IpAddr::V6(address) => match ipv6::kind_of(&address.octets()) {
            ipv6::AddressKind::Multicast => ("multicast", ByWorkers::Leave),
            ipv6::AddressKind::LinkLocal => ("link-local", ByWorkers::Leave),
            ipv6::AddressKind::Loopback => ("loopback", ByWorkers::Drop),
            ipv6::AddressKind::Unspecified => ("unspecified", ByWorkers::Drop),
            ipv6::AddressKind::Global => return None,
        },
    };
    Some(special)
}

/// Returns the hint how to turn on a topic that is off. Applications are started with the router.
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
        RouteKind::Kernel | RouteKind::Local => "kernel",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_never_forwarded_to_are_named_by_kind() {
        for (address, expected) in [
            ("224.0.0.5", Some(("multicast", ByWorkers::Leave))),
            ("239.255.255.255", Some(("multicast", ByWorkers::Leave))),
            ("255.255.255.255", Some(("broadcast", ByWorkers::Leave))),
            ("240.0.0.1", Some(("reserved", ByWorkers::Drop))),
            ("127.0.0.1", Some(("loopback", ByWorkers::Drop))),
            ("0.1.2.3", Some(("unspecified", ByWorkers::Drop))),
            ("169.254.0.1", Some(("link-local", ByWorkers::Forward))),
            ("169.253.0.1", None),
            ("192.0.2.1", None),
            ("ff02::5", Some(("multicast", ByWorkers::Leave))),
            ("fe80::1", Some(("link-local", ByWorkers::Leave))),
            ("febf::1", Some(("link-local", ByWorkers::Leave))),
            ("::1", Some(("loopback", ByWorkers::Drop))),
            ("::", Some(("unspecified", ByWorkers::Drop))),
            ("fec0::1", None),
            ("2001:db8::1", None),
        ] {
            assert_eq!(special(address.parse().unwrap()), expected, "{address}");
        }
    }
}
