//! From netlink messages to [`Event`]s. The decoder keeps the kernel's next-hop objects, because a
//! route may name one by its id alone.

use super::decode;
use super::model::{Event, Placement};
use super::nexthop::Nexthops;
use super::socket::Received;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_MULTIPART, NLM_F_REPLACE, NetlinkPayload};

/// Decodes the messages of dumps and notifications.
#[derive(Default)]
pub(super) struct EventDecoder {
    /// Next-hop objects (`ip nexthop`) by id.
    pub nexthops: Nexthops,
    /// Messages that could not be decoded and were skipped.
    pub unreadable: u64,
}

impl EventDecoder {
    /// Calls `each` for every event in a received message. Sets `doubt` if a route refers to an
    /// unknown next-hop object.
    pub fn decode(&mut self, received: Received, doubt: &mut bool, each: &mut dyn FnMut(Event)) {
        let Self { nexthops, unreadable } = self;
        match received {
            Received::Message(message) => {
                let placement = placement(message.header.flags);
                let NetlinkPayload::InnerMessage(inner) = &message.payload else { return };
                let Some(mut event) = decode::event(inner, placement) else { return };
                match &mut event {
                    Event::Route { route, .. } => *doubt |= !nexthops.resolve(route),
                    // A removed route can be found by its prefix and metric, so an unknown object
                    // causes no doubt.
                    Event::RouteGone(route) => drop(nexthops.resolve(route)),
                    _ => {}
                }
                each(event);
            }
            Received::Nexthop { change, .. } => nexthops.apply(change, each),
            Received::Netconf(parameters) => parameters.event().into_iter().for_each(each),
            Received::Unreadable(reason) => {
                *unreadable += 1;
                tracing::debug!("skipped a netlink message: {reason}");
            }
        }
    }
}

/// Returns the place of a route by the flags of its message. Flags other than that of multi-part
/// messages have different meanings in a dump.
fn placement(flags: u16) -> Placement {
    match flags {
        _ if flags & NLM_F_MULTIPART != 0 => Placement::Dumped,
        _ if flags & NLM_F_REPLACE != 0 => Placement::Replace,
        _ if flags & NLM_F_APPEND != 0 => Placement::Last,
        _ => Placement::First,
    }
}
