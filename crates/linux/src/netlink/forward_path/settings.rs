//! Settings of links that affect the packets that they receive (`net.ipv4.conf` and
//! `net.ipv6.conf`; RTM_GETNETCONF and, for settings that it lacks, RTM_GETLINK).

use super::super::frame::attributes;
use super::super::netconf::{self, Netconf, Scope};
use super::super::value::number;
use super::dump::dump;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::collections::BTreeMap;
use std::io;

const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg`.
const IFINFOMSG: usize = 16;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_CONF: u16 = 2;
const IFLA_MTU: u16 = 4;
/// DEVCONF_DISABLE_IPV6 and DEVCONF_MTU6 (include/uapi/linux/ipv6.h), indexes into IFLA_INET6_CONF.
const DISABLE_IPV6: usize = 26;
const MTU6: usize = 2;

/// Settings in force on a link for one family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// Setting, with its value, because of which packets that the link receives are not forwarded;
    /// `%` stands for the name of the link.
    pub off_because: Option<&'static str>,
    /// Reverse-path filter: 0 none, 1 strict, 2 loose. IPv4 only.
    pub reverse_path: u32,
    /// Largest packet that may leave here (`net.ipv6.conf.%.mtu`), if it is below the link's MTU.
    pub mtu: Option<u32>,
    /// Settings without a known meaning that are not 0, as number and value.
    pub not_understood: Vec<(u16, u32)>,
}

/// Settings of all links, by link index and with true for IPv6.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsOfLinks(BTreeMap<(u32, bool), LinkSettings>);

impl SettingsOfLinks {
    /// Returns the settings of a link for a family.
    pub fn for_link(&self, link: u32, ipv6: bool) -> LinkSettings {
        self.0.get(&(link, ipv6)).cloned().unwrap_or_default()
    }

    /// Replaces the settings of a link.
    pub fn set(&mut self, link: u32, ipv6: bool, settings: LinkSettings) {
        self.0.insert((link, ipv6), settings);
    }
}

/// Reads all settings.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<SettingsOfLinks> {
    let mut all = SettingsOfLinks::default();
    let links = links()?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let ipv6 = family == libc::AF_INET6;
        let mut read = Vec::new();
        let mut body = [0; netconf::HEADER];
        body[0] = family as u8;
        let answered = dump(NETLINK_ROUTE, netconf::GET, &body, |answer| {
            // A kernel without a family answers for all others.
            read.extend(netconf::read(answer).filter(|it| it.ipv6 == ipv6));
        });
        match answered.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT)) => continue,
            _ => answered?,
        }
        let of_all = read.iter().find(|it| it.scope == Scope::All).cloned().unwrap_or_default();
        for (link, conf) in &links {
            let one = read.iter().find(|it| it.scope == Scope::Link(*link));
            // The kernel drops packets of a family for which the link has no settings.
            let without =
                LinkSettings { off_because: Some("% is without it"), ..Default::default() };
            let mut settings = one.map_or(without, |one| in_force(one, &of_all));
            if ipv6 {
                settings.mtu = conf.mtu;
                if conf.is_disabled {
                    settings.off_because = Some("net.ipv6.conf.%.disable_ipv6 = 1");
                }
            }
            all.set(*link, ipv6, settings);
        }
    }
    Ok(all)
}

/// Combines the settings of a link with those of all links as the kernel does (ip_route_input_slow(),
/// ip6_forward(), IN_DEV_MAXCONF()).
fn in_force(one: &Netconf, all: &Netconf) -> LinkSettings {
    let off_because = match one.ipv6 {
        false if !one.forwarding => Some("net.ipv4.conf.%.forwarding = 0"),
        // Forwarding of IPv6 is a setting of all links. On a single link it only makes the kernel
        // act as a router in neighbour discovery.
        true if !all.forwarding && !one.force_forwarding => {
            Some("net.ipv6.conf.all.forwarding = 0")
        }
        _ => None,
    };
    let reverse_path = one.reverse_path.max(all.reverse_path);
    let not_understood = one.not_understood.iter().chain(&all.not_understood).copied().collect();
    LinkSettings { off_because, reverse_path, mtu: None, not_understood }
}

/// Settings of IPv6 that only dumps of links have.
struct Ipv6Conf {
    /// True if the kernel drops all packets.
    is_disabled: bool,
    /// The MTU, if it is below that of the link.
    mtu: Option<u32>,
}

/// Lists all links.
fn links() -> io::Result<BTreeMap<u32, Ipv6Conf>> {
    let mut links = BTreeMap::new();
    dump(NETLINK_ROUTE, RTM_GETLINK, &[0; IFINFOMSG], |answer| {
        links.extend(answer.get(4..).and_then(number).map(|link| (link, ipv6_conf(answer))));
    })?;
    Ok(links)
}

fn ipv6_conf(answer: &[u8]) -> Ipv6Conf {
    let inner = |bytes, wanted: u16| {
        attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, content)| content)
    };
    let link = answer.get(IFINFOMSG..);
    let values = link
        .and_then(|all| inner(all, IFLA_AF_SPEC))
        .and_then(|families| inner(families, libc::AF_INET6 as u16))
        .and_then(|ipv6| inner(ipv6, IFLA_INET6_CONF));
    let value = |index: usize| values.and_then(|it| it.get(index * 4..)).and_then(number);
    let of_link = link.and_then(|all| inner(all, IFLA_MTU)).and_then(number);
    let is_lower = |mtu: &u32| of_link.is_some_and(|of_link| *mtu < of_link);
    Ipv6Conf {
        is_disabled: value(DISABLE_IPV6).is_some_and(|value| value != 0),
        mtu: value(MTU6).filter(is_lower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_link_and_of_all_are_combined_as_by_the_kernel() {
        let of = |ipv6, forwarding| Netconf { ipv6, forwarding, ..Netconf::default() };
        let off = |one: &Netconf, all: &Netconf| in_force(one, all).off_because.is_some();
        assert!(!off(&of(false, true), &of(false, false)), "IPv4: of the link alone");
        assert!(off(&of(false, false), &of(false, true)));
        assert!(off(&of(true, true), &of(true, false)), "IPv6: of all links");
        assert!(!off(&of(true, false), &of(true, true)));
        let forced = Netconf { force_forwarding: true, ..of(true, false) };
        assert!(!off(&forced, &of(true, false)));
        let filter = |reverse_path| Netconf { reverse_path, ..of(false, true) };
        for (own, all, in_force_) in [(0, 2, 2), (1, 0, 1), (2, 1, 2)] {
            assert_eq!(in_force(&filter(own), &filter(all)).reverse_path, in_force_);
        }
        let strange = Netconf { not_understood: vec![(77, 1)], ..of(true, true) };
        assert_eq!(in_force(&of(true, true), &strange).not_understood, [(77, 1)]);
    }
}
