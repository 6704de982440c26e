//! Histories that once led to decisions other than the kernel's.

use super::laboratory::{Counts, play};

/// Plays the lines as a history.
fn agrees(history: &str) {
    let steps: Vec<String> = history.lines().map(|line| line.trim().to_owned()).collect();
    let difference = play(&steps, &mut Counts::default());
    assert_eq!(difference, None, "{steps:#?}");
}

#[test]
fn only_the_deleted_member_of_a_weighted_ipv6_route_is_removed() {
    agrees(
        "-6 route add 2001:db8:64:1::/64 nexthop via 2001:db8:1::2 dev pa weight 5 nexthop via 2001:db8:2::2 dev pb weight 2
        -6 route del 2001:db8:64:1::/64 via 2001:db8:2::2 dev pb",
    );
}

#[test]
fn deleted_route_is_the_one_with_its_attributes() {
    agrees(
        "route add 10.64.1.0/24 via 192.0.1.2 dev pa proto static
        route append 10.64.1.0/24 via 192.0.1.2 dev pa proto bgp
        route append 10.64.1.0/24 via 192.0.2.2 dev pb proto bgp
        route del 10.64.1.0/24 via 192.0.1.2 proto static
        route del 10.64.1.0/24 via 192.0.1.2 proto bgp",
    );
}

#[test]
fn appended_and_prepended_routes_keep_their_order() {
    agrees(
        "route add 10.64.1.0/24 via 192.0.1.2 dev pa
        route append 10.64.1.0/24 via 192.0.2.2 dev pb
        route prepend 10.64.1.0/24 via 192.0.3.2 dev pc
        route replace 10.64.1.0/24 via 192.0.1.3 dev pa
        route del 10.64.1.0/24",
    );
}

#[test]
fn ipv6_route_that_cannot_join_is_replaced_by_one_of_its_kind() {
    agrees(
        "-6 route add 2001:db8:64:1::/64 via 2001:db8:1::2 dev pa
        -6 route append 2001:db8:64:1::/64 dev pb
        -6 route replace 2001:db8:64:1::/64 dev pc
        -6 route del 2001:db8:64:1::/64 via 2001:db8:1::2",
    );
}

#[test]
fn local_prefixes_are_left_to_the_kernel() {
    agrees(
        "route add local 10.64.0.0/16 dev lo
        route add 10.64.1.0/24 via 192.0.1.2 dev pa
        -6 route add local 2001:db8:64::/48 dev lo
        -6 route add 2001:db8:64:1::/64 via 2001:db8:1::2 dev pa
        route del local 10.64.0.0/16 dev lo
        -6 route del local 2001:db8:64::/48 dev lo",
    );
}

#[test]
fn broadcast_route_is_left_to_the_kernel() {
    agrees(
        "route add 10.64.0.0/16 via 192.0.1.2 dev pa
        route add broadcast 10.64.1.7 dev pa",
    );
}

#[test]
fn default_table_is_looked_up_after_the_main_table() {
    agrees(
        "route add 10.64.1.0/24 via 192.0.1.2 dev pa table default
        route add 10.64.0.0/16 via 192.0.2.2 dev pb",
    );
}

#[test]
fn routes_for_some_packets_are_left_to_the_kernel() {
    agrees(
        "-6 route add 2001:db8:64::/48 from 2001:db8:ffff::/64 via 2001:db8:1::2 dev pa
        route add 10.64.0.0/16 via 192.0.1.2 dev pa
        route add 10.64.0.0/16 tos 0x10 via 192.0.2.2 dev pb",
    );
}

#[test]
fn preferred_ipv6_route_is_left_to_the_kernel() {
    agrees(
        "-6 route add 2001:db8:64::/48 dev pa
        -6 route append 2001:db8:64::/48 dev pb pref high",
    );
}

#[test]
fn throw_ends_the_lookup_in_the_main_table() {
    agrees(
        "route add 0.0.0.0/0 via 192.0.1.2 dev pa
        route add throw 10.64.0.0/16",
    );
}

#[test]
fn link_without_a_carrier_keeps_its_routes() {
    agrees(
        "route add 0.0.0.0/0 via 192.0.1.2 dev pa
        -6 route add ::/0 via 2001:db8:1::2 dev pa
        link set pb1 down",
    );
}

#[test]
fn link_without_a_carrier_loses_its_routes_on_request() {
    agrees(
        "sysctl ipv4/conf/pb/ignore_routes_with_linkdown=1
        route add 0.0.0.0/0 via 192.0.1.2 dev pa
        link set pb1 down
        sysctl ipv4/conf/pb/ignore_routes_with_linkdown=0",
    );
}

#[test]
fn group_without_a_carrier_is_left_to_the_kernel() {
    agrees(
        "-6 route add 2001:db8:64::/48 nexthop via 2001:db8:1::2 dev pa nexthop via 2001:db8:2::2 dev pb
        link set pb1 down
        sysctl ipv6/conf/pb/ignore_routes_with_linkdown=1",
    );
}

#[test]
fn dead_member_is_not_used() {
    agrees(
        "route add 10.64.0.0/16 nexthop via 192.0.1.2 dev pa nexthop via 192.0.2.2 dev pb
        -6 route add 2001:db8:64::/48 nexthop via 2001:db8:1::2 dev pa nexthop via 2001:db8:2::2 dev pb
        addr flush dev pb
        sysctl ipv6/conf/pb/disable_ipv6=1
        addr add 192.0.2.1/24 dev pb",
    );
}

#[test]
fn members_on_the_link_are_left_to_the_kernel() {
    agrees("route add 10.64.0.0/16 nexthop dev pa nexthop dev pb");
}

#[test]
fn forwarding_is_switched_by_interface_and_for_all() {
    agrees(
        "route add 10.64.1.0/24 via 192.0.1.2 dev pa
        sysctl ipv4/conf/pin/forwarding=0
        sysctl ipv4/ip_forward=0
        sysctl ipv4/conf/pin/forwarding=1
        sysctl ipv6/conf/all/forwarding=0
        sysctl ipv4/ip_forward=1
        sysctl ipv6/conf/all/forwarding=1",
    );
}

#[test]
fn first_of_several_default_routes_is_used_whatever_its_gateway_does() {
    agrees(
        "route add default via 192.0.1.2 dev pa
        route append default via 192.0.2.2 dev pb
        route append default via 192.0.3.2 dev pc metric 10
        neigh del 192.0.1.2 dev pa
        neigh del 192.0.2.2 dev pb
        neigh replace 192.0.2.2 dev pb lladdr 02:00:00:00:02:02 nud permanent
        route del default via 192.0.1.2 dev pa
        route append default dev pb",
    );
}

/// Linux reports each route of a next-hop object that changes as if it were replaced.
#[test]
fn route_next_to_one_with_a_changed_next_hop_object_stays() {
    const RIVALS: &str = "-6 nexthop add id 11 via 2001:db8:1::2 dev pa
        -6 route add prohibit 2001:db8:64:1::/64
        -6 route append 2001:db8:64:1::/64 nhid 11
        ";
    for then in [
        "-6 nexthop replace id 11 via 2001:db8:1::2 dev pa
        -6 route del 2001:db8:64:1::/64 nhid 11",
        "-6 route replace 2001:db8:64:1::/64 nhid 11
        -6 route del 2001:db8:64:1::/64 nhid 11
        -6 route del 2001:db8:64:1::/64",
    ] {
        agrees(&format!("{RIVALS}{then}"));
    }
}
