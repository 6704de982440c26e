//! Histories: after every change, packets leave Wattline as they leave the kernel alone.
//!
//! A history is a sequence of commands that run in a router with Wattline and in its twin with the
//! kernel alone. After each, probes to addresses at the ends of all prefixes are sent through both,
//! and the output is compared: link, bytes and ICMP errors. A difference is shrunk to the shortest
//! sequence that shows it. `WATTLINE_SEED` selects other histories, `WATTLINE_HISTORIES` their
//! number in the long tests.

#[path = "../../../crates/rib/tests/histories/generator.rs"]
mod generator;
#[path = "../../../crates/rib/tests/histories/search.rs"]
mod search;
mod sources;
mod twins;
mod wires;

use crate::harness::quiet;
use search::number;
use twins::{Counts, Twins};

/// Plays random histories and fails with the shortest form of the differences.
fn compare(by_xdp: bool, histories: u64, default_seed: u64) {
    let mut twins = Twins::start(by_xdp);
    let mut counts = Counts::default();
    let differences = search::differences(histories, default_seed, 5, |steps, is_shorter| {
        let mut aside = Counts::default();
        twins.play(steps, if is_shorter { &mut aside } else { &mut counts })
    });
    let totals = twins.stop();
    println!("{counts:?} {totals:?}");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(totals.balance(), "{totals:?}");
    assert_eq!(totals.xdp_forwarded > 0, by_xdp, "{totals:?}");
    // Wattline does not leave the work to the kernel.
    assert!(totals.forwarded * 4 > counts.packets, "{counts:?} {totals:?}");
}

#[test]
fn random_histories_end_in_the_kernels_packets_with_workers() {
    quiet("random_histories_end_in_the_kernels_packets_with_workers", || compare(false, 2, 1));
}

#[test]
fn random_histories_end_in_the_kernels_packets_with_xdp_programs() {
    quiet("random_histories_end_in_the_kernels_packets_with_xdp_programs", || compare(true, 2, 1));
}

#[test]
#[ignore = "takes some seconds per history: `make test-long`"]
fn many_random_histories_end_in_the_kernels_packets_with_workers() {
    quiet("many_random_histories_end_in_the_kernels_packets_with_workers", || {
        compare(false, number("WATTLINE_HISTORIES", 200), 2);
    });
}

#[test]
#[ignore = "takes some seconds per history: `make test-long`"]
fn many_random_histories_end_in_the_kernels_packets_with_xdp_programs() {
    quiet("many_random_histories_end_in_the_kernels_packets_with_xdp_programs", || {
        compare(true, number("WATTLINE_HISTORIES", 200), 2);
    });
}

/// Histories after which other packets left than the kernel's.
const FIXED: [&str; 7] = [
    // XDP programs sent packets longer than the MTU of a route outside of the table main.
    "route add 10.64.1.0/24 via 192.0.2.2 dev pb mtu 1300 table default
    route add 10.64.1.128/25 via 192.0.1.2 dev pa mtu 1300 table local",
    // A member behind no port got a share of its share: the kernel chose among all members once more.
    "route add 10.64.1.0/24 nexthop via 192.0.1.2 dev pa weight 1 nexthop via 192.0.9.2 dev pd weight 1
    link set pd down
    link set pd up",
    "nexthop add id 1 via 192.0.2.3 dev pb
    nexthop add id 2 via 192.0.9.2 dev pd
    nexthop add id 10 group 1,5/2,3
    route add 10.64.1.0/24 nhid 10",
    // For packets longer than the link's MTU the kernel reported that MTU, and Wattline the
    // route's.
    "-6 route replace ::/0 metric 20 mtu 1300 dev pc
    link set pc mtu 1400",
    // A route wider than its link.
    "link set pc mtu 1280
    route append 0.0.0.0/0 metric 10 mtu 1300 via 192.0.3.2 dev pc",
    "link set pb mtu 1280
    route replace 0.0.0.0/0 mtu 1400 nexthop via 192.0.2.3 dev pb weight 1 nexthop via 192.0.1.2 dev pa weight 5",
    // With the link, the kernel narrowed and widened its IPv6 routes.
    "-6 route replace ::/0 metric 20 mtu 1400 via 2001:db8:3::2 dev pc
    link set pc mtu 1300
    link set pc mtu 1500",
];

fn fixed(by_xdp: bool) {
    let mut twins = Twins::start(by_xdp);
    let mut counts = Counts::default();
    for history in FIXED {
        let steps: Vec<String> = history.lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(twins.play(&steps, &mut counts), None, "{steps:#?}");
    }
    twins.stop();
    assert_eq!((counts.refused, counts.diverged), (0, 0), "{counts:?}");
}

#[test]
fn fixed_histories_end_in_the_kernels_packets_with_workers() {
    quiet("fixed_histories_end_in_the_kernels_packets_with_workers", || fixed(false));
}

#[test]
fn fixed_histories_end_in_the_kernels_packets_with_xdp_programs() {
    quiet("fixed_histories_end_in_the_kernels_packets_with_xdp_programs", || fixed(true));
}
