//! Meaning of a poll's `work` (`napi:napi_poll`), by driver.

/// Meaning of a poll that returns its whole budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullPoll {
    /// The poll took that many packets.
    Packets,
    /// Some part of the poll is unfinished: it took that many packets, or sent frames are still to
    /// be cleaned.
    Unfinished,
}

/// Meaning of `work` for one driver. A shorter poll always took `work` packets.
#[derive(Debug, PartialEq, Eq)]
pub struct Work {
    /// Name of the driver, as `ethtool -i` prints it.
    pub driver: &'static str,
    /// Meaning of a full poll.
    pub full: FullPoll,
    /// True if the same instance also cleans sent frames. Polls that only do so return 0.
    pub cleans: bool,
    /// Function of the Linux source that was examined.
    pub source: &'static str,
}

/// Drivers that were examined.
pub const DRIVERS: [Work; 10] = [
    Work::new("e1000e", FullPoll::Unfinished, true, "intel/e1000e/netdev.c, e1000e_poll"),
    Work::new("i40e", FullPoll::Unfinished, true, "intel/i40e/i40e_txrx.c, i40e_napi_poll"),
    Work::new("ice", FullPoll::Unfinished, true, "intel/ice/ice_txrx.c, ice_napi_poll"),
    Work::new("igb", FullPoll::Unfinished, true, "intel/igb/igb_main.c, igb_poll"),
    Work::new("igc", FullPoll::Unfinished, true, "intel/igc/igc_main.c, igc_poll"),
    Work::new("ixgbe", FullPoll::Unfinished, true, "intel/ixgbe/ixgbe_main.c, ixgbe_poll"),
    Work::new(
        "mlx5_core",
        FullPoll::Unfinished,
        true,
        "mellanox/mlx5/core/en_txrx.c, mlx5e_napi_poll",
    ),
    Work::new("r8169", FullPoll::Packets, true, "realtek/r8169_main.c, rtl8169_poll"),
    Work::new("veth", FullPoll::Packets, false, "veth.c, veth_poll"),
    Work::new("virtio_net", FullPoll::Packets, true, "virtio_net.c, virtnet_poll"),
];

impl Work {
    const fn new(driver: &'static str, full: FullPoll, cleans: bool, source: &'static str) -> Self {
        Self { driver, full, cleans, source }
    }
}

/// Returns the meaning of `work` for a driver; `None` if the driver was not examined.
pub fn meaning(driver: &str) -> Option<&'static Work> {
    DRIVERS.iter().find(|work| work.driver == driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_found_by_name() {
        assert!(DRIVERS.windows(2).all(|two| two[0].driver < two[1].driver));
        assert_eq!(meaning("igb").unwrap().full, FullPoll::Unfinished);
        assert_eq!(meaning("veth").unwrap().full, FullPoll::Packets);
        assert_eq!(meaning("no-such-driver"), None);
    }
}
