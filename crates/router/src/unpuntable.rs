//! Packets that no worker can give to the kernel, since there is no TUN device: the XDP programs leave
//! them to the kernel before a worker sees them, by prefix.
//!
//! Guarded ports are left out: the kernel would forward their packets unchecked.

use super::programs::Programs;
use super::takeover::Lookout;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use wattline_rib::Rib;
use wattline_xdp::LEFT_PREFIXES_MAX;

/// Prefixes are collected no more often, as all of a large table have to be looked at.
const COLLECT_EVERY: Duration = Duration::from_secs(1);

/// The prefixes of a router without a TUN device.
#[derive(Debug, Default)]
pub(super) struct Unpuntable {
    changed: bool,
    next: Option<Instant>,
}

impl Unpuntable {
    /// Routes have changed.
    pub fn routes_changed(&mut self) {
        self.changed = true;
    }

    /// Time of the next collection, if one is needed.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.changed.then_some(self.next.unwrap_or(now))
    }

    /// Has the programs leave the prefixes to the kernel, if routes have changed and it is time.
    pub fn leave(&mut self, programs: &mut Programs, rib: &Rib, lookout: Option<&Lookout>) {
        if let Some(prefixes) = self.collect(rib, Instant::now()) {
            programs.unpuntable = prefixes;
            programs.leave_prefixes(|port| lookout?.left_prefixes(port));
        }
    }

    /// Collects the prefixes, if routes have changed and it is time.
    fn collect(&mut self, rib: &Rib, now: Instant) -> Option<BTreeSet<IpNet>> {
        if !self.changed || self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.changed = false;
        self.next = Some(now + COLLECT_EVERY);
        let everything =
            || BTreeSet::from([IpNet::V4(Ipv4Net::default()), Ipv6Net::default().into()]);
        Some(rib.prefixes_to_kernel(LEFT_PREFIXES_MAX as usize).unwrap_or_else(everything))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_collected_once_a_second_after_changes() {
        let (mut unpuntable, rib, now) =
            (Unpuntable::default(), Rib::new(Vec::new()), Instant::now());
        assert_eq!((unpuntable.deadline(now), unpuntable.collect(&rib, now)), (None, None));
        unpuntable.routes_changed();
        assert!(unpuntable.collect(&rib, now).is_some());
        unpuntable.routes_changed();
        assert_eq!(unpuntable.collect(&rib, now), None);
        assert_eq!(unpuntable.deadline(now), Some(now + COLLECT_EVERY));
        assert!(unpuntable.collect(&rib, now + COLLECT_EVERY).is_some());
    }
}
