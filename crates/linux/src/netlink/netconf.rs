//! Parameters of links that routes depend on (RTM_NEWNETCONF, include/uapi/linux/netconf.h):
//! what `sysctl net.ipv4.conf` and `net.ipv6.conf` set.

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

const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;

/// Parameters of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameters {
    pub ipv6: bool,
    pub link: u32,
    pub ignores_linkdown: bool,
}

impl Parameters {
    pub fn event(self) -> Event {
        let Self { ipv6, link, ignores_linkdown } = self;
        Event::LinkParameters { link, ipv6, ignores_linkdown }
    }
}

/// Returns true for messages with parameters.
pub(super) fn is_about(kind: u16) -> bool {
    kind == NEW
}

/// Reads the body of a message; `None` if it is malformed, and `Some(None)` if it is about all links
/// or future ones, or about other parameters alone.
pub(super) fn read(payload: &[u8]) -> Option<Option<Parameters>> {
    let ipv6 = i32::from(*payload.first()?) == libc::AF_INET6;
    let (mut index, mut ignores) = (None, None);
    for (kind, content) in attributes(payload.get(HEADER..)?) {
        match kind {
            NETCONFA_IFINDEX => index = number(content),
            NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN => ignores = number(content),
            _ => {}
        }
    }
    let link = index.filter(|index| *index <= i32::MAX as u32);
    Some(link.zip(ignores).map(|(link, ignores)| Parameters {
        ipv6,
        link,
        ignores_linkdown: ignores != 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: u32) -> Vec<u8> {
        [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value.to_ne_bytes()].concat()
    }

    #[test]
    fn parameters_of_one_link_are_read() {
        let message = |family: i32, index: u32, ignores: u32| {
            let mut message = vec![family as u8, 0, 0, 0];
            message.extend(attribute(NETCONFA_IFINDEX, index));
            message.extend(attribute(2, 1));
            message.extend(attribute(NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN, ignores));
            message
        };
        let expected = Parameters { ipv6: true, link: 7, ignores_linkdown: true };
        assert_eq!(read(&message(libc::AF_INET6, 7, 1)), Some(Some(expected)));
        let all_links = -1_i32 as u32;
        assert_eq!(read(&message(libc::AF_INET, all_links, 1)), Some(None));
        assert_eq!(read(&message(libc::AF_INET, 7, 0)[..2]), None);
    }
}
