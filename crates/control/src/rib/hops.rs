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
    /// One of several by flow; repeated by weight.
    Group(Arc<[HopKey]>),
}

impl HopKey {
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
        members: &[HopKey],
        meaning: &dyn Fn(&HopKey) -> NextHop,
        routes: &mut Routes,
    ) -> Result<NextHopId, RouteError> {
        let mut ids = Vec::with_capacity(members.len());
        for (count, member) in members.iter().enumerate() {
            match self.hold(member, meaning, routes) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    members[..count].iter().for_each(|member| self.release(member, routes));
                    return Err(error);
                }
            }
        }
        let group = routes.acquire_own(&NextHop::Group(ids));
        if group.is_err() {
            members.iter().for_each(|member| self.release(member, routes));
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
            members.iter().for_each(|member| self.release(member, routes));
        }
    }
}
