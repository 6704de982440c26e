//! Next hops by content, and their ids in the workers' tables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::routes::{IdRange, RouteError, Routes};
use wattline_fib::NextHopId;

/// MTU of a route in bytes; `None` for that of its link.
pub(super) type RouteMtu = Option<u16>;

/// Next hop of a route, independent of the present state of neighbours and links.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HopKey {
    /// A neighbour.
    Gateway { link: u32, address: IpAddr, mtu: RouteMtu },
    /// The destination itself is the neighbour.
    OnLink { link: u32, mtu: RouteMtu },
    /// Leave to the kernel.
    Punt,
    /// Discard silently.
    Blackhole,
    /// Discard and report host unreachable.
    Unreachable,
    /// Discard and report administratively prohibited.
    Prohibit,
    /// Choose one of several by flow, with weights that have no common divisor.
    Group(Arc<[(HopKey, u16)]>),
}

impl HopKey {
    /// A group of next hops with weights; equal for weights that differ by a common factor.
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

    /// Whether the meaning of the next hop depends on one of the links.
    pub fn is_over(&self, links: &[u32]) -> bool {
        match self {
            Self::Gateway { link, .. } | Self::OnLink { link, .. } => links.contains(link),
            // The members of a group change, not the group.
            _ => false,
        }
    }
}

/// Ids of a next hop with their users, by [`IdRange`]: of a gateway that is also a neighbour with a route of its own
/// there are two.
#[derive(Default)]
struct Held {
    ids: [Option<(NextHopId, u32)>; 2],
}

/// Ids of all next hops in use.
#[derive(Default)]
pub(super) struct Hops {
    held: HashMap<HopKey, Held>,
    /// Number of next hops by MTU. There are few MTUs, which makes a neighbour's next hops easy to
    /// find.
    mtus: HashMap<RouteMtu, u32>,
}

impl Hops {
    /// Links of the members of groups; 0 for members without a link.
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

    /// Whether any route has its own MTU.
    pub fn has_route_mtus(&self) -> bool {
        self.mtus.keys().any(Option::is_some)
    }

    pub fn keys(&self) -> impl Iterator<Item = &HopKey> {
        self.held.keys()
    }

    /// Next hops to this neighbour, one for each MTU of a route.
    pub fn of_neighbour(&self, link: u32, address: IpAddr) -> impl Iterator<Item = HopKey> {
        let keys = self.mtus.keys().map(move |mtu| HopKey::Gateway { link, address, mtu: *mtu });
        keys.filter(|key| self.held.contains_key(key))
    }

    /// Changes the meaning of a next hop, if it is in use.
    pub fn update(
        &self,
        key: &HopKey,
        meaning: &NextHop,
        routes: &mut Routes,
        errors: &mut Vec<RouteError>,
    ) {
        if let Some(held) = self.held.get(key) {
            let ids = held.ids.iter().flatten();
            errors.extend(ids.filter_map(|(id, _)| routes.set(*id, meaning).err()));
        }
    }

    /// Id of a next hop, held until [`Self::release`].
    pub fn hold(
        &mut self,
        key: &HopKey,
        range: IdRange,
        meaning: &dyn Fn(&HopKey) -> NextHop,
        routes: &mut Routes,
    ) -> Result<NextHopId, RouteError> {
        let held = self.held.get_mut(key).and_then(|held| held.ids[range as usize].as_mut());
        if let Some((id, references)) = held {
            *references += 1;
            return Ok(*id);
        }
        let id = match key {
            HopKey::Group(members) => self.hold_group(members, range, meaning, routes)?,
            // It has its own id: two gateways may have the same Ethernet address now and different
            // ones later.
            key => routes.acquire_own(&meaning(key), range)?,
        };
        self.held.entry(key.clone()).or_default().ids[range as usize] = Some((id, 1));
        if let Some(mtu) = key.mtu() {
            *self.mtus.entry(mtu).or_default() += 1;
        }
        Ok(id)
    }

    fn hold_group(
        &mut self,
        members: &[(HopKey, u16)],
        range: IdRange,
        meaning: &dyn Fn(&HopKey) -> NextHop,
        routes: &mut Routes,
    ) -> Result<NextHopId, RouteError> {
        let mut ids = Vec::with_capacity(members.len());
        for (member, weight) in members {
            match self.hold(member, IdRange::Any, meaning, routes) {
                Ok(id) => ids.push((id, *weight)),
                Err(error) => {
                    self.release_members(&members[..ids.len()], routes);
                    return Err(error);
                }
            }
        }
        let group = routes.acquire_own(&NextHop::Group(ids), range);
        if group.is_err() {
            self.release_members(members, routes);
        }
        group
    }

    fn release_members(&mut self, members: &[(HopKey, u16)], routes: &mut Routes) {
        members.iter().for_each(|(member, _)| self.release(member, IdRange::Any, routes));
    }

    /// Releases a next hop that was held for ids of this range.
    pub fn release(&mut self, key: &HopKey, range: IdRange, routes: &mut Routes) {
        let Some(held) = self.held.get_mut(key) else { return };
        let Some((id, references)) = &mut held.ids[range as usize] else { return };
        *references -= 1;
        if *references > 0 {
            return;
        }
        routes.release(*id);
        held.ids[range as usize] = None;
        if held.ids == [None; 2] {
            self.held.remove(key);
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
            self.release_members(members, routes);
        }
    }
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_make_equal_groups() {
        let group = |weights: [u16; 2]| {
            HopKey::group(vec![(HopKey::Punt, weights[0]), (HopKey::Blackhole, weights[1])])
        };
        assert_eq!(group([3, 6]), group([1, 2]));
        assert_ne!(group([3, 6]), group([1, 1]));
    }
}
