//! State of the comparison with the kernel's decisions.

use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most recorded changes of prefixes; older ones are forgotten.
const MOST_RECENT: usize = 256;

/// State that the tables keep for the comparison.
#[derive(Debug, Default)]
pub(super) struct Audited {
    /// Prefixes left to the kernel.
    pub left: BTreeSet<IpNet>,
    /// Changes of prefixes that contain watched addresses.
    pub touched: BTreeMap<IpAddr, u64>,
    /// Prefixes that have changed lately.
    pub recent: Vec<IpNet>,
}

impl Audited {
    /// Records that a prefix is processed again.
    pub fn note(&mut self, prefix: IpNet) {
        for (address, count) in &mut self.touched {
            *count += u64::from(prefix.contains(address));
        }
        if self.recent.len() < MOST_RECENT {
            self.recent.push(prefix);
        }
    }
}
