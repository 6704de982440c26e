//! ping, traceroute and path-MTU discovery through the router.

use crate::faults::reaches;
use crate::harness::{Bench, XDP, has};
use crate::throughput::{self, PORT};
use std::time::Duration;
use wattline_testbed::command;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::topology::{LEFT, Options, SINK};

const LIMIT: Duration = Duration::from_secs(60);

quietly_with_every_forwarder!(
    ping_reaches_the_sink_and_the_router,
    traceroute_shows_the_router,
    routes_that_lead_nowhere_are_answered_each_in_its_way,
);

with_every_kind_of_forwarder!(path_mtu_is_discovered);

quietly_with_every_kind_of_forwarder!(
    mtu_of_a_route_is_reported,
    large_packets_are_fragmented_where_that_is_allowed,
);

/// Neighbours are resolved by the first packets, which have to be held meanwhile.
fn ping_reaches_the_sink_and_the_router(forwarder: Forwarder) {
    if !has("ping", "ping_reaches_the_sink_and_the_router") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    for address in
        [SINK.v4.to_string(), SINK.v6.to_string(), LEFT.v4.to_string(), LEFT.v6.to_string()]
    {
        // No more than are held, however long the neighbour takes to answer; then as many again.
        for _ in 0..2 {
            let arguments = ["-n", "-c", "5", "-i", "0.05", "-W", "5", &address];
            let output = bench.topology.source.run("ping", &arguments, LIMIT).unwrap();
            assert!(output.contains(" 0% packet loss"), "{address}: {output}");
        }
    }
    bench.finish();
}

fn traceroute_shows_the_router(forwarder: Forwarder) {
    if !has("traceroute", "traceroute_shows_the_router") {
        return;
    }
    // The kernel makes no more than a few of the three errors of a hop at once.
    let options = Options { unlimited_errors: true, ..Options::default() };
    let bench = Bench::start(options, forwarder);
    for (router, sink) in
        [(LEFT.v4.to_string(), SINK.v4.to_string()), (LEFT.v6.to_string(), SINK.v6.to_string())]
    {
        // However long after the first answer of a hop the others come.
        let arguments = ["-n", "-q", "3", "-m", "5", "-w", "10,0,0", &sink];
        let output = bench.topology.source.run("traceroute", &arguments, LIMIT).unwrap();
        let hops: Vec<_> =
            output.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, [router, sink], "{output}");
    }
    bench.finish();
}

/// The path to the sink has a smaller MTU than the link to the router: a ping that must not be
/// fragmented gets an error, and TCP gets through.
fn path_mtu_is_discovered(forwarder: Forwarder) {
    if !has("ping", "path_mtu_is_discovered") || !has("iperf3", "path_mtu_is_discovered") {
        return;
    }
    let bench = Bench::start(Options { sink_mtu: 1400, ..Options::default() }, forwarder);
    let source = &bench.topology.source;
    // Pings wait for missing answers: both families at once.
    at_once([(SINK.v4.to_string(), 28), (SINK.v6.to_string(), 48)], |(address, headers)| {
        let ping = |packet: u32| {
            let size = (packet - headers).to_string();
            let mut command = source.command("ping");
            command.args(["-n", "-M", "do", "-c", "3", "-i", "0.2", "-W", "2", "-s", &size]);
            let output = command::run_to_end(command.arg(&address), LIMIT, "").unwrap();
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&text).into_owned())
        };
        let (passed, text) = ping(1500);
        assert!(!passed, "{address}: {text}");
        assert!(text.to_lowercase().contains("mtu"), "{address}: nothing said why: {text}");
        let (passed, text) = ping(1400);
        assert!(passed, "{address}: {text}");
        // Learnt by the source's kernel, from the router's ICMP error.
        let route = source.run("ip", &["route", "get", &address], LIMIT).unwrap();
        assert!(route.contains("mtu 1400"), "{address}: {route}");
    });
    for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
        throughput::tcp(&bench.topology, &address, PORT, Duration::from_secs(1));
    }
    bench.finish();
}

/// Runs a function for each item at the same time; a panic of one fails the test.
fn at_once<T: Send>(each: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    let work = &work;
    std::thread::scope(|scope| {
        for one in each {
            scope.spawn(move || work(one));
        }
    });
}

/// A route may have a smaller MTU than its link.
fn mtu_of_a_route_is_reported(forwarder: Forwarder) {
    if !has("ping", "mtu_of_a_route_is_reported") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let (router, source) = (&bench.topology.router, &bench.topology.source);
    let families = [
        ("203.0.113.0/24", SINK.v4.to_string(), "203.0.113.7", 28),
        ("2001:db8:7::/48", SINK.v6.to_string(), "2001:db8:7::7", 48),
    ];
    at_once(families, |(prefix, gateway, far, headers)| {
        router.ip(&format!("route add {prefix} via {gateway} mtu 1300")).unwrap();
        let reported = || {
            let size = (1400 - headers).to_string();
            let mut command = source.command("ping");
            command.args(["-n", "-M", "do", "-c", "1", "-W", "1", "-s", &size, far]);
            command::run_to_end(&mut command, LIMIT, "").unwrap();
            source.run("ip", &["route", "get", far], LIMIT).unwrap().contains("mtu 1300")
        };
        // The route takes a moment to arrive, and the answer waits for a neighbour.
        assert!((0..20).any(|_| reported()), "{far}: no error with the MTU of the route");
        router.ip(&format!("route del {prefix}")).unwrap();
    });
    if forwarder == XDP {
        // XDP programs leave all to the workers as long as there is such a route.
        let by_xdp = || {
            assert!(reaches(&bench.topology, &SINK.v4.to_string()));
            let stats = bench.stats();
            stats["xdp_forwarded"].as_u64().unwrap() > 0
        };
        assert!((0..20).any(|_| by_xdp()), "workers went on forwarding");
    }
    bench.finish();
}

/// Pings a prefix of each kind: each kind is answered with its error, a blackhole with none.
fn routes_that_lead_nowhere_are_answered_each_in_its_way(forwarder: Forwarder) {
    if !has("ping", "routes_that_lead_nowhere_are_answered_each_in_its_way") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let (router, source) = (&bench.topology.router, &bench.topology.source);
    for route in [
        "unreachable 203.0.113.0/26",
        "prohibit 203.0.113.64/26",
        "blackhole 203.0.113.128/26",
        "unreachable 2001:db8:7::/64",
        "prohibit 2001:db8:7:1::/64",
        "blackhole 2001:db8:7:2::/64",
    ] {
        router.ip(&format!("route add {route}")).unwrap();
    }
    let ping = |address: &str, count: &str| {
        let mut command = source.command("ping");
        command.args(["-n", "-c", count, "-i", "0.2", "-W", "1", address]);
        let output = command::run_to_end(&mut command, LIMIT, "").unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let answers = [
        ("203.0.113.1", "Destination Host Unreachable"),
        ("203.0.113.65", "Packet filtered"),
        ("2001:db8:7::1", "Destination unreachable: No route"),
        ("2001:db8:7:1::1", "Destination unreachable: Administratively prohibited"),
    ];
    at_once(answers, |(address, answer)| {
        // Routes take a moment to arrive, and the answer waits for a neighbour.
        let mut said = String::new();
        let found = (0..20).any(|_| {
            said = ping(address, "2");
            said.contains(answer)
        });
        assert!(found, "{address}: {said}");
    });
    at_once(["203.0.113.129", "2001:db8:7:2::1"], |address| {
        let said = ping(address, "3");
        assert!(said.contains("100% packet loss") && !said.contains("From"), "{said}");
    });
    // Other destinations are not affected.
    assert!(ping(&SINK.v4.to_string(), "3").contains(" 0% packet loss"));
    bench.finish();
}

fn large_packets_are_fragmented_where_that_is_allowed(forwarder: Forwarder) {
    if !has("ping", "large_packets_are_fragmented_where_that_is_allowed") {
        return;
    }
    let bench = Bench::start(Options { sink_mtu: 1400, ..Options::default() }, forwarder);
    let sink = SINK.v4.to_string();
    let arguments = ["-n", "-M", "dont", "-c", "5", "-i", "0.1", "-W", "5", "-s", "1472", &sink];
    let output = bench.topology.source.run("ping", &arguments, LIMIT).unwrap();
    assert!(output.contains(" 0% packet loss"), "{output}");
    bench.finish();
}
