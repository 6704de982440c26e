//! What is remembered of the kernel's messages to tell the next ones rightly.

use super::decode;
use super::model::{Address, Event, Link};
use super::nexthop::Nexthops;
use super::socket::Received;
use netlink_packet_core::{NLM_F_REPLACE, NetlinkPayload};
use std::collections::HashMap;

/// What dumps and notifications have told so far.
#[derive(Default)]
pub(super) struct Story {
    /// Next hops that have numbers.
    pub nexthops: Nexthops,
    /// Messages that could not be decoded.
    pub unreadable: u64,
}

impl Story {
    /// Calls `each` for what was received. `doubt` is set where a route names a next hop that nothing
    /// is known of.
    pub fn tell(&mut self, received: Received, doubt: &mut bool, each: &mut dyn FnMut(Event)) {
        let Self { nexthops, unreadable } = self;
        match received {
            Received::Message(message) => {
                // In a dump this bit has another meaning, but there nothing is replaced anyway.
                let replace = message.header.flags & NLM_F_REPLACE != 0;
                let NetlinkPayload::InnerMessage(inner) = &message.payload else { return };
                let Some(mut event) = decode::event(inner, replace) else { return };
                match &mut event {
                    Event::Route { route, .. } => *doubt |= !nexthops.resolve(route),
                    // One that is gone is found by its prefix and metric, too.
                    Event::RouteGone(route) => drop(nexthops.resolve(route)),
                    _ => {}
                }
                each(event);
            }
            Received::Nexthop { change, .. } => nexthops.apply(change, each),
            Received::Unreadable(reason) => {
                *unreadable += 1;
                tracing::debug!("skipped a netlink message: {reason}");
            }
        }
    }
}

/// Which links are enabled, and which have a carrier too, to notice the change.
#[derive(Default)]
pub(super) struct Links(HashMap<u32, (bool, bool)>);

impl Links {
    /// Whether routes may have vanished with this event without being mentioned: IPv4 routes with
    /// their link or address (fib_flush()), and where next hops with numbers are `named`, those with
    /// the carrier too (nexthop_flush_dev()).
    pub fn may_lose_routes(&mut self, named: bool, event: &Event) -> bool {
        match event {
            Event::Link(Link { index, enabled, running, .. }) => {
                let before = self.0.insert(*index, (*enabled, *running));
                let (was_enabled, was_running) = before.unwrap_or_default();
                was_enabled && !enabled || was_running && !running && named
            }
            Event::LinkGone(index) => self.0.remove(index).is_some(),
            Event::AddressGone(Address { address, .. }) => address.addr().is_ipv4(),
            _ => false,
        }
    }
}
