//! Settings of network cards: interrupt moderation, the indirection table of receive-side scaling,
//! channels and rings, as in the program `ethtool`.
//!
//! | setting | interface |
//! |---|---|
//! | moderation of a card, channels, rings | netlink, which changes only the given parameter |
//! | moderation of one queue | ioctl: netlink has no message for it |
//! | indirection table | ioctl: netlink can write it since Linux 6.17 only |
//! | stripping of tags | ioctl: one flag, which netlink lists among all features of a card |
//! | statistics of drivers | ioctl ([`crate::card_statistics`]): netlink has standard ones only |
//!
//! An ioctl reads and writes all parameters, so changes that another program makes in between are
//! lost.

mod by_netlink;
mod ioctl;
mod model;

pub(crate) use ioctl::request;
pub use model::{Channels, Coalesce, CoalesceValues, IndirectionTable, Rings};

use by_netlink::Ethtool;
use std::io;

/// Returns the interrupt moderation of an interface.
///
/// # Errors
/// EOPNOTSUPP if the driver has none, ENODEV if there is no such interface.
pub fn coalesce(interface: &str) -> io::Result<CoalesceValues> {
    Ethtool::open()?.coalesce(interface)
}

/// Sets one parameter and keeps the others.
///
/// # Errors
/// Also EPERM without CAP_NET_ADMIN, EINVAL or EOPNOTSUPP if the driver refuses.
pub fn set_coalesce(interface: &str, parameter: Coalesce, value: u32) -> io::Result<()> {
    Ethtool::open()?.set_coalesce(interface, parameter, value)
}

/// Returns the interrupt moderation of one queue of an interface.
///
/// # Errors
/// EOPNOTSUPP if the driver has none, or none for single queues.
pub fn queue_coalesce(interface: &str, queue: u32) -> io::Result<CoalesceValues> {
    ioctl::queue_coalesce(interface, queue)
}

/// Sets one parameter of one queue and keeps the others.
///
/// # Errors
/// As [`queue_coalesce`], and as [`set_coalesce`].
pub fn set_queue_coalesce(
    interface: &str,
    queue: u32,
    parameter: Coalesce,
    value: u32,
) -> io::Result<()> {
    ioctl::set_queue_coalesce(interface, queue, parameter, value)
}

/// Returns the indirection table of an interface.
///
/// # Errors
/// EOPNOTSUPP if the card has none.
pub fn indirection_table(interface: &str) -> io::Result<IndirectionTable> {
    ioctl::indirection_table(interface)
}

/// Replaces the indirection table; hash function and key are kept.
///
/// # Errors
/// EINVAL if its length is not the card's or a queue does not exist.
pub fn set_indirection_table(interface: &str, table: &IndirectionTable) -> io::Result<()> {
    ioctl::set_indirection_table(interface, table)
}

/// Returns the numbers of queues of an interface.
///
/// # Errors
/// EOPNOTSUPP if the driver does not report them.
pub fn channels(interface: &str) -> io::Result<Channels> {
    Ethtool::open()?.channels(interface)
}

/// Sets the number of combined queues.
///
/// # Errors
/// EINVAL if there are not so many, EBUSY or EINVAL while the indirection table uses more.
pub fn set_combined_channels(interface: &str, combined: u32) -> io::Result<()> {
    Ethtool::open()?.set_combined_channels(interface, combined)
}

/// Returns the name of an interface's driver; also for devices of the kernel itself.
///
/// # Errors
/// EOPNOTSUPP if it has none, ENODEV if there is no such interface.
pub fn driver(interface: &str) -> io::Result<String> {
    ioctl::driver(interface)
}

/// Returns the ring sizes of an interface.
///
/// # Errors
/// EOPNOTSUPP if the driver does not report them.
pub fn rings(interface: &str) -> io::Result<Rings> {
    Ethtool::open()?.rings(interface)
}

/// Returns true if an interface strips 802.1Q tags from received frames (`rxvlan`): XDP programs
/// and sockets then see frames that look untagged.
///
/// # Errors
/// When there is no such interface.
pub fn strips_vlan_tags(interface: &str) -> io::Result<bool> {
    ioctl::strips_vlan_tags(interface)
}

/// Returns true if the kernel merges packets that an interface receives (`gro`). It does not merge
/// at an interface with an XDP program of its own.
///
/// # Errors
/// When there is no such interface.
pub fn merges_packets(interface: &str) -> io::Result<bool> {
    ioctl::merges_packets(interface)
}

/// Returns the number of rules that steer flows to queues (`ethtool -n`). Additional RSS contexts
/// get packets by such rules only.
///
/// # Errors
/// EOPNOTSUPP if the driver has none.
pub fn flow_rules(interface: &str) -> io::Result<u32> {
    ioctl::flow_rules(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named_by_the_error() {
        for name in ["", "no-such-if", "a-name-that-is-far-too-long"] {
            assert_eq!(coalesce(name).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }

    #[test]
    fn the_loopback_has_nothing_to_set() {
        assert_eq!(coalesce("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(indirection_table("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(queue_coalesce("lo", 0).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(flow_rules("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        let none = queue_coalesce("lo", 4096).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn vlan_stripping_and_packet_merging_are_read() {
        let lines = ["link add v0 type veth peer name v1"];
        let made = crate::namespace::Namespace::for_test(&lines).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        let read = namespace.enter(|| {
            for (setting, is_on) in [("off", false), ("on", true)] {
                let ethtool = ["-K", "v0", "rxvlan", setting, "gro", setting];
                match std::process::Command::new("ethtool").args(ethtool).status() {
                    Ok(status) if status.success() => {}
                    other => return wattline_needs::tool(format_args!("ethtool: {other:?}")),
                }
                assert_eq!(strips_vlan_tags("v0").unwrap(), is_on);
                assert_eq!(merges_packets("v0").unwrap(), is_on);
            }
            assert!(strips_vlan_tags("no-such-if").is_err());
            assert!(merges_packets("no-such-if").is_err());
        });
        read.unwrap();
    }
}
