//! Selection of the best route, and the present meaning of its next hop.

use super::Rib;
use super::hops::{Detail, HopKey};
use super::links::Egress;
use super::prefixes::{Candidate, Entry};
use super::source::Source;
use ipnet::IpNet;
use std::net::IpAddr;
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_dataplane::routes::{IdRange, RouteError, Routes};
use wattline_linux::netlink::{Hop, RouteKind};

impl Rib {
    /// Updates one prefix of the workers' tables.
    pub(super) fn install(
        &mut self,
        prefix: IpNet,
        routes: &mut Routes,
        errors: &mut Vec<RouteError>,
    ) {
        let wanted = self.wanted(prefix);
        let has_mtu = |entry: &Entry| {
            entry.candidates.iter().flat_map(|it| &it.hops).any(|hop| hop.mtu.is_some())
        };
        match wanted == Some(HopKey::Punt) && self.prefixes.get(prefix).is_some_and(has_mtu) {
            true => self.left_with_mtu.insert(prefix),
            false => self.left_with_mtu.remove(&prefix),
        };
        let discards = prefix.addr().is_ipv4()
            && match wanted {
                Some(HopKey::Blackhole | HopKey::Unreachable | HopKey::Prohibit) => true,
                // Addresses of this machine, and prefixes in local routes, are handled elsewhere.
                Some(HopKey::Punt) => {
                    let entry = self.prefixes.get(prefix);
                    let mut kinds = entry.into_iter().flat_map(|it| &it.candidates);
                    kinds.any(|it| it.kind == RouteKind::Kernel)
                }
                _ => false,
            };
        match discards {
            true => self.discarded.insert(prefix),
            false => self.discarded.remove(&prefix),
        };
        let entry = self.prefixes.get(prefix).filter(|_| wanted == Some(HopKey::Punt));
        let by_own =
            entry.is_some_and(|it| it.candidates.iter().any(|it| self.has_own_gateway(it)));
        let is_other = match by_own {
            true => self.by_own_gateways.insert(prefix),
            false => self.by_own_gateways.remove(&prefix),
        };
        self.own_gateway_changes += u64::from(is_other);
        let installed = self.prefixes.get(prefix).and_then(|entry| entry.installed.clone());
        if wanted == installed {
            self.refused.remove(&prefix);
            self.prefixes.set_installed(prefix, installed);
            return;
        }
        let mut now = None;
        let range = IdRange::for_prefix(prefix);
        if let Some(key) = wanted {
            // The meaning needs all of `self` except the next hops, which are being changed.
            let mut hops = std::mem::take(&mut self.hops);
            let held = hops.hold(&key, range, &|key| self.meaning(key), routes);
            self.refused.remove(&prefix);
            let held = match held {
                Ok(id) => Ok((key, id)),
                // The kernel handles prefixes without room here.
                Err(error) => {
                    if installed.as_ref() != Some(&HopKey::Punt) {
                        errors.push(error);
                    }
                    self.refused.insert(prefix);
                    let id = hops.hold(&HopKey::Punt, range, &|_| NextHop::Punt, routes);
                    id.map(|id| (HopKey::Punt, id))
                }
            };
            match held {
                Ok((key, id)) => {
                    errors.extend(routes.insert(prefix, id).err());
                    now = Some(key);
                }
                // The old next hop is wrong by now; no next hop is better.
                Err(error) => errors.push(error),
            }
            self.hops = hops;
        }
        if let Some(old) = installed {
            if now.is_none() {
                routes.remove(prefix);
            }
            self.hops.release(&old, range, routes);
        }
        self.prefixes.set_installed(prefix, now);
    }

    /// Returns the next hop that a prefix should have.
    fn wanted(&self, prefix: IpNet) -> Option<HopKey> {
        match self.audited.left.contains(&prefix) {
            true => Some(HopKey::Punt),
            false => self.decision(prefix),
        }
    }

    /// Returns the next hop that the routes to a prefix have.
    pub(super) fn decision(&self, prefix: IpNet) -> Option<HopKey> {
        let best = self.prefixes.get(prefix).and_then(|entry| self.best(entry, is_ipv6(prefix)));
        // The kernel may look up the longest prefix of all tables, or the local table first: both
        // occur, depending on former rules.
        let inside = |local: &IpNet| *local != prefix && local.contains(&prefix);
        if self.local_networks.iter().any(inside) {
            return best.map(|_| HopKey::Punt);
        }
        if prefix.prefix_len() == prefix.max_prefix_len()
            && best.as_ref().is_none_or(|best| matches!(best, HopKey::OnLink { .. }))
            && let Some(neighbour) = self.direct_neighbour(prefix.addr())
        {
            return Some(neighbour);
        }
        best
    }

    /// Returns the neighbour with this address, if it is known and on the link that routes lead to.
    fn direct_neighbour(&self, address: IpAddr) -> Option<HopKey> {
        let (link, detail) = self.on_link(address)?;
        self.mac(link, address)?;
        self.links.port(link)?;
        Some(HopKey::Gateway { link, address, detail })
    }

    /// Returns the link on which an address is a neighbour, by the longest usable route, and
    /// details of that route.
    pub(super) fn on_link(&self, address: IpAddr) -> Option<(u32, Detail)> {
        match self
            .prefixes
            .covering(address)
            .find_map(|entry| self.best(entry, address.is_ipv6()))?
        {
            HopKey::OnLink { link, detail } => Some((link, detail)),
            _ => None,
        }
    }

    fn best(&self, entry: &Entry, ipv6: bool) -> Option<HopKey> {
        let usable = |candidate: &&Candidate| self.target(candidate, ipv6).is_some();
        let best = entry.candidates.iter().find(usable)?;
        // Among equals, the kernel may prefer one that only it understands.
        let left = |other: &Candidate| {
            matches!(other.kind, RouteKind::Kernel | RouteKind::Local) && other.rivals(best)
        };
        if entry.candidates.iter().any(left) {
            return Some(HopKey::Punt);
        }
        let target = self.target(best, ipv6);
        // Among several IPv6 routes with one metric, the kernel chooses by the state of their
        // neighbours, and in turns (rt6_select()).
        let differs = |other: &Candidate| {
            let found = self.target(other, ipv6);
            other.source == Source::Kernel
                && other.rivals(best)
                && found.is_some()
                && found != target
        };
        if ipv6 && entry.candidates.iter().any(differs) {
            return Some(HopKey::Punt);
        }
        target
    }

    /// Returns true if a route can be used now.
    pub(super) fn is_usable(&self, candidate: &Candidate, prefix: IpNet) -> bool {
        self.target(candidate, is_ipv6(prefix)).is_some()
    }

    /// Returns the next hop of a route; `None` if none of its links is running.
    fn target(&self, candidate: &Candidate, ipv6: bool) -> Option<HopKey> {
        match candidate.kind {
            RouteKind::Kernel | RouteKind::Local => return Some(HopKey::Punt),
            RouteKind::Blackhole => return Some(HopKey::Blackhole),
            RouteKind::Unreachable => return Some(HopKey::Unreachable),
            RouteKind::Prohibit => return Some(HopKey::Prohibit),
            RouteKind::Unicast => {}
        }
        // With several next hops, the kernel considers the carrier only at some changes
        // (fib_rebalance(), rt6_multipath_rebalance()).
        let mut hops = candidate.hops.iter();
        if candidate.source == Source::Kernel
            && candidate.hops.len() > 1
            && hops.any(|hop| self.links.lacks_carrier(hop.link))
        {
            return Some(HopKey::Punt);
        }
        let usable: Vec<(HopKey, u16)> = candidate
            .hops
            .iter()
            .filter(|hop| !hop.dead && self.links.carries(hop.link, ipv6, candidate.source))
            .filter_map(|hop| Some((self.hop(hop, candidate.sender)?, hop.weight.max(1))))
            .collect();
        match usable.as_slice() {
            [] => None,
            _ if self.has_own_gateway(candidate) => Some(HopKey::Punt),
            [(key, _)] => Some(key.clone()),
            // The neighbour depends on the member that the kernel chooses. A member that is left to
            // the kernel would get only a share of its share, since the kernel chooses among all
            // members again.
            _ if usable
                .iter()
                .any(|(key, _)| matches!(key, HopKey::OnLink { .. } | HopKey::Punt)) =>
            {
                Some(HopKey::Punt)
            }
            _ => Some(HopKey::group(usable)),
        }
    }

    /// Returns true if the kernel may send packets of a route to the destination itself, though it
    /// has a gateway.
    fn has_own_gateway(&self, candidate: &Candidate) -> bool {
        let is_own = |hop: &Hop| hop.gateway.is_some_and(|it| self.local_sources.ever_held(it));
        let counts = candidate.source == Source::Kernel && candidate.kind == RouteKind::Unicast;
        counts && candidate.hops.iter().any(is_own)
    }

    fn hop(&self, hop: &Hop, sender: Option<IpAddr>) -> Option<HopKey> {
        let detail = Detail { mtu: hop.mtu, sender };
        match self.links.egress(hop.link) {
            Egress::Down => None,
            // If the link becomes a port later, the meaning of its next hops changes, not each
            // route.
            Egress::Kernel if !self.links.may_be_port(hop.link) => Some(HopKey::Punt),
            Egress::Port { mtu, .. } if is_wider(hop.mtu, mtu) => Some(HopKey::Punt),
            Egress::Kernel | Egress::Port { .. } => Some(match hop.gateway {
                Some(address) => HopKey::Gateway { link: hop.link, address, detail },
                None => HopKey::OnLink { link: hop.link, detail },
            }),
        }
    }

    /// Returns the meaning of a next hop (not a group) with the present links and neighbours.
    pub(super) fn meaning(&self, key: &HopKey) -> NextHop {
        let (link, gateway, detail) = match key {
            HopKey::Gateway { link, address, detail } => (*link, Some(*address), *detail),
            HopKey::OnLink { link, detail } => (*link, None, *detail),
            HopKey::Punt => return NextHop::Punt,
            HopKey::Blackhole => return NextHop::Blackhole,
            HopKey::Unreachable => return NextHop::Unreachable,
            HopKey::Prohibit => return NextHop::Prohibit,
            HopKey::Group(_) => return NextHop::None,
        };
        let Egress::Port { port, mtu, mac, vlan } = self.links.egress(link) else {
            // The link is no port, or its routes are withdrawn in the same publication.
            return NextHop::Punt;
        };
        let Detail { mtu: route_mtu, sender: source } = detail;
        match gateway.and_then(|address| self.mac(link, address)) {
            // The link has become a port since the route was chosen.
            _ if is_wider(route_mtu, mtu) => NextHop::Punt,
            Some(destination_mac) => NextHop::Forward(Adjacency {
                port,
                mtu: route_mtu.unwrap_or(mtu),
                link_mtu: mtu,
                destination_mac,
                source_mac: mac,
                vlan,
                gateway,
                source,
            }),
            None => NextHop::Resolve { port, gateway, source, vlan },
        }
    }
}

/// Returns true if a route's MTU is above its link's. In IPv4, Linux then accepts packets that the
/// link refuses, and reports the route's MTU in its errors.
fn is_wider(route: Option<u16>, link: u16) -> bool {
    route.is_some_and(|mtu| mtu > link)
}

fn is_ipv6(prefix: IpNet) -> bool {
    prefix.addr().is_ipv6()
}
