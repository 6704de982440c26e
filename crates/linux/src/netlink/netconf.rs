//! Parameters of links that routes depend on (RTM_NEWNETCONF, include/uapi/linux/netconf.h), set by
//! `sysctl net.ipv4.conf` and `net.ipv6.conf`.

use super::frame::attributes;
use super::model::Event;
use super::value::number;

/// RTNLGRP_IPV4_NETCONF and RTNLGRP_IPV6_NETCONF.
pub(super) const GROUPS: [u32; 2] = [24, 25];
/// RTM_NEWNETCONF and RTM_GETNETCONF.
const NEW: u16 = 80;
pub(super) const GET: u16 = 82;
/// Length of `struct netconfmsg`, padded.
pub(super) const HEADER: usize = 4;

// include/uapi/linux/netconf.h.
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_MC_FORWARDING: u16 = 4;
const NETCONFA_PROXY_NEIGH: u16 = 5;
const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
const NETCONFA_INPUT: u16 = 7;
const NETCONFA_BC_FORWARDING: u16 = 8;
const NETCONFA_FORCE_FORWARDING: u16 = 9;

const ALL: u32 = -1_i32 as u32;
const DEFAULT: u32 = -2_i32 as u32;

/// Scope of parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Scope {
    /// Links that do not exist yet.
    #[default]
    Future,
    /// All links.
    All,
    /// One link.
    Link(u32),
}

/// Parameters of a link or of all links; the ones that the message contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Netconf {
    pub ipv6: bool,
    pub scope: Scope,
    pub forwarding: bool,
    pub force_forwarding: bool,
    pub reverse_path: u32,
    pub ignores_linkdown: Option<bool>,
    /// Parameters without a known meaning that are not 0, as number and value.
    pub not_understood: Vec<(u16, u32)>,
}

impl Netconf {
    /// Returns the event if the message affects routes over a link.
    pub fn event(&self) -> Option<Event> {
        let Scope::Link(link) = self.scope else { return None };
        let ignores_linkdown = self.ignores_linkdown?;
        Some(Event::LinkParameters { link, ipv6: self.ipv6, ignores_linkdown })
    }
}

/// Returns true for messages with parameters.
pub(super) fn is_about(kind: u16) -> bool {
    kind == NEW
}

/// Reads the body of a message; `None` if it is malformed.
pub(super) fn read(payload: &[u8]) -> Option<Netconf> {
    let ipv6 = i32::from(*payload.first()?) == libc::AF_INET6;
    let mut read = Netconf { ipv6, ..Netconf::default() };
    for (kind, content) in attributes(payload.get(HEADER..)?) {
        let Some(value) = number(content) else {
            read.not_understood.push((kind, 0));
            continue;
        };
        match kind {
            NETCONFA_IFINDEX => {
                read.scope = match value {
                    ALL => Scope::All,
                    DEFAULT => Scope::Future,
                    link => Scope::Link(link),
                }
            }
            NETCONFA_FORWARDING => read.forwarding = value != 0,
            NETCONFA_FORCE_FORWARDING => read.force_forwarding = value != 0,
            NETCONFA_RP_FILTER => read.reverse_path = value,
            NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN => read.ignores_linkdown = Some(value != 0),
            // Multicasts, broadcasts, ARP and MPLS are left to the kernel in any case.
            NETCONFA_MC_FORWARDING
            | NETCONFA_BC_FORWARDING
            | NETCONFA_PROXY_NEIGH
            | NETCONFA_INPUT => {}
            _ if value == 0 => {}
            _ => read.not_understood.push((kind, value)),
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(family: i32, values: &[(u16, u32)]) -> Vec<u8> {
        let mut message = vec![family as u8, 0, 0, 0];
        for (kind, value) in values {
            message.extend(8_u16.to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(value.to_ne_bytes());
        }
        message
    }

    #[test]
    fn parameters_of_one_link_are_an_event() {
        let values = [(NETCONFA_IFINDEX, 7), (NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN, 1)];
        let of_link = read(&message(libc::AF_INET6, &values)).unwrap();
        let expected = Event::LinkParameters { link: 7, ipv6: true, ignores_linkdown: true };
        assert_eq!(of_link.event(), Some(expected));
        let of_all = [(NETCONFA_IFINDEX, ALL), (NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN, 1)];
        assert_eq!(read(&message(libc::AF_INET, &of_all)).unwrap().event(), None);
        assert_eq!(read(&message(libc::AF_INET, &[])[..2]), None);
    }

    #[test]
    fn unknown_parameter_is_named_unless_it_is_zero() {
        let not_understood = |kind, value| {
            let values = [(NETCONFA_FORWARDING, 1), (kind, value)];
            read(&message(libc::AF_INET, &values)).unwrap().not_understood
        };
        assert_eq!(not_understood(NETCONFA_MC_FORWARDING, 1), []);
        assert_eq!(not_understood(77, 0), []);
        assert_eq!(not_understood(77, 3), [(77, 3)]);
        let mut cut = message(libc::AF_INET, &[]);
        cut.extend([5, 0, 78, 0, 1, 0, 0, 0]);
        assert_eq!(read(&cut).unwrap().not_understood, [(78, 0)]);
    }
}
