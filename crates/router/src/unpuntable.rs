//! Packets that no worker can give to the kernel, since there is no TUN device: the XDP programs leave
//! them to the kernel before a worker sees them, by prefix.
//!
//! Guarded ports are left out: the kernel would forward their packets unchecked.

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

    /// Collects the prefixes, if routes have changed and it is time.
    pub fn collect(&mut self, rib: &Rib, now: Instant) -> Option<BTreeSet<IpNet>> {
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

/// Joins two sets of prefixes that are left to the kernel. Where a program has no room for all of a
/// family, the whole family is left.
pub(super) fn join(left: &BTreeSet<IpNet>, more: &BTreeSet<IpNet>) -> BTreeSet<IpNet> {
    let mut joined: BTreeSet<IpNet> = left.union(more).copied().collect();
    for whole in [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())] {
        let is_of_family = |it: &IpNet| it.addr().is_ipv4() == whole.addr().is_ipv4();
        if joined.iter().filter(|it| is_of_family(it)).count() > LEFT_PREFIXES_MAX as usize {
            joined.retain(|it| !is_of_family(it));
            joined.insert(whole);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_without_room_is_left_as_a_whole() {
        let net = |number: u32| IpNet::from(std::net::IpAddr::from(number.to_be_bytes()));
        let most = LEFT_PREFIXES_MAX;
        let (few, many) = ((0..most).map(net).collect(), (1..=most).map(net).collect());
        let other = BTreeSet::from(["2001:db8::/32".parse().unwrap()]);
        assert_eq!(join(&few, &other).len(), most as usize + 1);
        let joined = join(&join(&few, &many), &other);
        assert_eq!(
            joined,
            BTreeSet::from([Ipv4Net::default().into(), "2001:db8::/32".parse().unwrap()])
        );
    }

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
