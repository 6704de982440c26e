//! Interfaces that belong to a bridge, a VRF or the like (`ip link`), aggregates such as bonds, and
//! interfaces on top of others.

use super::super::frame::attributes;
use super::super::model::Aggregation;
use super::super::value::{number, text};
use super::dump::dump;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::collections::BTreeMap;
use std::io;

const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg`.
const HEADER: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;

/// An interface that belongs to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// Index of the interface.
    pub link: u32,
    /// Kind of master.
    pub kind: MasterKind,
    /// Name of the master.
    pub name: String,
}

/// Kind of device that an interface can belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterKind {
    /// Its frames are bridged, except those to this address, which are for this machine.
    Bridge([u8; 6]),
    /// Packets are routed by another table.
    Vrf,
    /// Something else, such as a bond, by its kind.
    Other(String),
}

/// An interface that stands for several others, to which it distributes packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// Index of the interface.
    pub link: u32,
    /// Kind of aggregation.
    pub kind: Aggregation,
    /// Names of its members.
    pub members: Vec<String>,
}

/// An interface that takes some frames of another: those for its own station or VLAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stacked {
    /// Index of the interface.
    pub link: u32,
    /// Index of the interface below.
    pub lower: u32,
    /// Kind, as in `ip -d link`.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// Kinds of such interfaces. Tunnels are not among them: their packets are for this machine.
const STACKED: [&str; 6] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"];

/// An interface with a property that Wattline does not honour or know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strange {
    /// Index of the interface.
    pub link: u32,
    /// The property, for the user; `%` stands for the name of the link.
    pub text: String,
}

/// The last attribute of links with a known meaning (IFLA_TAILROOM).
const IFLA_LAST: u16 = 69;

/// Contents of a dump of links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub masters: Vec<Master>,
    pub aggregates: Vec<Aggregate>,
    pub stacked: Vec<Stacked>,
    pub strange: Vec<Strange>,
    /// All interfaces.
    pub links: Vec<u32>,
}

/// Reads all links.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Found> {
    let mut links = Links::default();
    dump(NETLINK_ROUTE, RTM_GETLINK, &[0; HEADER], |answer| links.note(answer))?;
    Ok(links.found())
}

/// Links as the dump names them.
#[derive(Default)]
struct Links {
    /// Names and kinds.
    names: BTreeMap<u32, (String, String)>,
    addresses: BTreeMap<u32, [u8; 6]>,
    /// Links and their masters.
    owned: Vec<(u32, u32)>,
    /// Links and the links below them, in this namespace.
    lower: Vec<(u32, u32)>,
    strange: Vec<Strange>,
}

impl Links {
    /// Adds the body of one message.
    fn note(&mut self, answer: &[u8]) {
        let Self { names, addresses, owned, lower, strange } = self;
        let Some(index) = answer.get(4..).and_then(number) else { return };
        let mut has = |text: String| strange.push(Strange { link: index, text });
        let flags = answer.get(8..).and_then(number).unwrap_or(0).cast_signed();
        if flags & libc::IFF_NOARP != 0 && flags & libc::IFF_LOOPBACK == 0 {
            has("% resolves no neighbours (`ip link set % arp on` changes that)".to_owned());
        }
        let (mut name, mut kind) = (String::new(), String::new());
        let (mut below, mut is_elsewhere) = (None, false);
        for (attribute, content) in attributes(answer.get(HEADER..).unwrap_or_default()) {
            match attribute {
                IFLA_ADDRESS => addresses.extend(content.try_into().map(|it| (index, it))),
                IFLA_IFNAME => name = text(content),
                IFLA_LINK => below = number(content),
                IFLA_LINK_NETNSID => is_elsewhere = true,
                IFLA_MASTER => owned.extend(number(content).map(|master| (index, master))),
                IFLA_LINKINFO => {
                    let found = attributes(content).find(|(it, _)| *it == IFLA_INFO_KIND);
                    kind = found.map(|(_, content)| text(content)).unwrap_or_default();
                }
                unknown if unknown > IFLA_LAST && content.iter().any(|byte| *byte != 0) => {
                    has(format!("% has the attribute {unknown}, which Wattline does not know"));
                }
                _ => {}
            }
        }
        if kind == "netkit" {
            has("% is a netkit, whose programs and policy decide about packets".to_owned());
        }
        if STACKED.contains(&kind.as_str()) && !is_elsewhere {
            lower.extend(below.map(|below| (index, below)));
        }
        names.insert(index, (name, kind));
    }

    fn found(self) -> Found {
        let Self { names, addresses, owned, lower, strange } = self;
        let master = |(link, master): (u32, u32)| {
            let (name, kind) = names.get(&master).cloned().unwrap_or_default();
            let kind = match kind.as_str() {
                "bridge" => MasterKind::Bridge(addresses.get(&master).copied().unwrap_or_default()),
                "vrf" => MasterKind::Vrf,
                _ => MasterKind::Other(kind),
            };
            Master { link, kind, name }
        };
        let name = |link: &u32| Some(names.get(link)?.0.clone());
        let aggregate = |(link, (_, kind)): (&u32, &(String, String))| {
            let members = owned.iter().filter(|(_, master)| master == link);
            Some(Aggregate {
                link: *link,
                kind: Aggregation::from_kind(kind)?,
                members: members.filter_map(|(member, _)| name(member)).collect(),
            })
        };
        let aggregates = names.iter().filter_map(aggregate).collect();
        let stacked = lower.iter().filter_map(|(link, lower)| {
            let (name, kind) = names.get(link).cloned()?;
            Some(Stacked { link: *link, lower: *lower, kind, name })
        });
        let stacked = stacked.collect();
        let links = names.keys().copied().collect();
        let masters = owned.into_iter().map(master).collect();
        Found { masters, aggregates, stacked, strange, links }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::{Request, frames};
    use super::*;

    /// Makes the message of a link, as in rtnetlink(7): `struct ifinfomsg`, then attributes.
    fn message(index: u32, name: &str, master: Option<u32>, kind: Option<&str>) -> Vec<u8> {
        let mut header = [0; HEADER];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut message = Request::new(RTM_GETLINK - 2, 0);
        message.put(&header);
        message.attribute(IFLA_IFNAME, &[name.as_bytes(), b"\0"].concat());
        if let Some(master) = master {
            message.attribute(IFLA_MASTER, &master.to_ne_bytes());
        }
        if let Some(kind) = kind {
            message.nest(IFLA_LINKINFO, |info| {
                info.attribute(IFLA_INFO_KIND, &[kind.as_bytes(), b"\0"].concat());
            });
        }
        message.finish(1)
    }

    #[test]
    fn bond_is_distinguished_from_its_members_and_from_others() {
        let mut links = Links::default();
        for message in [
            message(2, "eth0", Some(5), None),
            message(3, "eth1", Some(5), None),
            message(4, "eth2", None, Some("veth")),
            message(5, "bond0", None, Some("bond")),
            message(6, "team0", None, Some("team")),
            message(7, "br0", None, Some("bridge")),
        ] {
            frames(&message).for_each(|frame| links.note(frame.payload));
        }
        links.note(&[0; 3]);
        let Found { masters, aggregates, stacked, .. } = links.found();
        assert_eq!(stacked, []);
        let of_bond = |link| {
            let (kind, name) = (MasterKind::Other("bond".to_owned()), "bond0".to_owned());
            Master { link, kind, name }
        };
        assert_eq!(masters, [of_bond(2), of_bond(3)]);
        let members = vec!["eth0".to_owned(), "eth1".to_owned()];
        let bond = Aggregate { link: 5, kind: Aggregation::Bond, members };
        let team = Aggregate { link: 6, kind: Aggregation::Team, members: Vec::new() };
        assert_eq!(aggregates, [bond, team]);
    }

    #[test]
    fn property_without_a_known_meaning_is_named() {
        let of = |flags: i32, attribute: Option<(u16, &[u8])>, kind: &str| {
            let mut header = [0; HEADER];
            header[4..8].copy_from_slice(&2_u32.to_ne_bytes());
            header[8..12].copy_from_slice(&flags.to_ne_bytes());
            let mut message = Request::new(RTM_GETLINK - 2, 0);
            message.put(&header);
            message.nest(IFLA_LINKINFO, |info| info.attribute(IFLA_INFO_KIND, kind.as_bytes()));
            attribute.into_iter().for_each(|(kind, value)| message.attribute(kind, value));
            let mut links = Links::default();
            frames(&message.finish(1)).for_each(|frame| links.note(frame.payload));
            links.found().strange.into_iter().map(|it| it.text).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(of(0, Some((IFLA_LAST, &[1])), "veth"), "");
        assert_eq!(of(libc::IFF_NOARP | libc::IFF_LOOPBACK, Some((80, &[0; 4])), ""), "");
        for unknown in [70, 71, 80, 200] {
            let text = of(0, Some((unknown, &[0, 1])), "veth");
            assert!(text.contains(&format!("attribute {unknown}")), "{text}");
        }
        assert!(of(libc::IFF_NOARP, None, "veth").contains("arp on"));
        assert!(of(0, None, "netkit").contains("netkit"));
    }

    #[test]
    fn interface_on_top_of_another_is_found_and_a_veth_is_not() {
        let mut links = Links::default();
        for (index, name, kind) in [(2, "eth0", "veth"), (3, "vrrp7", "macvlan")] {
            let mut header = [0; HEADER];
            header[4..8].copy_from_slice(&u32::to_ne_bytes(index));
            let mut message = Request::new(RTM_GETLINK - 2, 0);
            message.put(&header);
            message.attribute(IFLA_IFNAME, &[name.as_bytes(), b"\0"].concat());
            message.attribute(IFLA_LINK, &2_u32.to_ne_bytes());
            message.nest(IFLA_LINKINFO, |info| {
                info.attribute(IFLA_INFO_KIND, &[kind.as_bytes(), b"\0"].concat());
            });
            frames(&message.finish(1)).for_each(|frame| links.note(frame.payload));
        }
        let (kind, name) = ("macvlan".to_owned(), "vrrp7".to_owned());
        assert_eq!(links.found().stacked, [Stacked { link: 3, lower: 2, kind, name }]);
    }
}
