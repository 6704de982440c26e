//! Sources from which the kernel forwards nothing because they have a route to this machine.
//!
//! The kernel applies this rule to IPv4 once a user has added a local route or a routing rule.
//! Before that, it compares only the machine's own addresses (`fib_validate_source` in
//! net/ipv4/fib_frontend.c).

use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wattline_dataplane::own_addresses::shared;

#[derive(Debug, Default)]
pub(super) struct LocalSources {
    prefixes: BTreeSet<IpNet>,
    /// Present and former local prefixes, and a bit for each of their lengths.
    ever: BTreeSet<IpNet>,
    lengths: u64,
    changes: u64,
}

impl LocalSources {
    /// Stores whether there is a local route to a prefix; returns true if it is its first one.
    pub fn note(&mut self, prefix: IpNet, is_local: bool) -> bool {
        if !prefix.addr().is_ipv4() {
            return false;
        }
        let is_new =
            if is_local { self.prefixes.insert(prefix) } else { self.prefixes.remove(&prefix) };
        self.changes += u64::from(is_new);
        self.lengths |= u64::from(is_local) << prefix.prefix_len();
        is_local && self.ever.insert(prefix)
    }

    /// Returns true if an address is, or was, in a local route. If a gateway was in one when its
    /// route was added (`fib_check_nh_v4_gw`), the kernel sends to the destination itself and does
    /// not report this.
    pub fn ever_held(&self, address: IpAddr) -> bool {
        let lengths = (0..=32).filter(|length| self.lengths & 1 << length != 0);
        address.is_ipv4()
            && lengths
                .filter_map(|length| IpNet::new(address, length).ok())
                .any(|prefix| self.ever.contains(&prefix.trunc()))
    }
}

/// IPv4 prefixes of local routes, without the addresses of this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Prefixes that do not follow from an address: a user has added them.
    pub added: BTreeSet<IpNet>,
    /// Broadcast addresses of networks.
    pub shared: BTreeSet<IpNet>,
}

impl LocalSources {
    /// Returns the number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Separates the prefixes that follow from addresses of this machine from the others.
    pub fn by_origin(&self, networks: &[IpNet]) -> Local {
        let own: BTreeSet<IpNet> = networks.iter().map(|it| it.addr().into()).collect();
        let of_networks: BTreeSet<IpNet> =
            networks.iter().copied().flat_map(shared).map(IpNet::from).collect();
        // Packets from such sources are never forwarded in any case.
        let counts = |it: &&IpNet| !own.contains(it) && !it.addr().is_loopback();
        let all = self.prefixes.iter().filter(counts).copied();
        let (shared, added) = all.partition(|it| of_networks.contains(it));
        Local { added, shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets<const N: usize>(texts: [&str; N]) -> [IpNet; N] {
        texts.map(|text| text.parse().unwrap())
    }

    #[test]
    fn routes_of_addresses_are_distinguished_from_those_of_users() {
        let mut sources = LocalSources::default();
        let shared = nets(["10.1.0.0/32", "10.1.0.255/32"]);
        let added = nets(["10.9.0.0/16", "10.8.0.1/32"]);
        let others = nets(["127.0.0.0/8", "10.1.0.1/32", "2001:db8::/64"]);
        for prefix in shared.into_iter().chain(added).chain(others) {
            sources.note(prefix, true);
        }
        let own = nets(["10.1.0.1/24"]);
        let local = |added: &[IpNet]| Local {
            added: added.iter().copied().collect(),
            shared: shared.into(),
        };
        assert_eq!(sources.by_origin(&own), local(&added));
        let before = sources.changes();
        for prefix in added {
            sources.note(prefix, false);
        }
        sources.note(added[0], false);
        assert_eq!(sources.by_origin(&own), local(&[]));
        assert_eq!(sources.changes(), before + 2);
    }
}
