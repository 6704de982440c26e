//! The state of each link, to notice changes with which the kernel removes routes silently.

use super::model::{Address, Event, Link};
use std::collections::HashMap;

/// Whether each link is enabled and whether it is running, by link index.
#[derive(Default)]
pub(super) struct LinkStates(HashMap<u32, (bool, bool)>);

impl LinkStates {
    /// Takes note of an event. True if the kernel may have removed routes because of it without
    /// sending a notification: it does so for IPv4 routes when their link or source address goes
    /// (fib_flush()) and, if there are next-hop objects (`has_nexthops`), when a link loses its
    /// carrier (nexthop_flush_dev()).
    pub fn may_lose_routes(&mut self, has_nexthops: bool, event: &Event) -> bool {
        match event {
            Event::Link(Link { index, enabled, running, .. }) => {
                let before = self.0.insert(*index, (*enabled, *running));
                let (was_enabled, was_running) = before.unwrap_or_default();
                was_enabled && !enabled || was_running && !running && has_nexthops
            }
            Event::LinkGone(index) => self.0.remove(index).is_some(),
            Event::AddressGone(Address { address, .. }) => address.addr().is_ipv4(),
            _ => false,
        }
    }
}
