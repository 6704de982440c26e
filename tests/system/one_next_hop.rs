//! A flow has one next hop with every forwarder: with `fib_multipath_hash_seed` set, flows keep
//! theirs when the router starts and stops, and when XDP programs hand over to workers.

use crate::harness::{ADAPTIVE, XDP, binary, quiet};
use crate::multipath::{BURST, PAUSE, PORT_OTHER, Rounds, SECOND, with_both_ways};
use etherparse::{IpNumber, PacketBuilder};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_testbed::forwarder::{Forwarder, Running};
use wattline_testbed::raw::RawSocket;
use wattline_testbed::topology::{LEFT, SINK, SOURCE, Topology};

const LIMIT: Duration = Duration::from_secs(60);
/// Flows to each prefix.
const FLOWS: u16 = 100;
/// Prefixes behind both paths, with their weights. The sink drops all packets.
const PREFIXES: [(&str, [u32; 2]); 4] = [
    ("100.64.0.0/16", [1, 1]),
    ("100.65.0.0/16", [5, 2]),
    ("2001:db8:64::/48", [1, 1]),
    ("2001:db8:65::/48", [5, 2]),
];

#[test]
fn flows_by_addresses_keep_their_next_hop_whoever_forwards() {
    let test = "flows_by_addresses_keep_their_next_hop_whoever_forwards";
    quiet(test, || keep_their_next_hop("0"));
}

#[test]
fn flows_by_ports_keep_their_next_hop_whoever_forwards() {
    let test = "flows_by_ports_keep_their_next_hop_whoever_forwards";
    quiet(test, || keep_their_next_hop("1"));
}

fn keep_their_next_hop(policy: &str) {
    let topology = with_both_ways();
    let (router, sink) = (&topology.router, &topology.sink);
    sink.run("ethtool", &["-K", "second", "gro", "on"], LIMIT).unwrap();
    for (prefix, [one, other]) in PREFIXES {
        let [first, second] = if prefix.contains(':') {
            [SINK.v6.to_string(), SECOND.v6.to_string()]
        } else {
            [SINK.v4.to_string(), SECOND.v4.to_string()]
        };
        let ways = format!(
            "nexthop via {first} dev right weight {one} nexthop via {second} dev other weight {other}"
        );
        router.ip(&format!("route add {prefix} {ways}")).unwrap();
    }
    router
        .sysctl(&[
            ("ipv4/fib_multipath_hash_policy", policy),
            ("ipv6/fib_multipath_hash_policy", policy),
            ("ipv4/fib_multipath_hash_seed", "3141592653"),
        ])
        .unwrap();
    let traffic = Traffic::start(&topology);
    // The kernel alone resolves its neighbours.
    traffic.rounds.go_on(5);
    let forwarded_by = |forwarder: Forwarder| {
        let running = forwarder.start_with(&topology, binary(), PORT_OTHER).unwrap();
        traffic.rounds.go_on(10);
        running
    };
    let end = |running: Running| {
        let totals = running.stop().unwrap().unwrap();
        traffic.rounds.go_on(5);
        totals
    };
    let workers = end(forwarded_by(ADAPTIVE));
    let least = 5 * u64::from(FLOWS) * PREFIXES.len() as u64;
    assert!(workers.forwarded > least && workers.xdp_forwarded == 0, "{workers:?}");
    let running = forwarded_by(XDP);
    let counts = || {
        let stats = running.wattline.as_ref().unwrap().stats().unwrap();
        ["forwarded", "xdp_forwarded"].map(|key| stats[key].as_u64().unwrap())
    };
    assert!(counts()[1] > least, "{:?}", counts());
    // One port takes no frames from XDP programs any more.
    sink.run("ethtool", &["-K", "second", "gro", "off"], LIMIT).unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        let before = counts();
        traffic.rounds.go_on(5);
        let after = counts();
        if after[1] == before[1] && after[0] - before[0] > least / 2 {
            break;
        }
        assert!(Instant::now() < deadline, "XDP programs go on: {before:?} {after:?}");
    }
    end(running);
    let rounds = traffic.rounds.count();
    let flows = traffic.finish();
    for (prefix, flows) in PREFIXES.iter().zip(flows.chunks(FLOWS.into())) {
        let moved = flows.iter().filter(|ways| ways.windows(2).any(|two| two[0] != two[1])).count();
        let by_second = flows.iter().filter(|ways| ways.last() == Some(&1)).count();
        println!("policy {policy}, {prefix:?}: {by_second} by the second link, {moved} moved");
        assert_eq!(moved, 0, "{prefix:?}");
        assert!((5..flows.len() - 5).contains(&by_second), "{prefix:?}: {by_second}");
        // A start loses the packets that arrive while ports open.
        let seen: usize = flows.iter().map(Vec::len).sum();
        assert!(seen > flows.len() * rounds as usize * 3 / 4, "{prefix:?}: {seen} of {rounds}");
    }
}

/// Frames of all flows, in the order of [`PREFIXES`]: UDP, TCP and ESP.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for prefix in 0..PREFIXES.len() as u8 {
        for number in 0..FLOWS {
            frames.push(frame(prefix / 2 == 1, prefix % 2, number));
        }
    }
    frames
}

fn frame(ipv6: bool, weighted: u8, number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let from = 10_000 + number * 7;
    let mut frame = Vec::new();
    let ethernet = PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac);
    // Some flows share addresses.
    let host = low / 2 * 3;
    let builder = if ipv6 {
        let prefix = 0x64 + u16::from(weighted);
        let source = Ipv6Addr::new(0x2001, 0xdb8, 0x99, 0, 0, 0, 0, 1 + u16::from(host));
        let target = Ipv6Addr::new(0x2001, 0xdb8, prefix, host.into(), 0, 0, 0, 1);
        ethernet.ipv6(source.octets(), target.octets(), 64)
    } else {
        let source = Ipv4Addr::new(10, 9, host, 1);
        ethernet.ipv4(source.octets(), [100, 64 + weighted, high, 1 + host], 64)
    };
    let payload = [high, low, 1, 2, 3, 4, 5, 6];
    match number % 5 {
        0 => {
            let esp = [&[1, 2, high, low][..], &payload].concat();
            builder.write(&mut frame, IpNumber::ENCAPSULATING_SECURITY_PAYLOAD, &esp).unwrap();
        }
        1 => builder.tcp(from, 80, 1, 1000).write(&mut frame, &payload).unwrap(),
        _ => builder.udp(from, 4242).write(&mut frame, &payload).unwrap(),
    }
    if ipv6 {
        // Flow labels.
        frame[15..18].copy_from_slice(&[number as u8 & 0xf, low.wrapping_mul(5), low]);
    }
    frame
}

/// Bytes that a router does not change: from the addresses on.
fn unchanged(frame: &[u8]) -> Option<&[u8]> {
    frame.get(if frame.get(12) == Some(&8) { 26 } else { 22 }..)
}

/// A frame of every flow each round, heard on both links.
struct Traffic {
    rounds: Rounds,
    numbers: Arc<HashMap<Vec<u8>, usize>>,
}

impl Traffic {
    fn start(topology: &Topology) -> Self {
        let frames = frames();
        let numbered = frames.iter().enumerate();
        let numbers: HashMap<Vec<u8>, usize> =
            numbered.map(|(number, frame)| (unchanged(frame).unwrap().to_vec(), number)).collect();
        assert_eq!(numbers.len(), frames.len());
        let numbers = Arc::new(numbers);
        let known = Arc::clone(&numbers);
        let is_ours = move |frame: &[u8]| unchanged(frame).is_some_and(|it| known.contains_key(it));
        let socket = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
        let send = move |_| {
            for burst in frames.chunks(BURST) {
                for frame in burst {
                    assert!(socket.send(frame).unwrap());
                }
                std::thread::sleep(PAUSE);
            }
        };
        Self { rounds: Rounds::start(topology, is_ours, send), numbers }
    }

    /// Returns for each flow the links by which its frames came, 0 or 1, in order.
    fn finish(self) -> Vec<Vec<usize>> {
        let mut flows = vec![Vec::new(); self.numbers.len()];
        for (way, received) in self.rounds.finish() {
            flows[self.numbers[unchanged(&received.frame).unwrap()]].push(way);
        }
        flows
    }
}
