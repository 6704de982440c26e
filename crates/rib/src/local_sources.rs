//! Sources from which the kernel forwards nothing because a route leads from them to this machine.
//!
//! Such is the rule for IPv4 once a user has added a local route or a routing rule; before that, only the
//! machine's own addresses are compared (`fib_validate_source` in the kernel's net/ipv4/fib_frontend.c).

use super::Rib;
use ipnet::IpNet;
use std::collections::BTreeSet;
use wattline_dataplane::own_addresses::shared;

#[derive(Debug, Default)]
pub(super) struct LocalSources {
    prefixes: BTreeSet<IpNet>,
    changes: u64,
}

impl LocalSources {
    /// Notes whether there is a local route to a prefix.
    pub fn note(&mut self, prefix: IpNet, is_local: bool) {
        if !prefix.addr().is_ipv4() {
            return;
        }
        let is_new =
            if is_local { self.prefixes.insert(prefix) } else { self.prefixes.remove(&prefix) };
        self.changes += u64::from(is_new);
    }
}

/// IPv4 prefixes of local routes, without the addresses of this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Those that do not follow from an address: a user has added them.
    pub added: BTreeSet<IpNet>,
    /// Broadcast addresses of networks.
    pub shared: BTreeSet<IpNet>,
}

impl Rib {
    /// Number of changes of [`Self::local`] and of addresses.
    pub fn local_changes(&self) -> u64 {
        self.local_sources.changes
    }

    /// Prefixes of local routes.
    pub fn local(&self) -> Local {
        let own = self.own_networks().map(|network| IpNet::from(network.addr()));
        let own: BTreeSet<IpNet> = own.collect();
        let of_networks = self.own_networks().flat_map(shared).map(IpNet::from);
        let of_networks: BTreeSet<IpNet> = of_networks.collect();
        // What comes from there is never forwarded, by nobody.
        let counts = |it: &&IpNet| !own.contains(it) && !it.addr().is_loopback();
        let all = self.local_sources.prefixes.iter().filter(counts).copied();
        let (shared, added) = all.partition(|it| of_networks.contains(it));
        Local { added, shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use wattline_linux::netlink::{Address, Event, Placement, Route, RouteKind, SourceRank, Table};

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn routes_that_follow_from_addresses_are_told_from_those_of_users() {
        let mut rib = Rib::new(Vec::new());
        let rank = SourceRank::Preferred;
        let address = Address { link: 1, address: net("10.1.0.1/24"), rank };
        rib.apply(Source::Kernel, Event::Address(address));
        let before = rib.local_changes();
        let local = |prefix: &str, table| Route {
            table,
            ..Route::new(net(prefix), 0, RouteKind::Local, Vec::new())
        };
        let new = |route| Event::Route { route, placement: Placement::Last };
        let added = [local("10.9.0.0/16", Table::Local), local("10.8.0.1/32", Table::Main)];
        for route in &added {
            rib.apply(Source::Kernel, new(route.clone()));
        }
        for prefix in ["127.0.0.0/8", "2001:db8::/64"] {
            let route = local(prefix, Table::Local);
            rib.apply(Source::Kernel, new(route));
        }
        let shared = BTreeSet::from([net("10.1.0.0/32"), net("10.1.0.255/32")]);
        let all = added.iter().map(|route| route.prefix).collect();
        assert_eq!(rib.local(), Local { added: all, shared: shared.clone() });
        assert_eq!(rib.local_changes(), before + 3);
        for route in added {
            rib.apply(Source::Kernel, Event::RouteGone(route));
        }
        assert_eq!(rib.local(), Local { added: BTreeSet::new(), shared });
    }
}
