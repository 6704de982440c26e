//! State of each link, to notice changes with which the kernel changes routes silently.

use super::model::{Address, Event, Link};
use std::collections::{HashMap, HashSet};

/// State of each link by index: enabled, and running.
#[derive(Default)]
pub(super) struct LinkStates {
    states: HashMap<u32, (bool, bool)>,
    /// Links whose next hops are not used (RTNH_F_DEAD).
    dead: HashSet<u32>,
}

impl LinkStates {
    /// Records an event. Returns true if the kernel may have changed routes because of it without a
    /// notification:
    ///
    /// - It removes IPv4 routes when their link or source address goes (fib_flush()).
    /// - If there are next-hop objects (`has_nexthops`), it removes routes when a link loses its
    ///   carrier (nexthop_flush_dev()).
    /// - It stops using a next hop, among others of its route, when the last address of its link
    ///   goes, or the link or its IPv6 is disabled, and uses it again when these are back
    ///   (fib_sync_down_dev(), rt6_sync_down_dev(), fib_sync_up(), rt6_sync_up()). Every link with
    ///   IPv6 has a route to all groups (addrconf_add_mroute()).
    pub fn may_lose_routes(&mut self, has_nexthops: bool, event: &Event) -> bool {
        match event {
            Event::DumpBegin => {
                self.dead.clear();
                false
            }
            Event::Link(Link { index, enabled, running, .. }) => {
                let before = self.states.insert(*index, (*enabled, *running));
                let (was_enabled, was_running) = before.unwrap_or_default();
                was_enabled && !enabled
                    || was_running && !running && has_nexthops
                    || *running && !was_running && self.dead.contains(index)
            }
            Event::LinkGone(index) => self.states.remove(index).is_some(),
            Event::AddressGone(_) => true,
            Event::RouteGone(route) => {
                route.prefix.addr().is_ipv6() && route.prefix.addr().is_multicast()
            }
            Event::Address(Address { link, .. }) => self.dead.contains(link),
            Event::Route { route, .. } => {
                let dead = route.hops.iter().filter(|hop| hop.dead);
                self.dead.extend(dead.map(|hop| hop.link));
                false
            }
            _ => false,
        }
    }
}
