//! Next-hop objects (`ip nexthop`), and the meaning of routes that refer to them.
//!
//! A route may refer to an object, or a group of them, by number (RTA_NH_ID). When the object is
//! deleted, or loses a member, the kernel changes those routes and only announces the change of the
//! object (net/ipv4/nexthop.c: remove_nexthop(), remove_nh_grp_entry()). With
//! `net.ipv4.nexthop_compat_mode` off, messages of routes have nothing but the number in the first
//! place.
//!
//! Messages: include/uapi/linux/nexthop.h.

use super::frame::attributes;
use super::model::{Event, Hop, Route, RouteKind};
use std::collections::HashMap;
use std::net::IpAddr;

/// RTNLGRP_NEXTHOP.
pub(super) const GROUP: u32 = 32;
/// RTM_NEWNEXTHOP, RTM_DELNEXTHOP and RTM_GETNEXTHOP.
pub(super) const NEW: u16 = 104;
const GONE: u16 = 105;
pub(super) const GET: u16 = 106;
/// Lengths of `struct nlmsghdr`, `struct nhmsg` and `struct nexthop_grp`.
const MESSAGE_HEADER: usize = 16;
pub(super) const HEADER: usize = 8;
const MEMBER: usize = 8;

// Attributes.
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;
/// Type of encapsulation, master, and the attributes from those of resilient groups to statistics
/// of cards.
const NO_CHOICE: [u16; 8] = [7, 10, 12, 13, 14, 15, 16, 17];

/// Change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The object is new, or has changed.
    New(u32, Meaning),
    /// The object is gone.
    Gone(u32),
}

/// Meaning of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A single next hop.
    Single(Hop),
    /// Several objects, with their weights.
    Group(Vec<(u32, u16)>),
    /// Packets are discarded.
    Blackhole,
    /// Only the kernel can send through it.
    Kernel,
}

/// Returns true for messages about next-hop objects.
pub(super) fn is_about(kind: u16) -> bool {
    matches!(kind, NEW | GONE)
}

/// Decodes the change in a whole message.
pub(super) fn change(message: &[u8]) -> Option<Change> {
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let body = message.get(MESSAGE_HEADER + HEADER..)?;
    let (mut id, mut group, mut other) = (None, None, None);
    let mut hop = Hop { link: 0, gateway: None, weight: 1, mtu: None, dead: false };
    for (kind, content) in attributes(body) {
        match kind {
            NHA_ID => id = Some(u32::from_ne_bytes(*content.first_chunk()?)),
            NHA_GROUP => group = Some(members(content)?),
            // The buckets of a resilient group decide, which only the kernel knows.
            NHA_GROUP_TYPE if content != [0, 0] => other = Some(Meaning::Kernel),
            NHA_GROUP_TYPE => {}
            NHA_BLACKHOLE => other = Some(Meaning::Blackhole),
            NHA_ENCAP | NHA_FDB => other = Some(Meaning::Kernel),
            NHA_OIF => hop.link = u32::from_ne_bytes(*content.first_chunk()?),
            NHA_GATEWAY => hop.gateway = Some(address(content)?),
            kind if NO_CHOICE.contains(&kind) => {}
            _ => other = Some(Meaning::Kernel),
        }
    }
    let id = id?;
    if kind == GONE {
        return Some(Change::Gone(id));
    }
    Some(Change::New(id, other.or(group.map(Meaning::Group)).unwrap_or(Meaning::Single(hop))))
}

fn members(content: &[u8]) -> Option<Vec<(u32, u16)>> {
    let member = |bytes: &[u8]| {
        let id = u32::from_ne_bytes(*bytes.first_chunk()?);
        // One less than the weight; the upper byte is newer than the structure (Linux 6.12).
        let weight = u16::from_le_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        Some((id, weight.saturating_add(1)))
    };
    content.chunks_exact(MEMBER).map(member).collect()
}

fn address(content: &[u8]) -> Option<IpAddr> {
    match content.len() {
        4 => content.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        16 => content.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

/// All next-hop objects.
#[derive(Debug, Default)]
pub(super) struct Nexthops {
    known: HashMap<u32, Meaning>,
}

impl Nexthops {
    /// Forgets all objects, before a dump.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Applies a change; calls `each` with the event of the routes that refer to the object. No
    /// route refers to a new object yet.
    pub fn apply(&mut self, change: Change, each: &mut dyn FnMut(Event)) {
        match change {
            Change::Gone(id) => {
                if self.known.remove(&id).is_some() {
                    each(Event::NexthopGone(id));
                }
            }
            Change::New(id, meaning) => {
                let before = self.known.insert(id, meaning);
                if before.is_none() || before.as_ref() == self.known.get(&id) {
                    return;
                }
                // The kernel does not repeat the groups that contain it.
                let holds = |meaning: &Meaning| match meaning {
                    Meaning::Group(members) => members.iter().any(|(member, _)| *member == id),
                    _ => false,
                };
                let groups = self.known.iter().filter(|(_, it)| holds(it)).map(|(group, _)| *group);
                for changed in std::iter::once(id).chain(groups) {
                    if let Some((kind, hops)) = self.meaning(changed) {
                        each(Event::Nexthop { id: changed, kind, hops });
                    }
                }
            }
        }
    }

    /// Sets the next hops of a route that refers to an object. Returns false if the object is
    /// unknown and the route itself has no next hops: another dump is needed.
    pub fn resolve(&self, route: &mut Route) -> bool {
        let Some(id) = route.nexthop else { return true };
        if !matches!(route.kind, RouteKind::Unicast | RouteKind::Blackhole) {
            return true;
        }
        let Some((kind, mut hops)) = self.meaning(id) else {
            return route.hops.iter().all(|hop| hop.link != 0);
        };
        let mtu = route.hops.first().and_then(|hop| hop.mtu);
        for hop in &mut hops {
            hop.mtu = mtu;
            hop.dead = route.hops.iter().any(|known| known.dead && known.leads_as(hop));
        }
        (route.kind, route.hops) = (kind, hops);
        true
    }

    /// Returns the kind and hops of an object; `None` if it, or all of its members, are unknown.
    fn meaning(&self, id: u32) -> Option<(RouteKind, Vec<Hop>)> {
        match self.known.get(&id)? {
            Meaning::Single(hop) => Some((RouteKind::Unicast, vec![hop.clone()])),
            Meaning::Blackhole => Some((RouteKind::Blackhole, Vec::new())),
            Meaning::Kernel => Some((RouteKind::Kernel, Vec::new())),
            Meaning::Group(members) => {
                let mut hops = Vec::with_capacity(members.len());
                for (member, weight) in members {
                    match self.known.get(member) {
                        Some(Meaning::Single(hop)) => {
                            hops.push(Hop { weight: *weight, ..hop.clone() });
                        }
                        // A group contains no groups, and a blackhole is its only member
                        // (valid_group_nh()).
                        Some(Meaning::Blackhole) => {
                            return Some((RouteKind::Blackhole, Vec::new()));
                        }
                        Some(Meaning::Kernel) => return Some((RouteKind::Kernel, Vec::new())),
                        Some(Meaning::Group(_)) | None => {}
                    }
                }
                (!hops.is_empty()).then_some((RouteKind::Unicast, hops))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::attribute_bytes as attribute;
    use super::*;
    use proptest::prelude::*;

    fn way(host: u8) -> Hop {
        Hop { link: 7, gateway: Some([192, 0, 2, host].into()), weight: 1, mtu: None, dead: false }
    }

    fn message(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; MESSAGE_HEADER + HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(attributes.concat());
        bytes
    }

    #[test]
    fn messages_are_read() {
        let id = |id: u32| attribute(NHA_ID, &id.to_ne_bytes());
        let out = attribute(NHA_OIF, &7_u32.to_ne_bytes());
        let gateway = attribute(NHA_GATEWAY, &[192, 0, 2, 3]);
        let read = change(&message(NEW, &[id(5), out, gateway]));
        assert_eq!(read, Some(Change::New(5, Meaning::Single(way(3)))));
        for kind in [9, 18, 40] {
            let message =
                message(NEW, &[id(5), attribute(NHA_OIF, &[7, 0, 0, 0]), attribute(kind, &[])]);
            assert_eq!(change(&message), Some(Change::New(5, Meaning::Kernel)), "attribute {kind}");
        }
        let mut group = vec![0; 16];
        group[..4].copy_from_slice(&5_u32.to_ne_bytes());
        group[4..6].copy_from_slice(&[2, 1]);
        group[8..12].copy_from_slice(&6_u32.to_ne_bytes());
        let kind = attribute(NHA_GROUP_TYPE, &[0, 0]);
        let read = change(&message(NEW, &[id(9), attribute(NHA_GROUP, &group), kind]));
        assert_eq!(read, Some(Change::New(9, Meaning::Group(vec![(5, 259), (6, 1)]))));
        let read = change(&message(NEW, &[id(4), attribute(NHA_BLACKHOLE, &[])]));
        assert_eq!(read, Some(Change::New(4, Meaning::Blackhole)));
        assert_eq!(change(&message(GONE, &[id(4)])), Some(Change::Gone(4)));
        assert_eq!(change(&message(GONE, &[])), None);
    }

    #[test]
    fn a_change_of_a_member_changes_its_groups() {
        let mut all = Nexthops::default();
        let mut apply = |change| {
            let mut events = Vec::new();
            all.apply(change, &mut |event| events.push(event));
            events
        };
        assert_eq!(apply(Change::New(1, Meaning::Single(way(1)))), []);
        assert_eq!(apply(Change::New(2, Meaning::Single(way(2)))), []);
        assert_eq!(apply(Change::New(9, Meaning::Group(vec![(1, 1), (2, 3)]))), []);
        let three = Hop { weight: 3, ..way(4) };
        let unicast = |id, hops| Event::Nexthop { id, kind: RouteKind::Unicast, hops };
        assert_eq!(
            apply(Change::New(2, Meaning::Single(way(4)))),
            [unicast(2, vec![way(4)]), unicast(9, vec![way(1), three])]
        );
        assert_eq!(apply(Change::New(9, Meaning::Group(vec![(1, 1)]))), [unicast(9, vec![way(1)])]);
        assert_eq!(apply(Change::Gone(2)), [Event::NexthopGone(2)]);
        assert_eq!(apply(Change::Gone(2)), [], "reported before");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_passed_over(bytes: Vec<u8>) {
            let _ = change(&bytes);
        }
    }
}
