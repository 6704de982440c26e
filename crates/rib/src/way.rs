//! Which way an address lies, for those who tell of packets rather than forward them.

use super::Rib;
use super::hops::HopKey;
use ipnet::IpNet;
use std::net::IpAddr;
use wattline_dataplane::routes::Routes;

/// Where packets to an address go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// Length of the longest prefix that holds it; 0 for a default route and where none does.
    pub prefix_length: u8,
    /// The router on the way; `None` for neighbours, for several ways, and where packets do not
    /// leave.
    pub gateway: Option<IpAddr>,
}

impl Rib {
    /// The way to an address by the routes that are in the workers' tables.
    pub fn way_to(&self, address: IpAddr, routes: &Routes) -> Way {
        let Some((longest, _)) = routes.longest_match(address) else { return Way::default() };
        let installed = self.prefixes.get(longest).and_then(|entry| entry.installed.as_ref());
        let gateway = match installed {
            Some(HopKey::Gateway { address: gateway, .. }) if *gateway != address => Some(*gateway),
            _ => None,
        };
        // A neighbour has a host route in the tables that nobody configured: its prefix is that
        // of the link.
        let is_route = |prefix: &IpNet| {
            self.prefixes.get(*prefix).is_some_and(|entry| !entry.candidates.is_empty())
        };
        let prefix = (0..=longest.prefix_len())
            .rev()
            .filter_map(|length| IpNet::new(address, length).ok().map(|prefix| prefix.trunc()))
            .find(is_route);
        Way { prefix_length: prefix.map_or(0, |prefix| prefix.prefix_len()), gateway }
    }
}
