//! Source addresses of ICMP errors: the kernel's, after every change of addresses and routes.

use super::twins::{Counts, Twins};
use crate::harness::quiet;

/// Histories, in which `from` sets the networks of the senders. Most destinations have no route.
const HISTORIES: [(&str, &str); 9] = [
    ("sender in the network of another port", "from 192.0.2.64/26 2001:db8:2::2/127"),
    (
        "several addresses of the ingress port: the longest match, else the newest",
        "addr add 2001:db8:ff00::1/64 dev pin
        addr add 2001:db8:7::1/64 dev pin
        addr add 2001:db8:8::1/64 dev pin
        -6 route add 2001:db8:4000::/64 via 2001:db8:ffff::2 dev pin
        from 172.17.0.0/16 2001:db8:4000::/64
        addr del 2001:db8:8::1/64 dev pin",
    ),
    (
        "deprecated address",
        "addr change 2001:db8:ffff::1/64 dev pin preferred_lft 0
        addr add 2001:db8:ff00::1/64 dev pin
        addr change 2001:db8:ff00::1/64 dev pin preferred_lft 0
        addr change 2001:db8:ffff::1/64 dev pin preferred_lft forever",
    ),
    (
        "ingress port with a unique local address alone",
        "addr add fd00:1::1/64 dev pin
        addr del 2001:db8:ffff::1/64 dev pin
        -6 route add fd00:2::/64 via fd00:1::2 dev pin
        from 172.17.0.0/16 fd00:2::/64",
    ),
    ("ingress port with a link-local address alone", "addr del 2001:db8:ffff::1/64 dev pin"),
    (
        "address of an interface that is no port",
        "addr del 2001:db8:ffff::1/64 dev pin
        addr add 2001:db8:fffe:8000::1/48 dev pd",
    ),
    (
        "gateway in the second network of its port",
        "addr add 10.99.0.1/24 dev pb
        addr add 10.99.0.7/24 dev pb
        route add 10.78.0.0/16 via 10.99.0.2 dev pb
        -6 route add 2001:db8:7777::/64 via 2001:db8:2::2 dev pb
        from 10.78.0.0/16 2001:db8:7777::/64
        addr add 192.0.8.1/24 dev pb scope link",
    ),
    (
        "route with a source address",
        "route add 10.78.0.0/16 via 192.0.2.2 dev pb src 192.0.3.1
        -6 route add 2001:db8:7777::/64 via 2001:db8:2::2 dev pb src 2001:db8:3::1
        from 10.78.0.0/16 2001:db8:7777::/64
        route change 10.78.0.0/16 via 192.0.2.2 dev pb src 192.0.1.1",
    ),
    (
        // For packets without a route the kernel sends the error, from an address that the TUN
        // device chooses.
        "way back by an interface that is no port",
        "-6 route add unreachable default
        route add 10.78.0.0/16 via 192.0.9.2 dev pd
        -6 route add 2001:db8:7777::/64 via 2001:db8:9::2 dev pd
        from 10.78.0.0/16 2001:db8:7777::/64",
    ),
];

#[test]
fn icmp_errors_come_from_the_kernels_source_address() {
    quiet("icmp_errors_come_from_the_kernels_source_address", || {
        let mut twins = Twins::start(false);
        let mut counts = Counts::default();
        let differ = HISTORIES.iter().filter_map(|(name, history)| {
            let steps: Vec<String> = history.lines().map(|line| line.trim().to_owned()).collect();
            Some((name, twins.play(&steps, &mut counts)?))
        });
        let differences: Vec<_> = differ.collect();
        let totals = twins.stop();
        println!("{counts:?} {totals:?}");
        assert!(differences.is_empty(), "{differences:#?}");
        assert_eq!((counts.refused, counts.diverged), (0, 0), "{counts:?}");
        assert!(totals.generated > 0, "{totals:?}");
    });
}
