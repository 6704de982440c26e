//! Path to an address, for code that reports on packets rather than forwarding them.

use super::Rib;
use super::hops::HopKey;
use ipnet::IpNet;
use std::net::IpAddr;
use wattline_dataplane::routes::Routes;

/// Path of packets to an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathInfo {
    /// Length of the longest matching prefix; 0 for a default route, or if there is none.
    pub prefix_length: u8,
    /// Next router on the path; `None` for neighbours, for several next hops, and if packets do not
    /// leave.
    pub gateway: Option<IpAddr>,
}

impl Rib {
    /// Returns the path to an address by the routes in the workers' tables.
    pub fn path_to(&self, address: IpAddr, routes: &Routes) -> PathInfo {
        let Some((longest, _)) = routes.longest_match(address) else { return PathInfo::default() };
        let installed = self.prefixes.get(longest).and_then(|entry| entry.installed.as_ref());
        let gateway = match installed {
            Some(HopKey::Gateway { address: gateway, .. }) if *gateway != address => Some(*gateway),
            _ => None,
        };
        // A neighbour has a host route in the tables that is not configured; its prefix is that of
        // the link.
        let is_route = |prefix: &IpNet| {
            self.prefixes.get(*prefix).is_some_and(|entry| !entry.candidates.is_empty())
        };
        let prefix = (0..=longest.prefix_len())
            .rev()
            .filter_map(|length| IpNet::new(address, length).ok().map(|prefix| prefix.trunc()))
            .find(is_route);
        PathInfo { prefix_length: prefix.map_or(0, |prefix| prefix.prefix_len()), gateway }
    }
}
