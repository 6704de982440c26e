//! Everything in the kernel's path that may decide about a forwarded packet: one row for each.
//!
//! A new mechanism begins with a row here. `judge` turns what is detected into reasons,
//! `wattline_linux::netlink::forward_path` reads it, `wattline-rib` understands routes. The table of
//! `docs/reference/kernel-features.md` is made from these rows.

use Standing::{Detected, Understood, Unseen};

/// Relation of Wattline to a mechanism of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Wattline decides as the kernel does.
    Understood,
    /// The packets, or ports, that it concerns are left to the kernel.
    Detected,
    /// It is ignored; the treatment has the reason or what is there instead.
    Unseen,
}

/// A mechanism of the kernel.
struct Hook {
    standing: Standing,
    /// The mechanism, for users.
    feature: &'static str,
    /// Fate of the packets.
    treatment: &'static str,
    /// Files and names of tests.
    tests: &'static [&'static str],
}

#[rustfmt::skip]
const HOOKS: &[Hook] = &[
    Hook {
        standing: Understood,
        feature: "routes of tables local, main, default; metrics, blackhole, unreachable, prohibit, MTU of a route",
        treatment: "table main honoured, with the kernel's order of additions and deletions; an MTU above the link's, other tables, and prefixes inside one of table local, left",
        tests: &["rib/tests/histories/main.rs::random_histories_end_in_the_kernels_decisions", "system/histories/mod.rs::random_histories_end_in_the_kernels_packets_with_workers", "system/histories/mod.rs::random_histories_end_in_the_kernels_packets_with_xdp_programs"],
    },
    Hook {
        standing: Detected,
        feature: "sources in local routes that a user added; with these or `ip rule`, broadcast addresses of other ports",
        treatment: "their packets left; with `[ipsec]` only reported",
        tests: &["system/takeover.rs::nothing_is_forwarded_from_local_routes"],
    },
    Hook {
        standing: Detected,
        feature: "gateways within local routes, then or before",
        treatment: "their routes left",
        tests: &["rib/src/tests.rs::route_by_a_gateway_in_a_local_route_is_the_kernels"],
    },
    Hook {
        standing: Understood,
        feature: "`ignore_routes_with_linkdown`, next hops that the kernel marks dead",
        treatment: "honoured; a group of which one has no carrier is left",
        tests: &["rib/tests/histories/fixed.rs::link_without_a_carrier_loses_its_routes_on_request", "rib/tests/histories/fixed.rs::dead_member_is_not_used"],
    },
    Hook {
        standing: Understood,
        feature: "next-hop objects and groups (`ip nexthop`), with their changes",
        treatment: "honoured; with unknown attributes, left",
        tests: &["linux/tests/netlink.rs::routes_follow_the_next_hops_that_they_name", "linux/src/netlink/nexthop.rs::messages_are_read"],
    },
    Hook {
        standing: Understood,
        feature: "several next hops by weight",
        treatment: "honoured if all have a gateway, otherwise left. Some flows [change their next hop](#flows-that-change-their-next-hop)",
        tests: &["system/multipath.rs::flows_spread_over_next_hops_by_weight_and_keep_to_one", "system/one_next_hop.rs::flows_by_ports_keep_their_next_hop_whoever_forwards"],
    },
    Hook {
        standing: Understood,
        feature: "ICMP errors for a destination behind several next hops",
        treatment: "honoured: they follow the flow that they quote",
        tests: &["system/multipath.rs::icmp_errors_follow_the_flow_that_they_quote"],
    },
    Hook {
        standing: Understood,
        feature: "several default routes of IPv4 with one metric",
        treatment: "honoured: forwarded packets take the first, whatever the state of its gateway",
        tests: &["rib/tests/histories/fixed.rs::first_of_several_default_routes_is_used_whatever_its_gateway_does"],
    },
    Hook {
        standing: Detected,
        feature: "routes with an encapsulation, by type of service, by source (`from`), with a preference (`pref`), with `expires` unless advertised, of type throw, and with unknown attributes or metrics",
        treatment: "their prefix left, with a warning that names the attribute",
        tests: &["rib/tests/histories/fixed.rs::routes_for_some_packets_are_the_kernels", "linux/tests/netlink.rs::routes_of_every_kind_are_dumped_and_followed"],
    },
    Hook {
        standing: Detected,
        feature: "decisions for random addresses (`[router] audit`), or of `wattline audit`",
        treatment: "compared with the kernel's; the prefix of a lasting difference is left, and the tables read again",
        tests: &["router/src/audit.rs::planted_mismatch_is_left_to_the_kernel_until_the_tables_agree", "system/audit.rs::audit_on_demand_finds_a_missed_change_and_nothing_else", "system/audit.rs::half_an_hour_of_changes_raises_no_alarm"],
    },
    Hook {
        standing: Understood,
        feature: "routes that vanish without a notification",
        treatment: "honoured: the tables are read again",
        tests: &["linux/tests/netlink.rs::routes_that_vanish_silently_with_their_link_are_noticed"],
    },
    Hook {
        standing: Understood,
        feature: "neighbours, addresses",
        treatment: "honoured",
        tests: &["rib/src/tests.rs::a_gateway_is_resolved_moves_and_is_lost_for_all_its_routes", "rib/src/tests.rs::own_addresses_broadcasts_and_other_links_are_the_kernels"],
    },
    Hook {
        standing: Understood,
        feature: "ARP settings (`arp_ignore`, `proxy_arp`, …), arptables",
        treatment: "honoured: ARP is left to the kernel",
        tests: &["crates/xdp/src/tests.rs::every_frame_gets_its_verdict_and_is_counted_once"],
    },
    Hook {
        standing: Detected,
        feature: "more than 32,766 next hops and neighbours",
        treatment: "those beyond left",
        tests: &["rib/src/tests.rs::next_hops_beyond_the_table_are_the_kernels"],
    },
    Hook {
        standing: Understood,
        feature: "VLAN subinterfaces (802.1Q)",
        treatment: "honoured; a port whose card takes their tags off (`rx-vlan-offload`) is left; without subinterfaces it forwards such frames of foreign VLANs",
        tests: &["rib/src/tests.rs::vlan_subinterfaces_send_with_their_tag", "router/src/takeover/judge.rs::a_port_with_vlans_whose_tags_are_taken_off_is_left", "tests/rig/vlan.rs::packets_of_vlans_are_forwarded_by_workers"],
    },
    Hook {
        standing: Detected,
        feature: "VLAN subinterfaces by 802.1ad, or with `egress-qos-map` or `ingress-qos-map`",
        treatment: "left, with a warning",
        tests: &["linux/src/netlink/decode.rs::only_subinterfaces_by_802_1q_have_a_vlan", "linux/src/netlink/decode.rs::subinterface_with_priorities_is_the_kernels"],
    },
    Hook {
        standing: Detected,
        feature: "several tags on one frame, VLANs without a subinterface, protocols other than IP (MPLS, PPPoE), frames for other stations (macvlan)",
        treatment: "left, packet by packet",
        tests: &["crates/xdp/src/tests.rs::every_frame_gets_its_verdict_and_is_counted_once"],
    },
    Hook {
        standing: Detected,
        feature: "ARP, neighbour discovery, DHCP replies to clients, multicast, local packets, IPv4 options, hop-by-hop headers",
        treatment: "left, packet by packet. With `[ipsec]`, `[[acl]]` or `[urpf]`, workers check first those that the kernel would forward; DHCP replies reach programs that read frames, with the destination address 00:00:00:00:00:00, and nobody else",
        tests: &["system/differential.rs::wattline_agrees_with_the_kernel", "system/differential.rs::xdp_programs_agree_with_the_kernel", "system/guards.rs::no_generated_frame_passes_a_guard", "system/consumers.rs::readers_of_frames_get_them", "system/consumers.rs::dhcp_client_of_a_port_gets_and_renews_its_address"],
    },
    Hook {
        standing: Detected,
        feature: "routes out of interfaces that are no ports (PPPoE, WireGuard, bridges)",
        treatment: "left by destination, up to 65,536 prefixes of each family that differ from those around them, else the family",
        tests: &["system/consumers.rs::egress_interface_that_is_no_port_gets_what_the_kernel_forwards"],
    },
    Hook {
        standing: Understood,
        feature: "ICMP redirects (`send_redirects` of all or of the interface; IPv6 always)",
        treatment: "honoured: packets that leave by the interface they came in by are left, but with guards, and from workers beyond 65,536 routes",
        tests: &["system/consumers.rs::senders_are_redirected_as_by_the_kernel"],
    },
    Hook {
        standing: Understood,
        feature: "neighbour proxies (`proxy_ndp`)",
        treatment: "honoured; at guarded ports within five seconds, without VLANs",
        tests: &["system/consumers.rs::proxied_addresses_are_answered_for"],
    },
    Hook {
        standing: Detected,
        feature: "checksums that senders leave to hardware, at virtual interfaces (veth)",
        treatment: "such packets of TCP, UDP and SCTP left, with a warning; workers finish them at guarded ports. Inside tunnels they are not seen: `ethtool -K INTERFACE tx off` at the far end",
        tests: &["system/consumers.rs::tcp_passes_between_hosts_that_leave_checksums_to_hardware"],
    },
    Hook {
        standing: Understood,
        feature: "`forwarding` of all interfaces or one, `force_forwarding`, `disable_ipv6`",
        treatment: "honoured: a family that is off on a port, or has an unknown setting, is left there, or dropped if guarded. Ignored with `kernel_routes = false`",
        tests: &["system/takeover.rs::forwarding_that_is_switched_off_stops_and_is_reported", "crates/xdp/src/tests.rs::guarded_interface_drops_a_family_that_the_kernel_does_not_forward"],
    },
    Hook {
        standing: Detected,
        feature: "`accept_local`, `route_localnet`, `accept_redirects` (with that of all), `net.ipv6.conf.*.mtu` below the link's; `ip_forward_use_pmtu`",
        treatment: "their port left; for the last, all ports",
        tests: &["router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Detected,
        feature: "nftables: base chains on prerouting, forward, postrouting with rules",
        treatment: "packets left that a rule matches by `iif`, `saddr` and `daddr` before it acts. All ports left for policy drop, rules on connections (`ct`, NAT), with maps, or not understood, as those of `iptables-nft`",
        tests: &["router/src/takeover/judge.rs::filter_is_judged_by_the_packets_that_its_rules_concern", "system/takeover.rs::rules_that_come_and_go_are_heeded"],
    },
    Hook {
        standing: Detected,
        feature: "the same, and `ip rule` by a prefix, on ports with `[[acl]]` or `[urpf]`",
        treatment: "these packets dropped, none left, others judged as usual; with `[ipsec]` the whole port blocked",
        tests: &["system/ipsec_clear.rs::port_that_would_be_left_is_blocked", "filter/tests/live.rs::rule_of_a_prefix_stops_its_packets_alone_on_a_port_with_a_list", "filter/tests/live.rs::a_list_holds_when_a_rule_of_the_kernel_appears"],
    },
    Hook {
        standing: Understood,
        feature: "flowtables of nftables (Linux 6.10)",
        treatment: "honoured with `xdp_forward = \"on\"` on ports left for chains, `ip rule`, `rp_filter` or iptables: XDP programs forward and translate established, untagged IPv4 flows. Others left, and flowtables with `counter` or `flags offload`",
        tests: &["tests/rig/nat.rs::flows_of_a_flowtable_are_forwarded_and_translated_by_xdp_programs", "router/src/takeover/judge.rs::flows_are_forwarded_at_ports_of_a_plain_flowtable_alone"],
    },
    Hook {
        standing: Detected,
        feature: "nftables: chains of family netdev, and ingress chains, on an interface",
        treatment: "its port left",
        tests: &["linux/tests/netlink.rs::what_has_a_say_in_the_kernels_forwarding_is_found", "router/src/takeover/judge.rs::what_can_be_told_by_port_is"],
    },
    Hook {
        standing: Detected,
        feature: "old iptables and ip6tables (`-legacy`): tables with rules, or a policy that drops",
        treatment: "all ports left",
        tests: &["system/takeover.rs::features_that_appear_are_noticed_and_decide", "linux/tests/netlink.rs::what_has_a_say_in_the_kernels_forwarding_is_found", "router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Detected,
        feature: "virtual services (IPVS)",
        treatment: "all ports left",
        tests: &["linux/src/netlink/forward_path/virtual_services.rs::services_are_counted_without_their_servers", "router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Detected,
        feature: "policy routing (`ip rule`) beyond the usual rules",
        treatment: "with `from` or `to`: packets of that prefix left; others (`not`, `uidrange` from 0, unknown attributes): all ports left; with `iif`, on that port ([details](#policy-routing))",
        tests: &["filter/tests/live.rs::packets_of_a_prefix_alone_are_left_to_the_kernel", "router/src/takeover/judge.rs::what_can_be_told_by_prefix_leaves_its_packets_alone", "router/src/takeover/judge.rs::circumstances_make_some_of_it_harmless", "linux/src/netlink/forward_path/rules.rs::attribute_or_flag_without_a_known_meaning_makes_another_rule", "system/takeover.rs::features_that_appear_are_noticed_and_decide"],
    },
    Hook {
        standing: Detected,
        feature: "VRF",
        treatment: "a port in one left",
        tests: &["router/src/takeover/judge.rs::what_can_be_told_by_port_is"],
    },
    Hook {
        standing: Detected,
        feature: "bridge, bond, team",
        treatment: "a port that belongs to one left",
        tests: &["linux/tests/netlink.rs::what_has_a_say_in_the_kernels_forwarding_is_found", "router/src/takeover/judge.rs::a_team_and_members_of_a_bond_are_left"],
    },
    Hook {
        standing: Detected,
        feature: "links without ARP, of kind netkit, and with unknown attributes",
        treatment: "their port left",
        tests: &["linux/src/netlink/forward_path/masters.rs::property_without_a_known_meaning_is_named", "router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Understood,
        feature: "link aggregation: a port that is a bond",
        treatment: "honoured by the bonding driver ([what to know](#bonds)). Left while a member merges packets (`gro`), and while it has VLAN subinterfaces",
        tests: &["tests/rig/lag.rs::a_bond_is_forwarded_through_by_workers", "router/src/takeover/judge.rs::a_bond_is_left_where_its_members_change_what_they_receive"],
    },
    Hook {
        standing: Detected,
        feature: "link aggregation: a port that is a team",
        treatment: "left",
        tests: &["linux/src/netlink/forward_path/masters.rs::a_bond_is_told_from_its_members_and_from_others", "router/src/takeover/judge.rs::a_team_and_members_of_a_bond_are_left"],
    },
    Hook {
        standing: Detected,
        feature: "`xmit_hash_policy` of a bond by more than MAC addresses",
        treatment: "refused by `takeover = \"strict\"`, otherwise ignored with a warning",
        tests: &["router/src/takeover/judge.rs::how_a_bond_spreads_is_told_and_leaves_nothing", "linux/src/netlink/forward_path/spread.rs::only_what_is_hashed_beyond_mac_addresses_counts"],
    },
    Hook {
        standing: Detected,
        feature: "filters on ingress, egress and any discipline (`tc filter`)",
        treatment: "their port left",
        tests: &["system/takeover.rs::features_that_appear_are_noticed_and_decide", "linux/tests/netlink.rs::what_has_a_say_in_the_kernels_forwarding_is_found"],
    },
    Hook {
        standing: Detected,
        feature: "BPF programs at an interface by a link (tcx, netkit)",
        treatment: "their port left",
        tests: &["linux/src/netlink/forward_path/programs.rs::program_of_netfilter_is_found_in_its_namespace_alone", "system/takeover.rs::features_that_appear_are_noticed_and_decide", "router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Detected,
        feature: "BPF programs of netfilter (`bpftool link`)",
        treatment: "all ports left within five seconds. Without CAP_PERFMON or `/sys/kernel/btf`: a warning, refused by `strict`",
        tests: &["linux/src/netlink/forward_path/programs.rs::program_of_netfilter_is_found_in_its_namespace_alone", "system/takeover.rs::features_that_appear_are_noticed_and_decide", "router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Detected,
        feature: "queueing disciplines that shape, order or drop, also below another (`mq`); limits below a packet, `fq maxrate`, `ce_threshold`, unknown options",
        treatment: "their port left",
        tests: &["linux/tests/netlink.rs::disciplines_are_found_at_any_depth", "linux/src/netlink/forward_path/queueing.rs::option_that_decides_about_packets_is_named", "system/takeover.rs::features_that_appear_are_noticed_and_decide"],
    },
    Hook {
        standing: Detected,
        feature: "XDP programs of others on a port",
        treatment: "their port left, as `failed`, until they are gone",
        tests: &["system/starting.rs::occupied_port_is_attached_once_it_is_free"],
    },
    Hook {
        standing: Understood,
        feature: "reverse-path filter of a port (`rp_filter`)",
        treatment: "honoured where `[urpf]` is at least as strict, for IPv6 too. Otherwise the port left, or, if loose with a default route and an address on the port, sources whose routes discard",
        tests: &["filter/tests/live.rs::sources_are_checked_as_by_the_kernel", "router/src/takeover/judge.rs::a_filter_that_is_in_force_here_is_honoured", "router/src/takeover/judge.rs::loose_filter_leaves_what_it_drops"],
    },
    Hook {
        standing: Understood,
        feature: "`rp_filter` of all interfaces, for packets that workers leave",
        treatment: "honoured: the TUN device gets the address 192.0.0.8 of scope host and a loose filter",
        tests: &["linux/src/tun.rs::what_is_written_is_forwarded_under_every_reverse_path_filter"],
    },
    Hook {
        standing: Understood,
        feature: "jumbo frames",
        treatment: "honoured up to an MTU of 16110 ([how](../explanation/dataplane.md#jumbo-frames)); longer packets by XDP programs, or left, with a warning ([details](#long-packets))",
        tests: &["filter/tests/live.rs::jumbo_frames_are_forwarded_up_to_the_limit_that_is_said", "system/life.rs::packets_too_long_for_the_sockets_go_by_the_kernel", "crates/xdp/src/forward/tests.rs::frames_in_fragments_are_forwarded_where_they_are_taken"],
    },
    Hook {
        standing: Understood,
        feature: "source address of ICMP errors",
        treatment: "honoured, with `icmp_errors_use_inbound_ifaddr` and `ip addrlabel` at their defaults. The kernel's IPv6 errors about packets from workers come from any address",
        tests: &["system/histories/sources.rs::icmp_errors_come_from_the_kernels_source_address"],
    },
    Hook {
        standing: Understood,
        feature: "IPsec policies (`ip xfrm policy`)",
        treatment: "honoured with `[ipsec]`; otherwise packets of the longer prefix of each without an own address left, or all ports",
        tests: &["filter/tests/live.rs::packets_of_a_prefix_alone_are_left_to_the_kernel", "system/ipsec.rs::two_gateways_join_two_networks", "linux/src/netlink/xfrm/decode.rs::policies_of_interfaces_marks_and_sockets_are_known"],
    },
    Hook {
        standing: Detected,
        feature: "IPsec defaults (`ip xfrm policy setdefault`, fwd or out `block`)",
        treatment: "all ports left; with `[ipsec]` blocked",
        tests: &["system/takeover.rs::features_that_appear_are_noticed_and_decide", "router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Unseen,
        feature: "limits of ICMP errors (`icmp_ratelimit`, `icmp_msgs_per_sec`)",
        treatment: "1,000 a second for each kind and worker, half in equal parts for 64 groups of senders",
        tests: &["dataplane/src/nodes/icmp_error.rs::one_sender_does_not_use_up_the_messages_of_others", "dataplane/src/nodes/icmp_error.rs::errors_of_one_kind_do_not_use_up_what_others_may_say"],
    },
    Hook {
        standing: Unseen,
        feature: "packet taps (tcpdump, AF_PACKET)",
        treatment: "`wattline capture`",
        tests: &["router/tests/watching.rs::a_capture_has_packets_in_and_out_with_what_became_of_them", "system/multipath.rs::capture_changes_no_next_hop"],
    },
    Hook {
        standing: Unseen,
        feature: "conntrack without a rule that uses it",
        treatment: "its table does not contain the packets",
        tests: &["system/takeover.rs::rules_that_come_and_go_are_heeded"],
    },
    Hook {
        standing: Unseen,
        feature: "what ICMP errors have taught the kernel of single destinations (path MTU, ICMPv6 redirects at a port that does not forward)",
        treatment: "forwarded by route and MTU alone: the kernel announces neither, and few routers are sent any",
        tests: &["router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
    Hook {
        standing: Unseen,
        feature: "security modules with labelled networks, kernel modules with own hooks, tracing programs that change results",
        treatment: "forwarded without them: the kernel does not list them",
        tests: &["router/src/takeover/judge.rs::everything_that_may_decide_leaves_its_packets"],
    },
];

/// Renders a table for each standing, as the page has them.
fn tables() -> String {
    let mut tables = String::new();
    for standing in [Understood, Detected, Unseen] {
        tables +=
            &format!("## {standing:?}\n\n| kernel feature | in Wattline | test |\n|---|---|---|\n");
        for Hook { feature, treatment, tests, .. } in
            HOOKS.iter().filter(|it| it.standing == standing)
        {
            let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            tables += &format!("| {feature} | {treatment} | {} |\n", tests.join(", "));
        }
        tables.push('\n');
    }
    tables
}

/// `UPDATE_GOLDEN=1 cargo test -p wattline-router hooks` rewrites the page.
#[test]
fn page_has_the_tables() {
    const PAGE: &str = "docs/reference/kernel-features.md";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("## Understood").unwrap();
    let (_, after) = rest.split_once("## Flows").unwrap();
    let expected = format!("{before}{}## Flows{after}", tables());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, expected, "{PAGE} is not of the table: UPDATE_GOLDEN=1 rewrites it");
}

#[test]
fn every_row_has_a_test() {
    for hook in HOOKS {
        assert!(!hook.tests.is_empty(), "{}", hook.feature);
        let leaves = ["left", "refused", "stopped", "dropped"]
            .iter()
            .any(|word| hook.treatment.contains(word));
        assert!(hook.standing != Detected || leaves, "{}: {}", hook.feature, hook.treatment);
        let is_honoured = hook.treatment.contains("honoured");
        assert!(hook.standing != Understood || is_honoured, "{}: {}", hook.feature, hook.treatment);
    }
    assert!(HOOKS.iter().any(|hook| hook.standing == Unseen));
}
