//! Interfaces that belong to a bridge, a VRF or the like (`ip link`).

use super::super::frame::attributes;
use super::super::value::{number, text};
use super::dump::dump;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::collections::HashMap;
use std::io;

const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg`.
const HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// An interface that belongs to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// The interface's number.
    pub link: u32,
    /// What it belongs to.
    pub kind: MasterKind,
    /// The name of that.
    pub name: String,
}

/// What an interface can belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterKind {
    /// Its frames are bridged.
    Bridge,
    /// Another routing table decides.
    Vrf,
    /// Something else, such as a bond, by its kind.
    Other(String),
}

/// All of them.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Vec<Master>> {
    let mut names: HashMap<u32, (String, String)> = HashMap::new();
    let mut owned = Vec::new();
    dump(NETLINK_ROUTE, RTM_GETLINK, &[0; HEADER], |answer| {
        let Some(index) = answer.get(4..).and_then(number) else { return };
        let (mut name, mut kind) = (String::new(), String::new());
        for (attribute, content) in attributes(answer.get(HEADER..).unwrap_or_default()) {
            match attribute {
                IFLA_IFNAME => name = text(content),
                IFLA_MASTER => owned.extend(number(content).map(|master| (index, master))),
                IFLA_LINKINFO => {
                    let found = attributes(content).find(|(it, _)| *it == IFLA_INFO_KIND);
                    kind = found.map(|(_, content)| text(content)).unwrap_or_default();
                }
                _ => {}
            }
        }
        names.insert(index, (name, kind));
    })?;
    let master = |(link, master): (u32, u32)| {
        let (name, kind) = names.get(&master).cloned().unwrap_or_default();
        let kind = match kind.as_str() {
            "bridge" => MasterKind::Bridge,
            "vrf" => MasterKind::Vrf,
            _ => MasterKind::Other(kind),
        };
        Master { link, kind, name }
    };
    Ok(owned.into_iter().map(master).collect())
}
