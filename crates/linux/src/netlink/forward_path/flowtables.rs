//! Flowtables of nftables (include/uapi/linux/netfilter/nf_tables.h): their flows bypass all chains
//! except those of interfaces.

use super::super::frame::attributes;
use super::super::value::{number_of_wire, text};
use super::dump::dump;
use netlink_sys::protocols::NETLINK_NETFILTER;
use std::io;

/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETFLOWTABLE.
const GET_FLOWTABLE: u16 = 10 << 8 | 23;
/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;
/// NFTA_DEVICE_NAME: one interface, not all with the same prefix of the name.
const DEVICE_NAME: u16 = 1;

/// A flowtable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flowtable {
    /// Family of its table, as in nft(8).
    pub family: &'static str,
    /// Name of its table.
    pub table: String,
    /// Name.
    pub name: String,
    /// Interfaces to which it applies.
    pub devices: Vec<String>,
    /// True if it hands flows to hardware (`flags offload`).
    pub offloads: bool,
    /// True if it counts packets of flows (`counter`).
    pub counts: bool,
    /// True if all flags are known.
    pub is_understood: bool,
}

/// Reads all flowtables.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Vec<Flowtable>> {
    let mut tables = Vec::new();
    dump(NETLINK_NETFILTER, GET_FLOWTABLE, &[0; HEADER], |answer| tables.extend(read_one(answer)))?;
    Ok(tables)
}

fn read_one(body: &[u8]) -> Option<Flowtable> {
    let family = match *body.first()? {
        1 => "inet",
        2 => "ip",
        10 => "ip6",
        _ => return None,
    };
    let (mut table, mut name, mut devices, mut flags) = (String::new(), String::new(), vec![], 0);
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            1 => table = text(content),
            2 => name = text(content),
            3 => {
                let lists = attributes(content).filter(|(kind, _)| *kind == 3);
                let all = lists.flat_map(|(_, devices)| attributes(devices));
                let named = all.filter(|(kind, _)| *kind == DEVICE_NAME);
                devices.extend(named.map(|(_, name)| text(name)));
            }
            7 => flags = number_of_wire(content)?,
            _ => {}
        }
    }
    let (offloads, counts) = (flags & 1 != 0, flags & 2 != 0);
    Some(Flowtable { family, table, name, devices, offloads, counts, is_understood: flags < 4 })
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flags_and_devices_of_flowtable_are_read() {
        let devices = [attribute(1, b"eth0\0"), attribute(2, b"wan\0"), attribute(1, b"eth1\0")];
        let hook = [attribute(1, &[0; 4]), attribute(3, &devices.concat())].concat();
        let parts = [attribute(1, b"t\0"), attribute(2, b"f\0"), attribute(3, &hook)].concat();
        let of = |flags| {
            read_one(&[&[2, 0, 0, 0][..], &parts, &attribute(7, &[0, 0, 0, flags])].concat())
                .unwrap()
        };
        let found = of(2);
        assert_eq!((found.family, &found.table[..], &found.name[..]), ("ip", "t", "f"));
        assert_eq!(found.devices, ["eth0", "eth1"]);
        let flags = |it: Flowtable| (it.offloads, it.counts, it.is_understood);
        assert_eq!(flags(found), (false, true, true));
        assert_eq!(flags(of(0)), (false, false, true));
        assert_eq!(flags(of(1)), (true, false, true));
        assert_eq!(flags(of(4)), (false, false, false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read_one(&bytes);
            let _ = read_one(&[&[2, 0, 0, 0][..], &bytes].concat());
        }
    }
}
