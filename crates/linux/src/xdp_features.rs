//! What an interface can do with XDP, as the kernel tells it.

use crate::netlink::frame::{error, number};
use crate::netlink::generic::Family;
use std::io;

/// Documentation/netlink/specs/netdev.yaml. Linux 6.3 or newer.
const FAMILY: &str = "netdev";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// `NETDEV_XDP_ACT_NDO_XMIT`
const TRANSMIT: u64 = 1 << 2;

/// Asks what interfaces can do with XDP.
pub struct XdpFeatures(Family);

impl XdpFeatures {
    /// Opens the way to ask.
    ///
    /// # Errors
    /// EOPNOTSUPP before Linux 6.3.
    pub fn open() -> io::Result<Self> {
        Family::open(FAMILY).map(Self)
    }

    /// Whether an interface of the network namespace in which this was opened sends frames that
    /// an XDP program on another one redirects to it. A card needs queues for that, which most
    /// drivers make as long as it has an XDP program itself; a veth needs a peer that runs NAPI (an
    /// XDP program or GRO).
    ///
    /// # Errors
    /// ENODEV where there is no such interface.
    pub fn transmits(&mut self, ifindex: u32) -> io::Result<bool> {
        let answer =
            self.0.ask_by_numbers(NETDEV_CMD_DEV_GET, &[(NETDEV_A_DEV_IFINDEX, ifindex)])?;
        let features = number(&answer, NETDEV_A_DEV_XDP_FEATURES);
        Ok(features.ok_or_else(|| error(libc::EPROTO))? & TRANSMIT != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Namespace, interface_index};

    #[test]
    fn a_veth_transmits_while_its_peer_runs_napi() {
        let name = format!("wl-features-{}", std::process::id());
        let namespace = match Namespace::create(&name) {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
        namespace.ip("link add x0 up type veth peer name x1").unwrap();
        namespace.ip("link set x1 up").unwrap();
        let gro = |state| namespace.run("ethtool", &["-K", "x1", "gro", state]).unwrap();
        gro("off");
        namespace
            .enter(|| {
                let mut features = XdpFeatures::open().unwrap();
                let index = interface_index("x0").unwrap();
                assert!(!features.transmits(index).unwrap());
                gro("on");
                assert!(features.transmits(index).unwrap());
                assert!(features.transmits(u32::MAX >> 1).is_err());
            })
            .unwrap();
    }
}
