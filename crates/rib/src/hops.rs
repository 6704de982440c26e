//! Next hops by content, and their ids in the workers' tables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::routes::{IdRange, RouteError, Routes};
use wattline_fib::NextHopId;

/// Attributes of a route that belong to its next hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Detail {
    /// MTU in bytes; `None` for that of the link.
    pub mtu: Option<u16>,
    /// Source address of packets that this machine sends.
    pub sender: Option<IpAddr>,
}

/// Next hop of a route, independent of the present state of neighbours and links.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HopKey {
    /// A neighbour.
    Gateway { link: u32, address: IpAddr, detail: Detail },
    /// The destination itself is the neighbour.
    OnLink { link: u32, detail: Detail },
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
    /// Makes a group of next hops with weights; equal for weights that differ by a common factor.
    pub fn group(mut ways: Vec<(Self, u16)>) -> Self {
        let divisor = ways.iter().fold(0, |divisor, (_, weight)| gcd(divisor, *weight)).max(1);
        ways.iter_mut().for_each(|(_, weight)| *weight /= divisor);
        Self::Group(ways.into())
    }

    fn has_route_mtu(&self) -> bool {
        match self {
            Self::Gateway { detail, .. } | Self::OnLink { detail, .. } => detail.mtu.is_some(),
            _ => false,
        }
    }

    /// Returns true if the meaning of the next hop depends on one of the links.
    pub fn is_over(&self, links: &[u32]) -> bool {
        match self {
            Self::Gateway { link, .. } | Self::OnLink { link, .. } => links.contains(link),
            // The members of a group change, not the group.
            _ => false,
        }
    }
}

/// Ids of a next hop with their users, by [`IdRange`]. A gateway that is also a neighbour with its
/// own route has two.
#[derive(Default)]
struct Held {
    ids: [Option<(NextHopId, u32)>; 2],
}

/// Ids of all next hops in use.
#[derive(Default)]
pub(super) struct Hops {
    held: HashMap<HopKey, Held>,
    /// Details of the next hops through each neighbour.
    neighbours: HashMap<(u32, IpAddr), Vec<Detail>>,
    /// Number of next hops with the MTU of a route.
    with_mtu: u32,
}

impl Hops {
    /// Returns the links of the members of groups; 0 for members without a link.
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

    /// Returns true if any route has its own MTU.
    pub fn has_route_mtus(&self) -> bool {
        self.with_mtu > 0
    }

    pub fn keys(&self) -> impl Iterator<Item = &HopKey> {
        self.held.keys()
    }

    /// Returns the next hops through this neighbour, which differ in the details of their routes.
    pub fn of_neighbour(&self, link: u32, address: IpAddr) -> impl Iterator<Item = HopKey> {
        let details = self.neighbours.get(&(link, address)).into_iter().flatten();
        details.map(move |detail| HopKey::Gateway { link, address, detail: *detail })
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

    /// Returns the id of a next hop, held until [`Self::release`].
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
            // A separate id: two gateways may have the same Ethernet address now and different ones
            // later.
            key => routes.acquire_own(&meaning(key), range)?,
        };
        if !self.held.contains_key(key) {
            self.with_mtu += u32::from(key.has_route_mtu());
            if let HopKey::Gateway { link, address, detail } = key {
                self.neighbours.entry((*link, *address)).or_default().push(*detail);
            }
        }
        self.held.entry(key.clone()).or_default().ids[range as usize] = Some((id, 1));
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

    fn forget_neighbour(&mut self, key: &HopKey) {
        let HopKey::Gateway { link, address, detail } = key else { return };
        let Some(details) = self.neighbours.get_mut(&(*link, *address)) else { return };
        details.retain(|known| known != detail);
        if details.is_empty() {
            self.neighbours.remove(&(*link, *address));
        }
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
            self.with_mtu -= u32::from(key.has_route_mtu());
            self.forget_neighbour(key);
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
