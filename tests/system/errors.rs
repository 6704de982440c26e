//! ICMP errors: their receivers and their source addresses.

use crate::crafted::{FAR_V4, FAR_V6, udp4, udp6};
use crate::differential::RATE_PPS;
use crate::harness::{Bench, KERNEL};
use crate::multipath::{OTHER, SECOND};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::raw::Sniffer;
use wattline_testbed::replay;
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Station, Topology, connect};

quietly_with_every_kind_of_forwarder!(
    no_error_is_sent_to_a_whole_network,
    error_source_is_the_egress_port_in_ipv4_and_the_ingress_port_in_ipv6,
    errors_reach_senders_behind_an_interface_that_is_no_port,
);

/// A router that cannot reach the crafted packets' far destinations.
fn start(forwarder: Forwarder, prepare: impl FnOnce(&Topology)) -> Bench {
    let options = Options { static_neighbours: true, unlimited_errors: true, ..Options::default() };
    let bench = Bench::start(options, forwarder);
    prepare(&bench.topology);
    let router = &bench.topology.router;
    for route in ["unreachable 203.0.113.0/24", "unreachable 2001:db8:7::/48"] {
        router.ip(&format!("route add {route}")).unwrap();
    }
    bench
}

/// Returns the source addresses of the destination-unreachable messages that the router sends to a
/// station, or to all stations there, for a frame from the source.
fn answers(bench: &Bench, at: (&Namespace, Station), by: Station, frame: Vec<u8>) -> Vec<Vec<u8>> {
    let is_answer = move |frame: &[u8]| {
        let icmp = (frame.get(23), frame.get(34)) == (Some(&1), Some(&3));
        let icmp6 = (frame.get(20), frame.get(54)) == (Some(&58), Some(&1));
        frame.get(6..12) == Some(&by.mac)
            && match frame.get(12..14) {
                Some([0x08, 0x00]) => icmp,
                Some([0x86, 0xdd]) => icmp6,
                _ => false,
            }
    };
    let sniffer = Sniffer::start(at.0, at.1.interface, is_answer).unwrap();
    replay::send(&bench.topology, &[frame], RATE_PPS).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let source =
        |frame: &[u8]| if frame[12] == 8 { &frame[26..30] } else { &frame[22..38] }.to_vec();
    sniffer.finish().iter().map(|received| source(&received.frame)).collect()
}

/// The same, repeated until there is one: routes take a moment to arrive.
fn answer(bench: &Bench, at: (&Namespace, Station), by: Station, frame: &[u8]) -> Vec<u8> {
    let mut tries = (0..20).flat_map(|_| answers(bench, at, by, frame.to_vec()));
    tries.next().expect("no error arrives")
}

/// A packet whose source names no single host gets no ICMP error (RFC 1812 4.3.2.7, RFC 4443 2.4
/// e.6). Linux sends one to a directed broadcast address all the same, which shows that this test
/// would notice it.
fn no_error_is_sent_to_a_whole_network(forwarder: Forwarder) {
    let bench = start(forwarder, |_| {});
    let here = (&bench.topology.source, SOURCE);
    let from4 = |source| udp4(source, FAR_V4, 64, 30);
    let from6 = |source| udp6(source, FAR_V6, 64, 30);
    assert_eq!(answer(&bench, here, LEFT, &from4(SOURCE.v4)), LEFT.v4.octets());
    assert_eq!(answer(&bench, here, LEFT, &from6(SOURCE.v6)), LEFT.v6.octets());
    let broadcast = answers(&bench, here, LEFT, from4(Ipv4Addr::new(198, 18, 0, 255)));
    assert_eq!(broadcast.len(), usize::from(forwarder == KERNEL));
    let anycast = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 0);
    assert!(answers(&bench, here, LEFT, from6(anycast)).is_empty());
    bench.finish();
}

/// RFC 1812 4.3.2.4; RFC 4443 2.2 leaves it open. The packets do not arrive from the side of their
/// senders.
fn error_source_is_the_egress_port_in_ipv4_and_the_ingress_port_in_ipv6(forwarder: Forwarder) {
    let bench = start(forwarder, |_| {});
    let there = (&bench.topology.sink, SINK);
    let far = udp4(Ipv4Addr::new(192, 0, 2, 9), FAR_V4, 64, 30);
    assert_eq!(answer(&bench, there, RIGHT, &far), RIGHT.v4.octets());
    let far = udp6(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9), FAR_V6, 64, 30);
    assert_eq!(answer(&bench, there, RIGHT, &far), LEFT.v6.octets());
    bench.finish();
}

/// The route back leads out of an interface that only the kernel uses.
fn errors_reach_senders_behind_an_interface_that_is_no_port(forwarder: Forwarder) {
    let bench = start(forwarder, |topology| {
        connect(&topology.router, OTHER, &topology.sink, SECOND, 1500, 1).unwrap();
        topology
            .router
            .ip(&format!(
                "route add 192.0.2.0/24 via {}\nroute add 2001:db8:9::/48 via {}",
                SECOND.v4, SECOND.v6
            ))
            .unwrap();
    });
    let there = (&bench.topology.sink, SECOND);
    let far = udp4(Ipv4Addr::new(192, 0, 2, 9), FAR_V4, 64, 30);
    assert_eq!(answer(&bench, there, OTHER, &far), OTHER.v4.octets());
    let far = udp6(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9), FAR_V6, 64, 30);
    assert_eq!(answer(&bench, there, OTHER, &far), LEFT.v6.octets());
    // Something has to go through Wattline.
    assert_eq!(
        answer(&bench, (&bench.topology.source, SOURCE), LEFT, &udp4(SOURCE.v4, FAR_V4, 64, 30)),
        LEFT.v4.octets()
    );
    bench.finish();
}
