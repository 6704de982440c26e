//! Next hops by what they are, and their ids in the workers' tables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::routes::{RouteError, Routes};
use wattline_fib::NextHopId;

/// The largest packet that a route lets pass; `None`: whatever its link does.
pub(super) type RouteMtu = Option<u16>;

/// What a route leads to, independent of what is known of neighbours and links now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HopKey {
    /// A neighbour.
    Gateway { link: u32, address: IpAddr, mtu: RouteMtu },
    /// The destination itself is a neighbour.
    OnLink { link: u32, mtu: RouteMtu },
    /// To the kernel.
    Punt,
    /// Discard silently.
    Blackhole,
    /// Discard, host unreachable.
    Unreachable,
    /// Discard, administratively prohibited.
    Prohibit,
    /// One of several by flow, with their weights, which have no common divisor.
    Group(Arc<[(HopKey, u16)]>),
}

/// Most places in a group, so that one takes no more than eight cache lines; where weights add up
/// to more, shares are as near to them as so many places allow.
const GROUP_PLACES: usize = 256;

impl HopKey {
    /// Several ways with their weights, the same however large the weights were written.
    pub fn group(mut ways: Vec<(Self, u16)>) -> Self {
        let divisor = ways.iter().fold(0, |divisor, (_, weight)| gcd(divisor, *weight)).max(1);
        ways.iter_mut().for_each(|(_, weight)| *weight /= divisor);
        Self::Group(ways.into())
    }

    fn mtu(&self) -> Option<RouteMtu> {
        match self {
            Self::Gateway { mtu, .. } | Self::OnLink { mtu, .. } => Some(*mtu),
            _ => None,
        }
    }

    /// Whether what it means depends on one of the links.
    pub fn is_over(&self, links: &[u32]) -> bool {
        match self {
            Self::Gateway { link, .. } | Self::OnLink { link, .. } => links.contains(link),
            // A group's members change, not the group.
            _ => false,
        }
    }
}

struct Held {
    id: NextHopId,
    references: u32,
}

/// The ids of all next hops that something leads to.
#[derive(Default)]
pub(super) struct Hops {
    held: HashMap<HopKey, Held>,
    /// How many of them have which MTU: few do, so that those of a neighbour are found.
    mtus: HashMap<RouteMtu, u32>,
}

impl Hops {
    /// The links of next hops that are one of several, 0 for what leads over none.
    pub fn links_of_groups(&self) -> impl Iterator<Item = u32> {
        let members = self.held.keys().flat_map(|key| match key {
            HopKey::Group(members) => &members[..],
            _ => &[],
        });
        members.map(|(member, _)| match member {
            HopKey::Gateway { link, .. } | HopKey::OnLink { link, .. } => *link,
            _ => 0,
        })
    }

    /// Whether some route has an MTU of its own.
    pub fn has_route_mtus(&self) -> bool {
        self.mtus.keys().any(Option::is_some)
    }

    pub fn keys(&self) -> impl Iterator<Item = &HopKey> {
        self.held.keys()
    }

    /// The next hops that are this neighbour, by the MTUs of their routes.
    pub fn of_neighbour(&self, link: u32, address: IpAddr) -> impl Iterator<Item = HopKey> {
        let keys = self.mtus.keys().map(move |mtu| HopKey::Gateway { link, address, mtu: *mtu });
        keys.filter(|key| self.held.contains_key(key))
    }

    /// Changes what a next hop means, if anything leads to it.
    pub fn update(
        &self,
        key: &HopKey,
        meaning: &NextHop,
        routes: &mut Routes,
        errors: &mut Vec<RouteError>,
    ) {
        if let Some(held) = self.held.get(key) {
            errors.extend(routes.set(held.id, meaning).err());
        }
    }

    /// The id of a next hop, held until [`Self::release`].
    pub fn hold(
        &mut self,
        key: &HopKey,
        meaning: &dyn Fn(&HopKey) -> NextHop,
        routes: &mut Routes,
    ) -> Result<NextHopId, RouteError> {
        if let Some(held) = self.held.get_mut(key) {
            held.references += 1;
            return Ok(held.id);
        }
        let id = match key {
            HopKey::Group(members) => self.hold_group(members, meaning, routes)?,
            // An id of its own: two gateways may have one Ethernet address today and
            // different ones tomorrow.
            key => routes.acquire_own(&meaning(key))?,
        };
        self.held.insert(key.clone(), Held { id, references: 1 });
        if let Some(mtu) = key.mtu() {
            *self.mtus.entry(mtu).or_default() += 1;
        }
        Ok(id)
    }

    fn hold_group(
        &mut self,
        members: &[(HopKey, u16)],
        meaning: &dyn Fn(&HopKey) -> NextHop,
        routes: &mut Routes,
    ) -> Result<NextHopId, RouteError> {
        let mut ids = Vec::with_capacity(members.len());
        for (member, weight) in members {
            match self.hold(member, meaning, routes) {
                Ok(id) => ids.push((id, *weight)),
                Err(error) => {
                    members[..ids.len()].iter().for_each(|(it, _)| self.release(it, routes));
                    return Err(error);
                }
            }
        }
        let group = routes.acquire_own(&NextHop::Group(places(&ids)));
        if group.is_err() {
            members.iter().for_each(|(member, _)| self.release(member, routes));
        }
        group
    }

    /// Gives a next hop back.
    pub fn release(&mut self, key: &HopKey, routes: &mut Routes) {
        let Some(held) = self.held.get_mut(key) else { return };
        held.references -= 1;
        if held.references > 0 {
            return;
        }
        if let Some(held) = self.held.remove(key) {
            routes.release(held.id);
        }
        if let Some(mtu) = key.mtu()
            && let Some(count) = self.mtus.get_mut(&mtu)
        {
            *count -= 1;
            if *count == 0 {
                self.mtus.remove(&mtu);
            }
        }
        if let HopKey::Group(members) = key {
            members.iter().for_each(|(member, _)| self.release(member, routes));
        }
    }
}

/// Repeats each next hop by its weight; none is left out.
fn places(ways: &[(NextHopId, u16)]) -> Vec<NextHopId> {
    let total: usize = ways.iter().map(|(_, weight)| usize::from(*weight)).sum();
    let mut places = Vec::with_capacity(total.min(GROUP_PLACES + ways.len()));
    for (id, weight) in ways {
        let weight = usize::from(*weight);
        let scaled = (2 * weight * GROUP_PLACES + total) / (2 * total).max(1);
        let count = if total > GROUP_PLACES { scaled.max(1) } else { weight };
        places.extend(std::iter::repeat_n(*id, count));
    }
    places
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(weights: &[u16]) -> Vec<usize> {
        let ways: Vec<_> = (1..).map(NextHopId).zip(weights.iter().copied()).collect();
        let places = places(&ways);
        let count = |id: &NextHopId| places.iter().filter(|place| *place == id).count();
        ways.iter().map(|(id, _)| count(id)).collect()
    }

    #[test]
    fn weights_are_exact_as_long_as_they_fit() {
        assert_eq!(counts(&[1, 2]), [1, 2]);
        assert_eq!(counts(&[1, 255]), [1, 255]);
        assert_eq!(counts(&[256, 256]), [128, 128]);
        assert_eq!(counts(&[1, 256, 256]), [1, 128, 128], "none is left out");
    }

    #[test]
    fn equal_shares_make_equal_groups() {
        let group = |weights: [u16; 2]| {
            HopKey::group(vec![(HopKey::Punt, weights[0]), (HopKey::Blackhole, weights[1])])
        };
        assert_eq!(group([3, 6]), group([1, 2]));
        assert_ne!(group([3, 6]), group([1, 1]));
    }

    proptest! {
        #[test]
        fn shares_are_near_the_weights(weights in proptest::collection::vec(1..=256_u16, 1..16)) {
            let counts = counts(&weights);
            let places: usize = counts.iter().sum();
            let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
            prop_assert!(places <= GROUP_PLACES + weights.len());
            for (count, weight) in counts.iter().zip(&weights) {
                let share = *count as f64 / places as f64;
                let wanted = f64::from(*weight) / total as f64;
                // Half a place for rounding, one where none would be left out, and those of others.
                let allowed = (1.0 + weights.len() as f64 * wanted) / GROUP_PLACES as f64;
                prop_assert!((share - wanted).abs() <= allowed, "{share} instead of {wanted}");
            }
        }
    }
}
