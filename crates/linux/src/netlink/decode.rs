//! From rtnetlink messages to [`Event`]s.

use super::model::{
    Address, Aggregation, Event, Hop, Link, Neighbour, Placement, Route, RouteKind, SourceRank,
    Table,
};
use ipnet::IpNet;
use netlink_packet_core::Nla;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo};
use netlink_packet_route::link::{LinkLayerType, LinkMessage, VlanProtocol};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RoutePreference, RouteProtocol, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// MTUs that every link must carry: RFC 791 and RFC 8200 section 5.
const IPV4_MTU: u32 = 68;
const IPV6_MTU: u32 = 1280;

/// Returns the event of a message; `None` if the message is irrelevant here (another table, another
/// family, a bridge's view of its ports). `placement` is that of a route.
pub(super) fn event(message: &RouteNetlinkMessage, placement: Placement) -> Option<Event> {
    match message {
        RouteNetlinkMessage::NewLink(message) => link(message).map(Event::Link),
        // The kernel also announces a link that leaves a bridge as deleted, in the bridge's family.
        RouteNetlinkMessage::DelLink(message) => (message.header.interface_family
            == AddressFamily::Unspec)
            .then_some(Event::LinkGone(message.header.index)),
        RouteNetlinkMessage::NewAddress(message) => address(message).map(Event::Address),
        RouteNetlinkMessage::DelAddress(message) => address(message).map(Event::AddressGone),
        RouteNetlinkMessage::NewNeighbour(message) => neighbour(message).map(Event::Neighbour),
        RouteNetlinkMessage::DelNeighbour(message) => neighbour(message)
            .map(|gone| Event::NeighbourGone { link: gone.link, address: gone.address }),
        RouteNetlinkMessage::NewRoute(message) => {
            route(message).map(|route| Event::Route { route, placement })
        }
        RouteNetlinkMessage::DelRoute(message) => route(message).map(Event::RouteGone),
        _ => None,
    }
}

fn link(message: &LinkMessage) -> Option<Link> {
    if message.header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let flags = message.header.flags;
    let ethernet = message.header.link_layer_type == LinkLayerType::Ether;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        enabled: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up)
            && flags.intersects(LinkFlags::Running | LinkFlags::LowerUp),
        vlan: None,
        is_virtual: false,
        aggregation: None,
        left_because: None,
    };
    let mut below = None;
    let mut vlan_id = None;
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) if ethernet => link.mac = mac(bytes),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Link(index) => below = Some(*index),
            LinkAttribute::LinkInfo(info) => {
                link.is_virtual = info.iter().any(|info| matches!(info, LinkInfo::Kind(_)));
                link.aggregation = aggregation(info);
                match vlan(info) {
                    Ok(vlan) => vlan_id = vlan,
                    Err(why) => link.left_because = Some(why),
                }
            }
            _ => {}
        }
    }
    link.vlan = below.zip(vlan_id);
    Some(link)
}

fn aggregation(info: &[LinkInfo]) -> Option<Aggregation> {
    info.iter().find_map(|info| match info {
        LinkInfo::Kind(kind) => Aggregation::from_kind(&kind.to_string()),
        _ => None,
    })
}

/// Reads the id of an 802.1Q subinterface; `None` for links of other kinds.
///
/// # Errors
/// Returns the setting because of which the tags differ from those written here.
fn vlan(info: &[LinkInfo]) -> Result<Option<u16>, &'static str> {
    let data = info.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vlan(data)) => Some(data),
        _ => None,
    });
    let mut id = None;
    for setting in data.into_iter().flatten() {
        match setting {
            InfoVlan::Id(number) => id = Some(*number),
            InfoVlan::Protocol(VlanProtocol::Ieee8021Q) | InfoVlan::Flags(_) => {}
            InfoVlan::Protocol(_) => return Err("protocol 802.1ad"),
            InfoVlan::EgressQos(map) if map.is_empty() => {}
            InfoVlan::IngressQos(map) if map.is_empty() => {}
            // The kernel writes priorities into tags.
            InfoVlan::EgressQos(_) => return Err("egress-qos-map"),
            InfoVlan::IngressQos(_) => return Err("ingress-qos-map"),
            _ => return Err("an unknown setting of its VLAN"),
        }
    }
    Ok(id)
}

fn mac(bytes: &[u8]) -> Option<[u8; 6]> {
    bytes.try_into().ok()
}

fn address(message: &AddressMessage) -> Option<Address> {
    let mut local = None;
    let mut address = None;
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    // On a point-to-point link ADDRESS is the peer and LOCAL is this end; IPv6 has ADDRESS only.
    let address = IpNet::new(local.or(address)?, message.header.prefix_len).ok()?;
    let rank = source_rank(address, flags, message.header.scope);
    Some(Address { link: message.header.index, address, rank })
}

/// Returns the rank of an address by `__ipv6_dev_get_saddr()` and `inet_select_addr()`.
fn source_rank(address: IpNet, flags: AddressFlags, scope: AddressScope) -> SourceRank {
    let has = |flag| flags.contains(flag);
    match address {
        IpNet::V4(_) if has(AddressFlags::Secondary) || scope != AddressScope::Universe => {
            SourceRank::Never
        }
        IpNet::V4(_) => SourceRank::Preferred,
        IpNet::V6(_) if has(AddressFlags::Optimistic) => SourceRank::Deprecated,
        IpNet::V6(_) if has(AddressFlags::Tentative) => SourceRank::Never,
        IpNet::V6(_) if has(AddressFlags::Deprecated) => SourceRank::Deprecated,
        IpNet::V6(_) => SourceRank::Preferred,
    }
}

fn neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    let header = &message.header;
    if header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let mut address = None;
    let mut link_layer = None;
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => {
                address = Some(IpAddr::V4(*ip));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => {
                address = Some(IpAddr::V6(*ip));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => link_layer = mac(bytes),
            _ => {}
        }
    }
    // The kernel keeps an entry of the loopback without an address.
    let is_one = |address: &IpAddr| !address.is_multicast() && !address.is_unspecified();
    let address = address.filter(is_one)?;
    let usable = matches!(
        header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
            | NeighbourState::Noarp
    );
    Some(Neighbour {
        link: header.ifindex,
        address,
        mac: link_layer.filter(|_| usable),
        stale: header.state == NeighbourState::Stale,
    })
}

fn route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    let unspecified: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let mut table = u32::from(header.table);
    let mut route = Route::new(unspecified.into(), 0, RouteKind::Kernel, Vec::new());
    let mut single = Hop { link: 0, gateway: None, weight: 1, mtu: None, dead: false };
    single.dead = header.flags.contains(RouteFlags::Dead);
    let mut destination = unspecified;
    let mut source = None;
    let mut mtu = None;
    let mut several = None;
    let mut identity = DefaultHasher::new();
    (u8::from(header.protocol), u8::from(header.scope)).hash(&mut identity);
    let mut strange = None;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(id) => table = *id,
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Source(address) => source = ip(address),
            RouteAttribute::Priority(priority) => route.metric = *priority,
            RouteAttribute::Oif(index) => single.link = *index,
            RouteAttribute::NhId(id) => route.nexthop = Some(*id),
            RouteAttribute::MultiPath(list) => {
                let member = |hop: &RouteNextHop| Hop {
                    link: hop.interface_index,
                    gateway: hop.attributes.iter().find_map(gateway),
                    weight: u16::from(hop.hops) + 1,
                    mtu: None,
                    dead: hop.flags.contains(RouteNextHopFlags::Dead),
                };
                let unknown = |hop: &RouteNextHop| hop.attributes.iter().find_map(unknown_of_hop);
                strange = strange.or_else(|| list.iter().find_map(unknown));
                several = Some(list.iter().map(member).collect());
            }
            RouteAttribute::Metrics(metrics) => {
                mtu = largest_packet(metrics, unspecified);
                let is_other = |metric: &RouteMetric| matches!(metric, RouteMetric::Other(_));
                if metrics.iter().any(is_other) {
                    strange = strange.or_else(|| Some("an unknown metric".to_owned()));
                }
                format!("{metrics:?}").hash(&mut identity);
            }
            // Source address and realm of this machine's own packets.
            RouteAttribute::PrefSource(_) | RouteAttribute::Realm(_) => {
                format!("{attribute:?}").hash(&mut identity);
                if let RouteAttribute::PrefSource(own) = attribute {
                    route.source = ip(own);
                }
            }
            RouteAttribute::Preference(RoutePreference::Medium) => {}
            // The kernel stops using the route before it deletes it. Advertised default routes are
            // renewed long before.
            RouteAttribute::CacheInfo(info) => {
                if info.expires != 0 && header.protocol != RouteProtocol::Ra {
                    strange = strange.or_else(|| Some("expires".to_owned()));
                }
            }
            other => match gateway(other) {
                Some(address) => single.gateway = Some(address),
                None => strange = strange.or_else(|| unknown(other)),
            },
        }
    }
    route.table = match table {
        id if id == u32::from(libc::RT_TABLE_LOCAL) => Table::Local,
        id if id == u32::from(RouteHeader::RT_TABLE_MAIN) => Table::Main,
        // IPv6 lookups do not reach it.
        id if id == u32::from(libc::RT_TABLE_DEFAULT) && unspecified.is_ipv4() => Table::Default,
        _ => return None,
    };
    let of_some = header.tos != 0 || header.source_prefix_length != 0;
    if of_some {
        let mut selector = DefaultHasher::new();
        (header.tos, header.source_prefix_length, source).hash(&mut selector);
        route.selector = selector.finish().max(1);
    }
    route.kind = match header.kind {
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast
            if !of_some =>
        {
            RouteKind::Local
        }
        // Other packets follow other routes to the prefix; only the kernel knows them.
        _ if of_some || route.table != Table::Main || strange.is_some() => RouteKind::Kernel,
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::BlackHole => RouteKind::Blackhole,
        RouteType::Prohibit => RouteKind::Prohibit,
        RouteType::Unreachable => RouteKind::Unreachable,
        // The lookup continues in the next table.
        RouteType::Throw => RouteKind::Kernel,
        other => {
            strange = Some(format!("type {other:?}"));
            RouteKind::Kernel
        }
    };
    u8::from(header.kind).hash(&mut identity);
    route.identity = identity.finish();
    route.advertised = header.protocol == RouteProtocol::Ra;
    route.not_understood = strange;
    // Hops of other kinds are needed to find the route when it is deleted.
    if header.kind == RouteType::Unicast {
        route.hops = several.unwrap_or_else(|| vec![single]);
    }
    // The kernel has it per route, not per next hop.
    route.hops.iter_mut().for_each(|hop| hop.mtu = mtu);
    let prefix = IpNet::new(destination, header.destination_prefix_length).ok()?;
    route.prefix = prefix.trunc();
    Some(route)
}

/// Returns the name of an attribute that is not understood; `None` for one that does not matter
/// here.
fn unknown(attribute: &RouteAttribute) -> Option<String> {
    match attribute {
        RouteAttribute::Iif(_) | RouteAttribute::Uid(_) | RouteAttribute::EncapType(_) => None,
        other => {
            let text = format!("{other:?}");
            let name = text.split(['(', ' ']).next().unwrap_or_default();
            Some(match other {
                RouteAttribute::Other(_) => format!("attribute {}", other.kind()),
                _ => name.to_lowercase(),
            })
        }
    }
}

/// Returns the same for an attribute of one of several next hops.
fn unknown_of_hop(attribute: &RouteAttribute) -> Option<String> {
    match attribute {
        RouteAttribute::Realm(_) => None,
        other if gateway(other).is_some() => None,
        other => unknown(other),
    }
}

/// Returns the MTU of a route. As in the kernel, IPv6 never goes below the MTU that every link
/// carries.
fn largest_packet(metrics: &[RouteMetric], family: IpAddr) -> Option<u16> {
    let least = if family.is_ipv4() { IPV4_MTU } else { IPV6_MTU };
    metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(0) => None,
        // An MTU beyond any packet's length limits nothing.
        RouteMetric::Mtu(mtu) => u16::try_from((*mtu).max(least)).ok(),
        _ => None,
    })
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::DefaultNla;
    use netlink_packet_route::link::VlanQosMapping;

    #[test]
    fn only_subinterfaces_by_802_1q_have_a_vlan() {
        let of = |protocol: Option<VlanProtocol>| {
            let mut data = vec![InfoVlan::Id(7)];
            data.extend(protocol.map(InfoVlan::Protocol));
            vlan(&[LinkInfo::Data(InfoData::Vlan(data))])
        };
        assert_eq!(of(Some(VlanProtocol::Ieee8021Q)), Ok(Some(7)));
        assert_eq!(of(None), Ok(Some(7)));
        assert!(of(Some(VlanProtocol::Ieee8021Ad)).is_err());
        assert_eq!(vlan(&[]), Ok(None));
    }

    #[test]
    fn subinterface_with_priorities_is_left_to_the_kernel() {
        let of = |setting: InfoVlan| {
            vlan(&[LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(7), setting]))])
        };
        let map = || vec![VlanQosMapping::Mapping(6, 3)];
        assert_eq!(of(InfoVlan::EgressQos(map())), Err("egress-qos-map"));
        assert_eq!(of(InfoVlan::IngressQos(map())), Err("ingress-qos-map"));
        assert_eq!(of(InfoVlan::EgressQos(Vec::new())), Ok(Some(7)));
        let strange = DefaultNla::new(77, vec![1]);
        assert!(of(InfoVlan::Other(strange)).is_err());
    }

    #[test]
    fn a_neighbour_has_the_address_of_one_station() {
        let of = |address: &str| {
            let mut message = NeighbourMessage::default();
            message.header.ifindex = 1;
            message.header.state = NeighbourState::Noarp;
            let address = NeighbourAddress::Inet(address.parse().unwrap());
            message.attributes.push(NeighbourAttribute::Destination(address));
            message.attributes.push(NeighbourAttribute::LinkLayerAddress(vec![0; 6]));
            neighbour(&message)
        };
        assert!(of("192.0.2.1").is_some());
        assert_eq!(of("224.0.0.1"), None, "a group");
        assert_eq!(of("0.0.0.0"), None, "the loopback's entry");
    }
}
