//! The life of `wattline run`: killed, started twice, without its port; and its traces afterwards.

use crate::faults::reaches;
use crate::harness::{ADAPTIVE, Bench, XDP, has, quiet, quiet_with};
use crate::throughput::Server;
use std::time::Duration;
use wattline_testbed::command;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::probe::{Load, Probe};
use wattline_testbed::topology::{Options, SINK, Topology};

const LIMIT: Duration = Duration::from_secs(60);

/// Programs on the router's interfaces, as iproute2 shows them.
fn programs(topology: &Topology) -> Vec<String> {
    let links = topology.router.run("ip", &["-d", "-o", "link"], LIMIT).unwrap();
    links.lines().filter(|line| line.contains("xdp")).map(str::to_owned).collect()
}

/// SIGKILL in the middle of a TCP stream: the kernel forwards on, and so does the stream.
#[test]
fn killed_under_traffic_the_kernel_takes_over() {
    killed_under_traffic("killed_under_traffic_the_kernel_takes_over", ADAPTIVE);
}

/// The same with XDP programs that forward.
#[test]
fn killed_under_traffic_of_xdp_the_kernel_takes_over() {
    killed_under_traffic("killed_under_traffic_of_xdp_the_kernel_takes_over", XDP);
}

fn killed_under_traffic(test: &str, forwarder: Forwarder) {
    if !has("iperf3", test) {
        return;
    }
    quiet(test, || {
        let mut bench = Bench::start(Options::default(), forwarder);
        let topology = &bench.topology;
        assert_eq!(programs(topology).len(), 2, "one on each port");
        let _server = Server::start(topology);
        let mut client = topology.source.command("iperf3");
        client.args(["-J", "-c", &SINK.v4.to_string(), "-t", "6", "-b", "100M"]);
        let client = std::thread::spawn(move || command::run(&mut client, LIMIT));
        let load = Load { rate_pps: 5_000.0, duration: LIMIT, flows: 16 };
        let probe = Probe::start(topology, &load).unwrap();
        std::thread::sleep(Duration::from_secs(3));

        bench.running.wattline.as_mut().unwrap().kill();

        let report: serde_json::Value =
            serde_json::from_str(&client.join().unwrap().unwrap()).unwrap();
        let outcome = probe.stop().unwrap();
        println!(
            "hand-over to the kernel: lost {} of {} packets offered at {:.0} pps, longest gap {:.1} ms",
            outcome.lost_packets,
            outcome.offered_packets,
            outcome.offered_rate_pps,
            outcome.longest_gap_seconds * 1e3
        );
        let intervals = report["intervals"].as_array().unwrap();
        for interval in &intervals[4..] {
            assert!(interval["sum"]["bytes"].as_u64().unwrap() > 0, "stalled: {interval}");
        }
        assert_eq!(programs(topology), [""; 0], "left on the interfaces");
        assert!(reaches(topology, &SINK.v6.to_string()));
    });
}

/// SIGTERM: drained, detached, accounted for.
#[test]
fn stopped_in_good_order_it_leaves_nothing_on_the_interfaces() {
    let test = "stopped_in_good_order_it_leaves_nothing_on_the_interfaces";
    quiet(test, || {
        let Bench { running, topology, .. } = Bench::start(Options::default(), ADAPTIVE);
        assert_eq!(programs(&topology).len(), 2, "one on each port");
        assert!(reaches(&topology, &SINK.v4.to_string()));
        let totals = running.stop().unwrap().unwrap();
        assert!(totals.balance(), "{totals:?}");
        assert_eq!(programs(&topology), [""; 0]);
        let links = topology.router.run("ip", &["-o", "link"], LIMIT).unwrap();
        assert!(!links.contains(": wattline"), "a device is left behind: {links}");
        assert!(reaches(&topology, &SINK.v4.to_string()), "the kernel forwards on");
    });
}

/// `wattline stop` waits for the end, so that a script may start another router after it.
#[test]
fn stop_ends_when_the_router_has_ended() {
    quiet("stop_ends_when_the_router_has_ended", || {
        let bench = Bench::start(Options::default(), ADAPTIVE);
        let wattline = bench.router();
        bench.ask(&["stop"]);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", wattline.pid()));
        // It waits for this process, which started it, to hear of it.
        let state = stat.as_ref().ok().and_then(|stat| stat.rsplit(") ").next()?.chars().next());
        assert!(state.is_none_or(|state| state == 'Z'), "{stat:?}");
        assert_eq!(programs(&bench.topology), [""; 0]);
    });
}

/// The MTU grows while the router runs: the kernel forwards packets that are too long for its
/// sockets, and none is lost.
#[test]
fn packets_too_long_for_the_sockets_go_by_the_kernel() {
    quiet_with(&["ping"], "packets_too_long_for_the_sockets_go_by_the_kernel", || {
        let bench = Bench::start(Options::default(), ADAPTIVE);
        let topology = &bench.topology;
        for (namespace, link) in [
            (&topology.source, "uplink"),
            (&topology.router, "left"),
            (&topology.router, "right"),
            (&topology.sink, "uplink"),
        ] {
            namespace.ip(&format!("link set {link} mtu 3000")).unwrap();
        }
        let (v4, v6) = (SINK.v4.to_string(), SINK.v6.to_string());
        assert!(reaches(topology, &v4) && reaches(topology, &v6));
        for (address, size) in [(&v4, "100"), (&v6, "100"), (&v4, "2972"), (&v6, "2952")] {
            let ping = ["-n", "-M", "do", "-c", "10", "-i", "0.05", "-W", "5", "-s", size, address];
            let output = topology.source.run("ping", &ping, LIMIT).unwrap();
            assert!(output.contains(" 0% packet loss"), "{address}, {size} bytes: {output}");
        }
        let log = bench.log();
        assert!(log.contains("left: its MTU is now 3000"), "{log}");
        bench.finish();
    });
}

/// An interface is deleted under traffic. The router lives on, answers, ends in good order
/// and has accounted for every frame.
#[test]
fn a_port_that_vanishes_takes_nothing_else_with_it() {
    let test = "a_port_that_vanishes_takes_nothing_else_with_it";
    quiet(test, || {
        let bench = Bench::start(Options::default(), ADAPTIVE);
        let load = Load { rate_pps: 5_000.0, duration: LIMIT, flows: 16 };
        let probe = Probe::start(&bench.topology, &load).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        bench.topology.router.ip("link del right").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let outcome = probe.stop().unwrap();
        assert!(outcome.received_packets > 0 && outcome.lost_packets > 0);
        bench.stats();
        bench.finish();
    });
}
