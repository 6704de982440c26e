//! The incremental tables compared with a computation from scratch, and special cases.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_linux::netlink::SourceRank;

const MACS: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

fn specs() -> Vec<PortSpec> {
    let port =
        |name: &str| PortSpec { link: name.into(), largest_mtu: 9000, ..PortSpec::default() };
    vec![port("a"), port("b")]
}

/// Returns a link: 1 and 2 are the ports a and b, 3 is not a port, 4 is VLAN 7 on a.
fn link(index: u32, running: bool) -> Event {
    let name = ["", "a", "b", "c", "a.7"][index as usize].to_owned();
    let vlan = (index == 4).then_some((1, 7));
    let mac = Some([2, 0, 0, 0, 1, index as u8]);
    Event::Link(Link {
        index,
        name,
        mac,
        mtu: 1500,
        enabled: running,
        running,
        vlan,
        is_virtual: false,
        aggregation: None,
        left_because: None,
    })
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn via(link: u32, gateway: &str) -> Hop {
    Hop {
        link,
        gateway: (!gateway.is_empty()).then(|| ip(gateway)),
        weight: 1,
        mtu: None,
        dead: false,
    }
}

fn route(prefix: &str, metric: u32, hops: Vec<Hop>) -> Event {
    let route = Route::new(net(prefix), metric, RouteKind::Unicast, hops);
    Event::Route { route, placement: Placement::Last }
}

fn neighbour(link: u32, address: &str, mac: Option<[u8; 6]>) -> Event {
    Event::Neighbour(Neighbour { link, address: ip(address), mac, stale: false })
}

struct Bench {
    rib: Rib,
    routes: Routes,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self { rib: Rib::new(specs()), routes: Routes::new(Vec::new()) };
        bench.kernel([link(1, true), link(2, true), link(3, true), link(4, true)]);
        bench
    }

    fn kernel(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.rib.apply(Source::Kernel, event));
        self.rib.commit(&mut self.routes).unwrap();
    }

    /// Returns the next hop of packets to an address.
    fn towards(&self, address: &str) -> NextHop {
        let found = self.routes.longest_match(ip(address));
        found.map_or(NextHop::None, |(_, id)| on_the_wire(self.routes.next_hop(id).unwrap()))
    }
}

/// Returns a next hop without the addresses that matter only for ICMP errors.
fn on_the_wire(next_hop: &NextHop) -> NextHop {
    match next_hop {
        NextHop::Forward(to) => NextHop::Forward(Adjacency { gateway: None, source: None, ..*to }),
        other => other.clone(),
    }
}

fn forward(port: u16, mac: [u8; 6]) -> NextHop {
    forward_mtu(port, mac, 1500)
}

fn forward_mtu(port: u16, mac: [u8; 6], mtu: u16) -> NextHop {
    NextHop::Forward(Adjacency {
        port: PortId(port),
        mtu,
        link_mtu: 1500,
        destination_mac: mac,
        source_mac: [2, 0, 0, 0, 1, port as u8 + 1],
        vlan: None,
        gateway: None,
        source: None,
    })
}

fn resolve(port: u16, gateway: Option<&str>) -> NextHop {
    NextHop::Resolve { port: PortId(port), gateway: gateway.map(ip), source: None, vlan: None }
}

#[test]
fn a_gateway_is_resolved_moves_and_is_lost_for_all_its_routes() {
    let mut bench = Bench::new();
    bench.kernel([route("192.0.2.0/24", 0, vec![via(1, "")])]);
    bench.kernel([route("10.0.0.0/8", 0, vec![via(1, "192.0.2.2")])]);
    bench.kernel([route("10.1.0.0/16", 0, vec![via(1, "192.0.2.2")])]);
    bench.kernel([route("10.3.0.128/25", 0, vec![via(1, "192.0.2.2")])]);
    assert_eq!(bench.towards("10.1.1.1"), resolve(0, Some("192.0.2.2")));
    assert_eq!(bench.rib.unresolved_gateways(), [(1, ip("192.0.2.2"))]);
    bench.kernel([neighbour(1, "192.0.2.2", Some(MACS[0]))]);
    assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[0]));
    bench.kernel([neighbour(1, "192.0.2.2", Some(MACS[1]))]);
    for address in ["10.2.1.1", "10.3.0.129", "192.0.2.2"] {
        assert_eq!(bench.towards(address), forward(0, MACS[1]), "{address}");
    }
    bench.kernel([Event::NeighbourGone { link: 1, address: ip("192.0.2.2") }]);
    assert_eq!(bench.towards("10.2.1.1"), resolve(0, Some("192.0.2.2")));
    assert_eq!(bench.towards("10.3.0.129"), resolve(0, Some("192.0.2.2")));
    assert_eq!(bench.towards("192.0.2.2"), resolve(0, None));
}

#[test]
fn mtu_of_a_route_that_is_left_to_the_kernel_is_reported() {
    let mut bench = Bench::new();
    let limited = || vec![Hop { mtu: Some(1300), ..via(1, "192.0.2.2") }];
    let of_kernel = || Route::new(net("10.1.0.0/16"), 0, RouteKind::Kernel, limited());
    assert!(!bench.rib.has_route_mtus());
    bench.kernel([Event::Route { route: of_kernel(), placement: Placement::Last }]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt);
    assert!(bench.rib.has_route_mtus());
    bench.kernel([Event::RouteGone(of_kernel())]);
    assert!(!bench.rib.has_route_mtus());
}

#[test]
fn group_with_a_member_left_to_the_kernel_is_left_as_a_whole() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 0, vec![via(1, "192.0.2.2"), via(3, "192.0.9.2")])]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt);
}

#[test]
fn mtu_of_a_route_limits_only_its_packets() {
    let mut bench = Bench::new();
    let limited = |gateway| vec![Hop { mtu: Some(1300), ..via(1, gateway) }];
    bench.kernel([route("10.0.0.0/8", 0, vec![via(1, "192.0.2.2")])]);
    bench.kernel([route("10.1.0.0/16", 0, limited("192.0.2.2"))]);
    bench.kernel([route("10.2.0.0/16", 0, limited(""))]);
    bench.kernel([route("10.3.0.0/16", 0, vec![Hop { mtu: Some(9000), ..via(1, "192.0.2.2") }])]);
    bench.kernel([
        neighbour(1, "192.0.2.2", Some(MACS[0])),
        neighbour(1, "10.2.0.9", Some(MACS[2])),
    ]);
    assert_eq!(bench.towards("10.9.1.1"), forward(0, MACS[0]));
    assert_eq!(bench.towards("10.1.1.1"), forward_mtu(0, MACS[0], 1300));
    assert_eq!(bench.towards("10.2.0.9"), forward_mtu(0, MACS[2], 1300));
    assert_eq!(bench.towards("10.3.0.9"), NextHop::Punt, "wider than its link");
    bench.kernel([neighbour(1, "192.0.2.2", Some(MACS[1]))]);
    assert_eq!(bench.towards("10.9.1.1"), forward(0, MACS[1]));
    assert_eq!(bench.towards("10.1.1.1"), forward_mtu(0, MACS[1], 1300));
    let Event::Route { route, .. } = route("10.1.0.0/16", 0, vec![via(1, "192.0.2.2")]) else {
        unreachable!()
    };
    bench.kernel([Event::Route { route, placement: Placement::Replace }]);
    assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[1]));
}

#[test]
fn gateways_that_share_an_ethernet_address_stay_apart() {
    let mut bench = Bench::new();
    bench.kernel([route("10.1.0.0/16", 0, vec![via(1, "192.0.2.2")])]);
    bench.kernel([route("10.2.0.0/16", 0, vec![via(1, "192.0.2.3")])]);
    bench.kernel(["192.0.2.2", "192.0.2.3"].map(|ip| neighbour(1, ip, Some(MACS[0]))));
    bench.kernel([neighbour(1, "192.0.2.3", Some(MACS[1]))]);
    assert_eq!(bench.towards("10.1.0.1"), forward(0, MACS[0]));
    assert_eq!(bench.towards("10.2.0.1"), forward(0, MACS[1]));
}

#[test]
fn known_neighbours_of_a_connected_prefix_are_host_routes() {
    let mut bench = Bench::new();
    bench.kernel([route("192.0.2.0/24", 0, vec![via(1, "")])]);
    bench.kernel([
        neighbour(1, "192.0.2.2", Some(MACS[0])),
        neighbour(2, "192.0.2.3", Some(MACS[1])),
    ]);
    assert_eq!(bench.towards("192.0.2.2"), forward(0, MACS[0]));
    assert_eq!(bench.towards("192.0.2.3"), resolve(0, None), "known on the wrong link");
    // A more specific route through a gateway also covers the neighbour's address.
    bench.kernel([route("192.0.2.0/30", 0, vec![via(2, "198.51.100.1")])]);
    assert_eq!(bench.towards("192.0.2.2"), resolve(1, Some("198.51.100.1")));
}

#[test]
fn own_addresses_broadcasts_and_other_links_are_left_to_the_kernel() {
    let mut bench = Bench::new();
    let own = |text: &str| Address { link: 1, address: net(text), rank: SourceRank::Preferred };
    bench.kernel([route("192.0.2.0/24", 0, vec![via(1, "")])]);
    bench.kernel(["192.0.2.1/24", "192.0.2.9/24"].map(|text| Event::Address(own(text))));
    bench.kernel([Event::Address(own("2001:db8::1/64"))]);
    bench.kernel([route("10.0.0.0/8", 0, vec![via(3, "203.0.113.1")])]);
    let kernels =
        ["192.0.2.1", "192.0.2.0", "192.0.2.255", "2001:db8::1", "2001:db8::", "10.1.1.1"];
    for address in kernels {
        assert_eq!(bench.towards(address), NextHop::Punt, "{address}");
    }
    bench.kernel([Event::AddressGone(own("192.0.2.9/24"))]);
    assert_eq!(bench.towards("192.0.2.9"), resolve(0, None));
    assert_eq!(bench.towards("192.0.2.255"), NextHop::Punt, "the other address needs it still");
}

#[test]
fn the_best_usable_route_counts() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 20, vec![via(2, "198.51.100.2")])]);
    bench.kernel([route("10.0.0.0/8", 10, vec![via(1, "192.0.2.2")])]);
    assert_eq!(bench.towards("10.1.1.1"), resolve(0, Some("192.0.2.2")));
    bench.kernel([link(1, false)]);
    assert_eq!(bench.towards("10.1.1.1"), resolve(1, Some("198.51.100.2")));
    bench.kernel([link(2, false)]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::None);
    bench.kernel([link(1, true)]);
    assert_eq!(bench.towards("10.1.1.1"), resolve(0, Some("192.0.2.2")));
}

#[test]
fn multipath_uses_the_links_that_run_by_weight() {
    let mut bench = Bench::new();
    let heavy = Hop { weight: 4, ..via(2, "198.51.100.2") };
    let light = Hop { weight: 2, ..via(1, "192.0.2.2") };
    bench.kernel([route("10.0.0.0/8", 0, vec![light, heavy])]);
    let NextHop::Group(members) = bench.towards("10.1.1.1") else { panic!("no group") };
    let members: Vec<_> =
        members.iter().map(|(id, weight)| (bench.routes.next_hop(*id).unwrap(), *weight)).collect();
    let (one, other) = (resolve(0, Some("192.0.2.2")), resolve(1, Some("198.51.100.2")));
    assert_eq!(members, [(&one, 1), (&other, 2)]);
    bench.kernel([link(2, false)]);
    assert_eq!(bench.towards("10.1.1.1"), one);
}

#[test]
fn multipath_with_a_lost_link_leads_straight_to_known_neighbours() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 0, vec![via(1, ""), via(3, "")])]);
    bench.kernel([neighbour(1, "10.1.1.1", Some(MACS[0]))]);
    bench.kernel([link(3, false)]);
    assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[0]));
}

/// A link-local address can exist on every link: the one of the route counts.
#[test]
fn a_link_local_gateway_behind_a_vlan_is_asked_for_there() {
    let mut bench = Bench::new();
    bench.kernel([route("2001:db8:9::/48", 0, vec![via(4, "fe80::1")])]);
    let gateway = Some(ip("fe80::1"));
    let expected = NextHop::Resolve { port: PortId(0), gateway, source: None, vlan: Some(7) };
    assert_eq!(bench.towards("2001:db8:9::1"), expected);
    assert_eq!(bench.rib.link_towards(PortId(0), 7, ip("fe80::1")), Some(4));
    assert_eq!(bench.rib.link_towards(PortId(0), 0, ip("fe80::1")), Some(1));
    assert_eq!(bench.rib.link_towards(PortId(0), 8, ip("fe80::1")), None);
}

#[test]
fn vlan_subinterfaces_send_with_their_tag() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 0, vec![via(4, "192.0.2.2")])]);
    bench.kernel([neighbour(4, "192.0.2.2", Some(MACS[0]))]);
    let NextHop::Forward(adjacency) = bench.towards("10.0.0.1") else { panic!("not resolved") };
    assert_eq!((adjacency.port, adjacency.vlan), (PortId(0), Some(7)));
    bench.kernel([link(1, false)]);
    assert_eq!(bench.towards("10.0.0.1"), NextHop::None, "the link below is down");
}

#[test]
fn recreated_link_is_left_to_the_kernel_until_the_port_is_opened_again() {
    let mut bench = Bench::new();
    let through = |link| route("10.0.0.0/8", 0, vec![via(link, "192.0.2.2")]);
    bench.kernel([through(1), neighbour(1, "192.0.2.2", Some(MACS[0]))]);
    assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[0]));
    bench.kernel([Event::LinkGone(1)]);
    // The same name, and even the same number.
    for index in [1, 9] {
        let Event::Link(again) = link(1, true) else { unreachable!() };
        bench.kernel([Event::Link(Link { index, ..again })]);
        bench.kernel([through(index), neighbour(index, "192.0.2.2", Some(MACS[1]))]);
        assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt, "link {index}");
        assert_eq!(bench.rib.link_named_as(PortId(0)).unwrap().index, index);
        bench.rib.serve(PortId(0), Some(index));
        bench.kernel([]);
        assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[1]), "link {index}");
        bench.rib.serve(PortId(0), None);
        bench.kernel([]);
        assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt, "link {index}");
        bench.kernel([Event::LinkGone(index)]);
    }
}

#[test]
fn a_link_stays_the_port_when_it_is_renamed() {
    let mut bench = Bench::new();
    bench.kernel([
        route("10.0.0.0/8", 0, vec![via(1, "192.0.2.2")]),
        neighbour(1, "192.0.2.2", Some(MACS[0])),
    ]);
    let Event::Link(mut renamed) = link(1, true) else { unreachable!() };
    renamed.name = "other".into();
    let impostor = Link { index: 9, name: "a".into(), ..renamed.clone() };
    bench.kernel([Event::Link(renamed), Event::Link(impostor)]);
    assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[0]));
    bench.kernel([route("10.1.0.0/16", 0, vec![via(9, "192.0.2.2")])]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt);
    // Left to the kernel for a while: another link with the port's name appears first.
    bench.rib.serve(PortId(0), None);
    let found = |bench: &Bench| bench.rib.link_named_as(PortId(0)).map(|link| link.index);
    assert_eq!(found(&bench), Some(9));
    bench.kernel([Event::LinkGone(9)]);
    assert_eq!(found(&bench), Some(1));
    bench.kernel([Event::LinkGone(1)]);
    assert_eq!(found(&bench), None);
}

#[test]
fn new_dump_removes_unmentioned_routes() {
    let mut bench = Bench::new();
    let kept = || route("10.0.0.0/8", 0, vec![via(1, "192.0.2.2")]);
    bench.kernel([kept(), route("10.1.0.0/16", 0, vec![via(2, "198.51.100.2")])]);
    bench.kernel([neighbour(1, "192.0.2.2", Some(MACS[0]))]);
    bench.rib.apply(Source::Static, route("10.2.0.0/16", 0, vec![via(2, "198.51.100.3")]));
    bench.kernel([Event::DumpBegin, link(1, true), link(2, true), kept(), Event::DumpEnd]);
    assert_eq!(bench.towards("10.1.0.1"), resolve(0, Some("192.0.2.2")), "the shorter one");
    assert_eq!(bench.towards("10.2.0.1"), resolve(1, Some("198.51.100.3")), "not the kernel's");
}

#[test]
fn dump_of_neighbours_removes_nothing_else() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 0, vec![via(1, "192.0.2.2")])]);
    bench.kernel([route("10.1.0.0/16", 0, vec![via(1, "192.0.2.3")])]);
    let known = |host: usize| neighbour(1, &format!("192.0.2.{host}"), Some(MACS[host - 2]));
    bench.kernel([known(2), known(3)]);
    bench.kernel([Event::NeighbourDumpBegin, known(3), Event::NeighbourDumpEnd]);
    assert_eq!(bench.towards("10.0.0.1"), resolve(0, Some("192.0.2.2")), "forgotten");
    assert_eq!(bench.towards("10.1.0.1"), forward(0, MACS[1]));
    bench.kernel([Event::DumpBegin, link(1, true), Event::DumpEnd]);
    assert_eq!((bench.towards("10.1.0.1"), bench.rib.neighbours.len()), (NextHop::None, 0));
}

#[test]
fn unanswered_neighbours_are_shown() {
    let mut bench = Bench::new();
    bench.kernel([neighbour(1, "192.0.2.2", Some(MACS[0])), neighbour(1, "192.0.2.4", None)]);
    let asked = ["192.0.2.3", "198.51.100.1"].map(|address| (1, ip(address)));
    let (shown, count) = bench.rib.neighbours_in(Some(net("192.0.2.0/24")), 9, asked.into_iter());
    let shown: Vec<_> = shown.iter().map(|it| (it.address, it.mac, it.asked)).collect();
    let expected = [
        ("192.0.2.2", Some(MACS[0]), false),
        ("192.0.2.3", None, true),
        ("192.0.2.4", None, false),
    ];
    assert_eq!(
        (shown, count),
        (expected.map(|(address, mac, asked)| (ip(address), mac, asked)).to_vec(), 3)
    );
}

/// A scan of a connected prefix makes and removes thousands of them per second.
#[test]
fn neighbours_that_do_not_answer_change_no_table() {
    let mut bench = Bench::new();
    bench.kernel([route("192.0.2.0/24", 0, vec![via(1, "")])]);
    bench.rib.apply(Source::Kernel, neighbour(1, "192.0.2.2", None));
    bench.rib.apply(Source::Kernel, Event::NeighbourGone { link: 1, address: ip("192.0.2.2") });
    assert!(!bench.rib.has_changes());
    assert!(bench.rib.neighbours.is_empty());
}

/// After `ip link set up` the kernel uses a link at once, and announces its carrier later.
#[test]
fn link_without_carrier_keeps_its_packets() {
    let mut bench = Bench::new();
    let Event::Link(up) = link(1, true) else { unreachable!() };
    let waiting = || Event::Link(Link { running: false, ..up.clone() });
    bench.kernel([
        route("0.0.0.0/0", 0, vec![via(2, "198.51.100.2")]),
        route("192.0.2.0/24", 0, vec![via(1, "")]),
        waiting(),
    ]);
    assert_eq!(bench.towards("192.0.2.2"), NextHop::Punt);
    let ignores =
        |ignores_linkdown| Event::LinkParameters { link: 1, ipv6: false, ignores_linkdown };
    bench.kernel([ignores(true)]);
    assert_eq!(bench.towards("192.0.2.2"), resolve(1, Some("198.51.100.2")));
    bench.kernel([ignores(false), link(1, true)]);
    assert_eq!(bench.towards("192.0.2.2"), resolve(0, None));
}

#[test]
fn ipv6_multipath_grows_and_shrinks_as_the_kernel_reports() {
    let mut bench = Bench::new();
    let (one, other) = (via(1, "2001:db8::2"), via(2, "2001:db8:1::2"));
    bench.kernel([route("2001:db8:9::/48", 5, vec![one.clone()])]);
    bench.kernel([route("2001:db8:9::/48", 5, vec![one.clone(), other.clone()])]);
    assert!(matches!(bench.towards("2001:db8:9::1"), NextHop::Group(_)));
    let Event::Route { route: part, .. } = route("2001:db8:9::/48", 5, vec![one]) else {
        unreachable!()
    };
    bench.kernel([Event::RouteGone(part)]);
    assert_eq!(bench.towards("2001:db8:9::1"), resolve(1, Some("2001:db8:1::2")));
}

#[test]
fn routes_change_and_go_with_the_next_hop_that_they_name() {
    let mut bench = Bench::new();
    let named = |prefix: &str, metric, id, hops| {
        let Event::Route { route, .. } = route(prefix, metric, hops) else { unreachable!() };
        Event::Route { route: Route { nexthop: Some(id), ..route }, placement: Placement::Replace }
    };
    let (one, other) = (via(1, "192.0.2.2"), via(2, "198.51.100.2"));
    bench.kernel([
        named("10.1.0.0/16", 0, 9, vec![one.clone(), other.clone()]),
        named("10.2.0.0/16", 0, 5, vec![Hop { mtu: Some(1300), ..other.clone() }]),
        named("10.2.0.0/16", 8, 9, vec![one.clone(), other.clone()]),
        neighbour(1, "192.0.2.3", Some(MACS[0])),
    ]);
    assert!(matches!(bench.towards("10.1.1.1"), NextHop::Group(_)));
    let kind = RouteKind::Unicast;
    bench.kernel([Event::Nexthop { id: 9, kind, hops: vec![one.clone()] }]);
    assert_eq!(bench.towards("10.1.1.1"), resolve(0, Some("192.0.2.2")));
    bench.kernel([Event::Nexthop { id: 5, kind, hops: vec![via(1, "192.0.2.3")] }]);
    assert_eq!(bench.towards("10.2.1.1"), forward_mtu(0, MACS[0], 1300), "the route's own MTU");
    bench.kernel([Event::NexthopGone(5)]);
    assert_eq!(bench.towards("10.2.1.1"), resolve(0, Some("192.0.2.2")), "the next best");
    bench.kernel([Event::Nexthop { id: 9, kind: RouteKind::Blackhole, hops: Vec::new() }]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Blackhole);
    // A route with the same next hop, which refers to another object now.
    bench.kernel([named("10.3.0.0/16", 0, 7, vec![other.clone()])]);
    bench.kernel([named("10.3.0.0/16", 0, 8, vec![other])]);
    bench.kernel([Event::NexthopGone(7), Event::NexthopGone(9)]);
    assert_eq!(bench.towards("10.3.1.1"), resolve(1, Some("198.51.100.2")));
    assert_eq!(bench.towards("10.1.1.1"), NextHop::None);
    assert_eq!(bench.rib.prefixes(), 1);
}

#[test]
fn routes_and_neighbours_can_be_listed() {
    let mut bench = Bench::new();
    bench.kernel([
        route("10.0.0.0/8", 5, vec![via(3, "203.0.113.1")]),
        route("10.0.0.0/8", 1, vec![via(9, "203.0.113.9")]),
        route("10.2.0.0/16", 0, vec![via(2, "198.51.100.2")]),
        route("10.1.0.0/16", 0, vec![via(1, "192.0.2.2")]),
        route("2001:db8::/32", 0, vec![via(1, "2001:db8::2")]),
        neighbour(1, "192.0.2.2", Some(MACS[0])),
        neighbour(2, "198.51.100.2", None),
    ]);
    let prefixes = |within: Option<&str>, most| {
        let (routes, count) = bench.rib.routes_to(within.map(net), most);
        let texts = routes.iter().map(|it| format!("{} {}", it.prefix, it.counts));
        (texts.collect::<Vec<_>>().join(", "), count)
    };
    let ten = "10.0.0.0/8 false, 10.0.0.0/8 true";
    assert_eq!(prefixes(Some("10.1.2.3/32"), 9), (format!("{ten}, 10.1.0.0/16 true"), 2));
    assert_eq!(prefixes(Some("10.0.0.0/8"), 2), (format!("{ten}, 10.1.0.0/16 true"), 3));
    assert_eq!(prefixes(None, 1), (ten.to_owned(), 4));
    assert_eq!(prefixes(Some("11.0.0.0/8"), 9), (String::new(), 0));
    let (neighbours, count) = bench.rib.neighbours_in(None, 1, std::iter::empty());
    assert_eq!(
        (neighbours[0].address, neighbours[0].mac, count),
        (ip("192.0.2.2"), Some(MACS[0]), 2)
    );
    assert_eq!(bench.rib.neighbours_in(Some(net("198.51.100.0/24")), 9, std::iter::empty()).1, 1);
    assert_eq!(bench.rib.link_name(4), Some("a.7"));
}

#[test]
fn a_full_table_of_a_hundred_thousand_routes_comes_and_goes() {
    let mut bench = Bench::new();
    let event = |number: u32| {
        let prefix =
            format!("{}.{}.{}.0/24", 20 + number / 65536, number / 256 % 256, number % 256);
        route(&prefix, 0, vec![via(1 + number % 2, "192.0.2.2")])
    };
    bench.kernel((0..100_000).map(event));
    assert_eq!(bench.routes.len().0, 100_000);
    bench.kernel((0..100_000).map(|number| match event(number) {
        Event::Route { route, .. } => Event::RouteGone(route),
        other => other,
    }));
    assert_eq!(bench.routes.len().0, 0);
    assert_eq!(bench.rib.prefixes(), 0);
    assert!(bench.rib.hops.keys().all(|key| *key == HopKey::Punt), "next hops leak");
}

// Computes the tables from scratch, from the list of all events.

fn arbitrary_event() -> impl Strategy<Value = Event> {
    let prefix = prop_oneof![
        Just("10.0.0.0/8"),
        Just("10.1.0.0/16"),
        Just("10.1.1.0/24"),
        Just("10.1.1.1/32"),
        Just("0.0.0.0/0"),
    ];
    let address = prop_oneof![Just("10.1.1.1"), Just("10.1.1.2"), Just("10.2.0.1")];
    let mtu = prop_oneof![Just(None), Just(Some(1300)), Just(Some(9000))];
    let hop = (1..4_u32, prop_oneof![Just(""), Just("10.1.1.2"), Just("10.2.0.1")], mtu)
        .prop_map(|(link, gateway, mtu)| Hop { mtu, ..via(link, gateway) });
    let hops = proptest::collection::vec(hop, 1..3);
    let routes = (prefix, 0..3_u32, hops, 0..5_u8, any::<bool>());
    let routes = routes.prop_map(|(prefix, metric, hops, kind, gone)| {
        let (kind, hops) = match kind {
            0 => (RouteKind::Blackhole, Vec::new()),
            _ => (RouteKind::Unicast, hops),
        };
        let route = Route::new(net(prefix), metric, kind, hops);
        if gone {
            Event::RouteGone(route)
        } else {
            Event::Route { route, placement: Placement::Replace }
        }
    });
    let neighbours = (1..4_u32, address.clone(), proptest::option::of(0..3_usize))
        .prop_map(|(link, address, mac)| neighbour(link, address, mac.map(|mac| MACS[mac])));
    let addresses = (1..4_u32, address, any::<bool>()).prop_map(|(link, address, gone)| {
        let address =
            Address { link, address: net(&format!("{address}/24")), rank: SourceRank::Preferred };
        if gone { Event::AddressGone(address) } else { Event::Address(address) }
    });
    prop_oneof![
        6 => routes,
        3 => neighbours,
        1 => addresses,
        2 => (1..4_u32, any::<bool>()).prop_map(|(index, running)| link(index, running)),
    ]
}

/// State after a list of events, and the resulting next hop for one address.
#[derive(Default)]
struct Naive {
    running: HashMap<u32, bool>,
    routes: HashMap<(IpNet, u32), Route>,
    neighbours: HashMap<(u32, IpAddr), Option<[u8; 6]>>,
    addresses: HashSet<Address>,
    /// Local addresses so far.
    local: HashSet<IpAddr>,
}

impl Naive {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Link(link) => drop(self.running.insert(link.index, link.running)),
            Event::Route { route, .. } => {
                self.routes.insert((route.prefix, route.metric), route.clone());
            }
            Event::RouteGone(route) => {
                let key = (route.prefix, route.metric);
                if self.routes.get(&key) == Some(route) {
                    self.routes.remove(&key);
                }
            }
            Event::Neighbour(known) => {
                self.neighbours.insert((known.link, known.address), known.mac);
            }
            Event::Address(address) => {
                let net = address.address;
                self.local.extend([net.addr(), net.network(), net.broadcast()]);
                self.addresses.insert(address.clone());
            }
            Event::AddressGone(address) => drop(self.addresses.remove(address)),
            _ => unreachable!("not generated"),
        }
    }

    fn towards(&self, address: &str) -> Vec<NextHop> {
        let address = ip(address);
        for length in (0..=32).rev() {
            let prefix = IpNet::new(address, length).unwrap().trunc();
            let own = |own: &Address| {
                let net = own.address;
                [net.addr(), net.network(), net.broadcast()].contains(&address)
            };
            if length == 32 && self.addresses.iter().any(own) {
                return vec![NextHop::Punt];
            }
            let mut routes: Vec<_> =
                self.routes.values().filter(|route| route.prefix == prefix).collect();
            routes.sort_by_key(|route| route.metric);
            for route in routes {
                if route.kind == RouteKind::Blackhole {
                    return vec![NextHop::Blackhole];
                }
                let running = || route.hops.iter().filter(|hop| self.running[&hop.link]);
                // The neighbour depends on the member that the kernel chooses.
                let of_kernel = |hop: &Hop| {
                    let is_wider = hop.mtu.is_some_and(|mtu| mtu > 1500);
                    hop.link == 3 || hop.gateway.is_none() || is_wider
                };
                if running().count() > 1 && running().any(of_kernel) {
                    return vec![NextHop::Punt];
                }
                let is_local = |hop: &Hop| hop.gateway.is_some_and(|it| self.local.contains(&it));
                if running().next().is_some() && route.hops.iter().any(is_local) {
                    return vec![NextHop::Punt];
                }
                let hops = running();
                let hops: Vec<_> = hops.map(|hop| self.hop(hop, address)).collect();
                if !hops.is_empty() {
                    return hops;
                }
            }
        }
        vec![NextHop::None]
    }

    fn hop(&self, hop: &Hop, address: IpAddr) -> NextHop {
        if hop.link == 3 || hop.mtu.is_some_and(|mtu| mtu > 1500) {
            return NextHop::Punt;
        }
        let neighbour = hop.gateway.or(Some(address));
        let port = hop.link as u16 - 1;
        let mac = neighbour.and_then(|ip| self.neighbours.get(&(hop.link, ip)).copied().flatten());
        match mac {
            Some(mac) => forward_mtu(port, mac, hop.mtu.unwrap_or(1500)),
            None => NextHop::Resolve {
                port: PortId(port),
                gateway: hop.gateway,
                source: None,
                vlan: None,
            },
        }
    }
}

/// Routes from two advertisements are not joined; the kernel chooses one by the state of its
/// neighbour.
#[test]
fn two_advertised_routes_of_one_metric_are_left_to_the_kernel() {
    for (advertised, placement) in
        [(true, Placement::First), (true, Placement::Dumped), (false, Placement::First)]
    {
        let mut bench = Bench::new();
        for gateway in ["2001:db8:1::2", "2001:db8:1::3"] {
            let hops = vec![via(1, gateway)];
            let mut route = Route::new(net("::/0"), 1024, RouteKind::Unicast, hops);
            route.advertised = advertised;
            bench.kernel([Event::Route { route, placement }]);
        }
        let (_, id) = bench.routes.longest_match(ip("2001:db8:77::9")).unwrap();
        let is_kernels = matches!(bench.routes.next_hop(id), Some(NextHop::Punt));
        assert_eq!(is_kernels, advertised, "{placement:?}");
    }
}

#[test]
fn next_hop_has_its_gateway_and_the_source_address_of_its_route() {
    let mut bench = Bench::new();
    let prescribed = |prefix: &str, metric| {
        let hops = vec![via(1, "192.0.2.2")];
        let mut route = Route::new(net(prefix), metric, RouteKind::Unicast, hops);
        route.source = Some(ip("198.51.100.1"));
        Event::Route { route, placement: Placement::Last }
    };
    bench
        .kernel([prescribed("10.1.0.0/16", 0), route("10.2.0.0/16", 0, vec![via(1, "192.0.2.2")])]);
    for mac in [None, Some(MACS[0]), Some(MACS[1])] {
        bench.kernel([neighbour(1, "192.0.2.2", mac)]);
        for (address, expected) in [("10.1.0.9", Some(ip("198.51.100.1"))), ("10.2.0.9", None)] {
            let (_, id) = bench.routes.longest_match(ip(address)).unwrap();
            let (to, gateway, source) = match bench.routes.next_hop(id).unwrap() {
                NextHop::Forward(to) => (Some(to.destination_mac), to.gateway, to.source),
                NextHop::Resolve { gateway, source, .. } => (None, *gateway, *source),
                other => panic!("{other:?}"),
            };
            assert_eq!((to, gateway, source), (mac, Some(ip("192.0.2.2")), expected));
        }
    }
}

/// The link was known before it became a port, with its neighbours and routes.
#[test]
fn a_port_that_is_added_takes_its_link_s_packets_and_one_that_is_removed_leaves_them() {
    let mut bench = Bench::new();
    bench.kernel([
        route("10.3.0.0/24", 0, vec![via(3, "")]),
        neighbour(3, "10.3.0.1", Some(MACS[0])),
        route("10.1.0.0/24", 0, vec![via(1, "")]),
        neighbour(1, "10.1.0.1", Some(MACS[1])),
    ]);
    let other = bench.towards("10.1.0.1");
    assert_eq!(bench.towards("10.3.0.1"), NextHop::Punt);
    let port = PortId(2);
    for _ in 0..2 {
        let spec = PortSpec { link: "c".into(), largest_mtu: 9000, ..PortSpec::default() };
        bench.rib.set_port(port, Some(spec));
        bench.kernel([]);
        assert_eq!(bench.towards("10.3.0.1"), NextHop::Punt, "it is not served yet");
        assert_eq!(bench.rib.link_named_as(port).map(|link| link.index), Some(3));
        bench.rib.serve(port, Some(3));
        bench.kernel([]);
        assert_eq!(bench.towards("10.3.0.1"), forward(2, MACS[0]));
        assert_eq!(bench.rib.port_configs().len(), 3);
        bench.rib.set_port(port, None);
        bench.kernel([]);
        assert_eq!(bench.towards("10.3.0.1"), NextHop::Punt);
        assert!(bench.rib.link_named_as(port).is_none() && bench.rib.link_of(port).is_none());
        assert_eq!(bench.towards("10.1.0.1"), other);
    }
}

proptest! {
    // Each case needs new tables of the whole address space.
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn changes_lead_where_a_computation_from_scratch_leads(
        events in proptest::collection::vec(arbitrary_event(), 1..60),
        commit_every in 1..8_usize,
    ) {
        let mut bench = Bench::new();
        let mut naive = Naive { running: (1..5).map(|link| (link, true)).collect(), ..Naive::default() };
        for (number, event) in events.into_iter().enumerate() {
            naive.apply(&event);
            bench.rib.apply(Source::Kernel, event);
            if number % commit_every == 0 {
                bench.rib.commit(&mut bench.routes).unwrap();
            }
        }
        bench.rib.commit(&mut bench.routes).unwrap();
        for address in ["10.1.1.1", "10.1.1.2", "10.1.1.255", "10.1.9.9", "10.2.0.1", "192.0.2.1"] {
            let found = match bench.towards(address) {
                NextHop::Group(members) => members
                    .iter()
                    .map(|(id, _)| on_the_wire(bench.routes.next_hop(*id).unwrap()))
                    .collect(),
                single => vec![single],
            };
            prop_assert_eq!(found, naive.towards(address), "{}", address);
        }
    }
}

fn local(prefix: &str) -> Route {
    Route { table: Table::Local, ..Route::new(net(prefix), 0, RouteKind::Local, vec![via(1, "")]) }
}

/// A member that is down has no next hop, but its gateway counts.
#[test]
fn gateway_of_a_member_that_is_down_in_a_local_route_leaves_the_route_to_the_kernel() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 0, vec![via(2, "198.51.100.3"), via(1, "192.0.2.2")])]);
    bench.kernel([link(2, false)]);
    assert_eq!(bench.towards("10.1.1.1"), resolve(0, Some("192.0.2.2")));
    bench.kernel([Event::Route { route: local("198.51.100.0/24"), placement: Placement::Last }]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt);
}

/// The kernel then sends to the destination itself, also after the local route is removed.
#[test]
fn route_by_a_gateway_in_a_local_route_is_left_to_the_kernel() {
    let mut bench = Bench::new();
    bench.kernel([route("10.0.0.0/8", 0, vec![via(1, "198.51.100.3")])]);
    bench.kernel([neighbour(1, "198.51.100.3", Some(MACS[0]))]);
    assert_eq!(bench.towards("10.1.1.1"), forward(0, MACS[0]));
    let placement = Placement::Last;
    bench.kernel([Event::Route { route: local("198.51.100.0/24"), placement }]);
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt);
    assert_eq!(*bench.rib.by_own_gateways(), BTreeSet::from([net("10.0.0.0/8")]));
    bench.kernel([Event::RouteGone(local("198.51.100.0/24"))]);
    bench.kernel([route("10.2.0.0/16", 0, vec![via(1, "198.51.100.3")])]);
    assert_eq!(
        bench.towards("10.2.1.1"),
        NextHop::Punt,
        "the kernel does not say if it was in time"
    );
    bench.kernel([route("10.3.0.0/16", 0, vec![via(1, "192.0.2.2")])]);
    assert_eq!(bench.towards("10.3.1.1"), resolve(0, Some("192.0.2.2")));
}

#[test]
fn next_hops_beyond_the_table_are_left_to_the_kernel() {
    let mut bench = Bench::new();
    bench.kernel([route("172.16.0.0/12", 0, vec![via(1, "")])]);
    let address = |number: u32| IpAddr::from((0xac10_0002 + number).to_be_bytes()).to_string();
    let state = |number: u32, mac| neighbour(1, &address(number), mac);
    let mut refused = 0;
    for numbers in (0..40_000_u32).collect::<Vec<_>>().chunks(1000) {
        for number in numbers {
            bench.rib.apply(Source::Kernel, state(*number, Some(MACS[0])));
        }
        let errors = bench.rib.commit(&mut bench.routes).err().unwrap_or_default();
        refused += errors.len();
    }
    assert!((7_000..8_000).contains(&refused), "{refused}");
    assert_eq!(bench.towards(&address(0)), forward(0, MACS[0]));
    assert_eq!(bench.towards(&address(39_999)), NextHop::Punt);
    // Routes of networks, too.
    let via = vec![via(1, "192.0.2.2")];
    bench.rib.apply(Source::Kernel, route("10.0.0.0/8", 0, via));
    assert!(bench.rib.commit(&mut bench.routes).is_err());
    assert_eq!(bench.towards("10.1.1.1"), NextHop::Punt);
    for number in 0..10_000 {
        bench.rib.apply(Source::Kernel, state(number, None));
    }
    // Ids are free once no reader can use the old tables.
    for _ in 0..3 {
        let _ = bench.rib.commit(&mut bench.routes);
    }
    assert_eq!(bench.towards("10.1.1.1"), resolve(0, Some("192.0.2.2")));
    assert_eq!(bench.towards(&address(39_999)), forward(0, MACS[0]));
}

#[test]
fn loose_filter_drops_only_sources_of_discarding_routes() {
    let mut bench = Bench::new();
    let kind = |prefix: &str, kind| {
        let route = Route::new(net(prefix), 0, kind, Vec::new());
        Event::Route { route, placement: Placement::Last }
    };
    bench.kernel([
        kind("10.66.0.0/16", RouteKind::Blackhole),
        kind("10.67.0.0/16", RouteKind::Kernel),
    ]);
    assert_eq!(bench.rib.loosely_dropped(), None, "there is no default route");
    bench.kernel([route("0.0.0.0/0", 0, vec![via(1, "192.0.2.2")])]);
    let both = BTreeSet::from([net("10.66.0.0/16"), net("10.67.0.0/16")]);
    assert_eq!(bench.rib.loosely_dropped(), Some(both));
    bench.kernel([link(1, false)]);
    assert_eq!(bench.rib.loosely_dropped(), None);
}
