//! Decisions of the workers' tables for single addresses, to be compared with the kernel's, and
//! prefixes that are left to the kernel because its decision differs.

use super::hops::HopKey;
use super::{Rib, Source};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::routes::Routes;
use wattline_linux::netlink::Decision;

/// Treatment of packets to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Treatment {
    /// Left to the kernel.
    Kernel,
    /// Dropped, with the kernel's error number.
    Refused(i32),
    /// Sent by one of several next hops, as link and address.
    Forward(BTreeSet<(u32, IpAddr)>),
}

impl Treatment {
    /// Returns true if this treatment allows the kernel's decision for a packet to `address`.
    pub fn allows(&self, decision: Decision, address: IpAddr) -> bool {
        match (self, decision) {
            (Self::Kernel, _) => true,
            (Self::Refused(ours), Decision::Refused(kernel)) => *ours == kernel,
            (Self::Forward(ways), Decision::Forward { link, gateway }) => {
                ways.contains(&(link, gateway.unwrap_or(address)))
            }
            _ => false,
        }
    }
}

/// Error numbers of routes (errno(3)).
pub mod route_errors {
    /// EACCES: prohibited.
    pub const PROHIBITED: i32 = 13;
    /// EINVAL: blackhole.
    pub const BLACKHOLE: i32 = 22;
    /// ENETUNREACH: no route.
    pub const NO_ROUTE: i32 = 101;
    /// EHOSTUNREACH: unreachable.
    pub const UNREACHABLE: i32 = 113;
}

impl Rib {
    /// Returns the treatment of packets to an address and the deciding prefix, as if no prefix were
    /// [left](Self::leave) to the kernel.
    pub fn treatment(&self, address: IpAddr, routes: &Routes) -> (Option<IpNet>, Treatment) {
        let installed = routes.longest_match(address).map(|(prefix, _)| prefix);
        let found = match installed {
            Some(prefix) if self.audited.left.contains(&prefix) => self.decided(address),
            Some(prefix) => {
                let entry = self.prefixes.get(prefix);
                entry.and_then(|entry| entry.installed.clone()).map(|key| (prefix, key))
            }
            None => None,
        };
        match found {
            Some((prefix, key)) => (Some(prefix), self.treatment_by(&key, address)),
            None => (installed, Treatment::Refused(route_errors::NO_ROUTE)),
        }
    }

    /// Returns true if the route in use for a prefix refers to a next-hop object.
    pub fn names_object(&self, prefix: IpNet) -> bool {
        self.routes_of(prefix).iter().any(|route| route.counts && route.nexthop.is_some())
    }

    /// Finds the longest prefix with a next hop for an address.
    fn decided(&self, address: IpAddr) -> Option<(IpNet, HopKey)> {
        let longest = IpNet::from(address).prefix_len();
        (0..=longest).rev().find_map(|length| {
            let prefix = IpNet::new(address, length).ok()?.trunc();
            Some((prefix, self.decision(prefix)?))
        })
    }

    fn treatment_by(&self, key: &HopKey, address: IpAddr) -> Treatment {
        let (link, to) = match key {
            HopKey::Punt => return Treatment::Kernel,
            HopKey::Blackhole => return Treatment::Refused(route_errors::BLACKHOLE),
            HopKey::Unreachable => return Treatment::Refused(route_errors::UNREACHABLE),
            HopKey::Prohibit => return Treatment::Refused(route_errors::PROHIBITED),
            HopKey::Group(members) => {
                let mut ways = BTreeSet::new();
                for (member, _) in members.iter() {
                    match self.treatment_by(member, address) {
                        Treatment::Forward(of_member) => ways.extend(of_member),
                        other => return other,
                    }
                }
                return Treatment::Forward(ways);
            }
            HopKey::Gateway { link, address, .. } => (*link, *address),
            HopKey::OnLink { link, .. } => (*link, address),
        };
        match self.meaning(key) {
            NextHop::Punt => Treatment::Kernel,
            _ => Treatment::Forward(BTreeSet::from([(link, to)])),
        }
    }

    /// Leaves packets to a prefix to the kernel, whatever its routes.
    pub fn leave(&mut self, prefix: IpNet) {
        if self.audited.left.insert(prefix) {
            self.dirty_prefixes.insert(prefix);
        }
    }

    /// Ends [`Self::leave`]: the routes of a prefix decide again.
    pub fn take_back(&mut self, prefix: IpNet) {
        if self.audited.left.remove(&prefix) {
            self.dirty_prefixes.insert(prefix);
        }
    }

    /// Counts changes of prefixes that contain these addresses, and of no others, from now on.
    pub fn watch(&mut self, addresses: &BTreeSet<IpAddr>) {
        let touched = &mut self.audited.touched;
        touched.retain(|address, _| addresses.contains(address));
        for address in addresses {
            touched.entry(*address).or_default();
        }
    }

    /// Returns the number of changes of prefixes that contain a watched address.
    pub fn touched(&self, address: IpAddr) -> u64 {
        self.audited.touched.get(&address).copied().unwrap_or_default()
    }

    /// Returns and forgets some of the prefixes that have changed since the last call.
    pub fn take_recent(&mut self) -> Vec<IpNet> {
        std::mem::take(&mut self.audited.recent)
    }

    /// Returns every `step`th prefix with routes, in no particular order.
    pub fn some_prefixes(&self, step: usize) -> Vec<IpNet> {
        self.prefixes.with_routes().step_by(step.max(1)).collect()
    }

    /// Returns a prefix of a family with a route over a link.
    pub fn some_prefix_over(&self, link: u32, ipv6: bool) -> Option<IpNet> {
        let is_it = |prefix: &IpNet| prefix.addr().is_ipv6() == ipv6 && prefix.prefix_len() > 0;
        self.prefixes.over(&[link]).find(is_it)
    }

    /// Returns true if a route of the configuration, which the kernel does not have, may decide
    /// about an address.
    pub fn is_static(&self, address: IpAddr) -> bool {
        let of = |source: Source| source == Source::Static;
        self.prefixes.covering(address).any(|entry| entry.candidates.iter().any(|it| of(it.source)))
    }

    /// Returns the networks of a link's own addresses.
    pub fn networks_of(&self, link: u32) -> impl Iterator<Item = IpNet> {
        self.addresses.networks_on(link)
    }
}
