//! XDP abilities of an interface, as the kernel reports them.

use crate::netlink::frame::{error, number};
use crate::netlink::generic::Family;
use std::io;

/// Documentation/netlink/specs/netdev.yaml. Linux 6.3 or newer.
const FAMILY: &str = "netdev";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
/// `NETDEV_XDP_ACT_NDO_XMIT`
const TRANSMIT: u64 = 1 << 2;
/// `NETDEV_XDP_ACT_NDO_XMIT_SG`
const TRANSMIT_FRAGMENTS: u64 = 1 << 6;
/// `NETDEV_XDP_ACT_XSK_ZEROCOPY`
const ZERO_COPY: u64 = 1 << 3;

/// Frames redirected by XDP programs that an interface sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transmits {
    /// None.
    Nothing,
    /// Frames in one piece of memory.
    Whole,
    /// Frames in several pieces as well (jumbo frames).
    InFragments,
}

/// Query of the XDP abilities of interfaces.
pub struct XdpFeatures(Family);

impl XdpFeatures {
    /// Opens a socket.
    ///
    /// # Errors
    /// EOPNOTSUPP before Linux 6.3.
    pub fn open() -> io::Result<Self> {
        Family::open(FAMILY).map(Self)
    }

    /// Returns the kinds of frames that are sent when an XDP program redirects them to an
    /// interface. The interface belongs to the network namespace in which this was opened. A card
    /// needs queues for it, which most drivers make while it has an XDP program itself; a veth
    /// needs a peer that runs NAPI (an XDP program or GRO).
    ///
    /// # Errors
    /// ENODEV if there is no such interface.
    pub fn transmits(&mut self, ifindex: u32) -> io::Result<Transmits> {
        let answer =
            self.0.ask_by_numbers(NETDEV_CMD_DEV_GET, &[(NETDEV_A_DEV_IFINDEX, ifindex)])?;
        let features = number(&answer, NETDEV_A_DEV_XDP_FEATURES);
        let features = features.ok_or_else(|| error(libc::EPROTO))?;
        Ok(match (features & TRANSMIT != 0, features & TRANSMIT_FRAGMENTS != 0) {
            (false, _) => Transmits::Nothing,
            (true, false) => Transmits::Whole,
            (true, true) => Transmits::InFragments,
        })
    }

    /// Returns true if the driver of an interface supports zero copy, but only for frames in one
    /// piece of memory.
    ///
    /// # Errors
    /// ENODEV if there is no such interface.
    pub fn zero_copy_in_one_piece(&mut self, ifindex: u32) -> io::Result<bool> {
        let answer =
            self.0.ask_by_numbers(NETDEV_CMD_DEV_GET, &[(NETDEV_A_DEV_IFINDEX, ifindex)])?;
        let features = number(&answer, NETDEV_A_DEV_XDP_FEATURES).unwrap_or_default();
        let pieces = number(&answer, NETDEV_A_DEV_XDP_ZC_MAX_SEGS).unwrap_or(1);
        Ok(features & ZERO_COPY != 0 && pieces <= 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Namespace, interface_index};

    #[test]
    fn a_veth_transmits_while_its_peer_runs_napi() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        namespace.ip("link add x0 up type veth peer name x1").unwrap();
        namespace.ip("link set x1 up").unwrap();
        let gro = |state| namespace.run("ethtool", &["-K", "x1", "gro", state]).unwrap();
        gro("off");
        namespace
            .enter(|| {
                let mut features = XdpFeatures::open().unwrap();
                let index = interface_index("x0").unwrap();
                assert_eq!(features.transmits(index).unwrap(), Transmits::Nothing);
                gro("on");
                assert_eq!(features.transmits(index).unwrap(), Transmits::InFragments);
                assert!(features.transmits(u32::MAX >> 1).is_err());
                assert!(!features.zero_copy_in_one_piece(index).unwrap(), "it copies");
            })
            .unwrap();
    }
}
