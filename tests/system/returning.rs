//! Interfaces that disappear and return under traffic: deleted and made again under their name,
//! moved to another namespace for a while, renamed, occupied by another program.

use crate::faults::reaches;
use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, binary, has, privileged, quiet, quiet_with};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_needs::KillOnDrop;
use wattline_testbed::command;
use wattline_testbed::forwarder::{Forwarder, Mode, Wattline, configuration};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::probe::{Load, Probe};
use wattline_testbed::topology::{Options, RIGHT, SINK, Topology, connect};
use wattline_xdp::PassAll;

const LIMIT: Duration = Duration::from_secs(60);
/// Time limit until the port is served, from the moment at which the interface is up and the routes
/// exist. It takes some hundredths of a second; an occupied interface is tried once a second, and a
/// machine that is busy with other tests needs long to write a default route into its tables.
const PATIENCE: Duration = Duration::from_secs(15);

quietly_with_every_kind_of_forwarder!(
    an_interface_that_is_made_again_is_served_again,
    an_interface_that_comes_back_from_another_namespace_is_served_again,
);

/// Pings fifty times a second until the value is dropped.
pub fn pings(topology: &Topology) -> KillOnDrop {
    let mut ping = topology.source.command("ping");
    ping.args(["-n", "-q", "-i", "0.02", &SINK.v4.to_string()]).stdout(Stdio::null());
    KillOnDrop(command::spawn(&mut ping).unwrap())
}

/// Makes `right` and the sink's end of it again, as the topology has them.
pub fn make_again(topology: &Topology) {
    let Topology { router, sink, options, .. } = topology;
    connect(router, RIGHT, sink, SINK, options.sink_mtu, options.queues).unwrap();
    routes_again(topology);
}

/// The routes that went with the interfaces.
pub fn routes_again(topology: &Topology) {
    for (namespace, gateway) in [(&topology.sink, RIGHT), (&topology.router, SINK)] {
        let (v4, v6) = (gateway.v4, gateway.v6);
        namespace
            .ip(&format!("route replace default via {v4}\nroute replace default via {v6}"))
            .unwrap();
    }
}

/// Makes the sink take frames of XDP programs again, where the forwarder sends such.
pub fn take_xdp_frames(topology: &Topology, forwarder: Forwarder) -> Option<PassAll> {
    let by_xdp = matches!(forwarder, Forwarder::Wattline { mode: Mode::XdpForward, .. });
    let attach = || PassAll::attach(interface_index(SINK.interface).unwrap()).unwrap();
    by_xdp.then(|| topology.sink.enter(attach).unwrap())
}

/// Returns the statistics of the port `right`; `None` if the kernel forwards.
fn right(bench: &Bench) -> Option<Value> {
    bench.running.wattline.as_ref().map(|_| bench.stats()["ports"][1].clone())
}

/// Waits until the port `right` is in a state; returns the reason.
pub fn until_right_is(bench: &Bench, state: &str) -> Value {
    let port = || right(bench).unwrap_or_default();
    let reached = || Some(port()).filter(|port| port.is_null() || port["state"] == state);
    let reason = || format!("not {state}: {}\n{}", port(), bench.log());
    wattline_needs::until_or(reached, reason)
}

/// Checks that twenty pings are answered, and that Wattline, if it runs, forwarded them: the kernel
/// would forward for a port that is not served.
pub fn all_pass_by_the_port(bench: &Bench, address: &str) {
    let count = |port: &Option<Value>, key| port.as_ref().map_or(0, |it| it[key].as_u64().unwrap());
    let before = right(bench);
    let ping = ["-n", "-c", "20", "-i", "0.02", "-W", "5", address];
    let output = bench.topology.source.run("ping", &ping, LIMIT);
    let output =
        output.unwrap_or_else(|error| panic!("{error}\n{:?}\n{}", right(bench), bench.log()));
    assert!(output.contains(" 0% packet loss"), "{output}");
    // An idle worker reports its counts with its next batch. The kernel forwards the first packet
    // to a neighbour that it has to resolve.
    for key in ["transmitted_packets", "received_packets"] {
        let is_counted = || count(&right(bench), key) >= count(&before, key) + 18;
        wattline_needs::until_or(
            || bench.running.wattline.is_none() || is_counted(),
            || format!("{key}: {before:?}, then {:?}", right(bench)),
        );
    }
}

pub fn both_pass_by_the_port(bench: &Bench, since: Instant) {
    for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
        assert!(reaches(&bench.topology, &address), "{:?}\n{}", right(bench), bench.log());
        let elapsed = since.elapsed();
        assert!(elapsed < PATIENCE, "pings work after {elapsed:?}\n{}", bench.log());
    }
    until_right_is(bench, "up");
    for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
        all_pass_by_the_port(bench, &address);
    }
}

fn an_interface_that_is_made_again_is_served_again(forwarder: Forwarder) {
    if !has("ping", "an_interface_that_is_made_again_is_served_again") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    assert!(reaches(topology, &SINK.v4.to_string()));
    let pings = pings(topology);
    let mut ends = Vec::new();
    // More than once, to detect leftovers of the first time.
    for round in 1..=3 {
        topology.router.ip("link del right").unwrap();
        let gone = until_right_is(&bench, "absent");
        if forwarder != KERNEL {
            let reason = gone["reason"].as_str().unwrap_or_default();
            assert!(reason.contains("right"), "{gone}");
            assert_eq!(gone["mode"], "not attached");
            let reported = bench.log().matches("port right: its interface right is gone").count();
            assert_eq!(reported, round, "reported once each time: {}", bench.log());
        }
        make_again(topology);
        let since = Instant::now();
        ends.push(take_xdp_frames(topology, forwarder));
        both_pass_by_the_port(&bench, since);
        if forwarder != KERNEL {
            let reported = bench.log().matches("port right: attached again").count();
            assert_eq!(reported, round, "{}", bench.log());
        }
    }
    drop(pings);
    bench.finish();
}

/// The number of the interface is the same when it is back, and so is the name.
fn an_interface_that_comes_back_from_another_namespace_is_served_again(forwarder: Forwarder) {
    if !has("ping", "an_interface_that_comes_back_from_another_namespace_is_served_again") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    assert!(reaches(topology, &SINK.v4.to_string()));
    let pings = pings(topology);
    let elsewhere = Namespace::create("elsewhere").unwrap();
    let number = || topology.router.enter(|| interface_index("right").unwrap()).unwrap();
    let before = number();
    let (there, back) = (elsewhere.name(), topology.router.name());
    topology.router.ip(&format!("link set right netns {there}")).unwrap();
    elsewhere.ip(&format!("link set right netns {back}")).unwrap();
    assert_eq!(number(), before);
    topology
        .router
        .ip(&format!(
            "address add {}/24 dev right\naddress add {}/64 dev right nodad\nlink set right up",
            RIGHT.v4, RIGHT.v6
        ))
        .unwrap();
    routes_again(topology);
    let since = Instant::now();
    both_pass_by_the_port(&bench, since);
    // In the other namespace nothing of ours may be on it.
    topology.router.ip(&format!("link set right netns {there}")).unwrap();
    until_right_is(&bench, "absent");
    let links = elsewhere.run("ip", &["-d", "link", "show", "right"], LIMIT).unwrap();
    assert!(!links.contains("xdp"), "{links}");
    drop(pings);
    bench.finish();
}

/// While the new interface cannot be taken over, the kernel forwards and `stats` says why.
#[test]
fn kernel_forwards_until_the_interface_can_be_attached() {
    let test = "kernel_forwards_until_the_interface_can_be_attached";
    if !has("ping", test) {
        return;
    }
    for forwarder in [ADAPTIVE, XDP] {
        quiet(test, || {
            let bench = Bench::start(Options::default(), forwarder);
            let topology = &bench.topology;
            topology.router.ip("link del right").unwrap();
            until_right_is(&bench, "absent");
            // Under another name at first, so that the stranger is on it before Wattline looks.
            let station = wattline_testbed::topology::Station { interface: "other", ..RIGHT };
            connect(&topology.router, station, &topology.sink, SINK, 1500, 1).unwrap();
            let attach = || PassAll::attach(interface_index("other").unwrap()).unwrap();
            let stranger = topology.router.enter(attach).unwrap();
            topology
                .router
                .ip("link set other down\nlink set other name right\nlink set right up")
                .unwrap();
            // IPv6 addresses do not outlive a link that is down.
            topology
                .router
                .ip(&format!("address replace {}/64 dev right nodad", RIGHT.v6))
                .unwrap();
            routes_again(topology);
            let _end = take_xdp_frames(topology, forwarder);

            let failed = until_right_is(&bench, "failed");
            let reason = failed["reason"].as_str().unwrap_or_default();
            assert!(reason.contains("XDP program"), "{failed}");
            for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
                assert!(reaches(topology, &address), "by the kernel: {address}");
            }
            std::thread::sleep(Duration::from_secs(3));
            let reported = bench.log().matches("port right: cannot be attached").count();
            assert_eq!(reported, 1, "reported once: {}", bench.log());
            let report = bench.ask(&["reload"]);
            assert!(report.contains("right"), "says what is not in force: {report}");

            drop(stranger);
            both_pass_by_the_port(&bench, Instant::now());
            bench.finish();
        });
    }
}

/// The port is the interface, whatever it is called later; another of its old name is not it.
#[test]
fn a_renamed_interface_stays_the_port() {
    quiet_with(&["ping"], "a_renamed_interface_stays_the_port", || {
        let bench = Bench::start(Options::default(), ADAPTIVE);
        let topology = &bench.topology;
        assert!(reaches(topology, &SINK.v4.to_string()));
        // Kernels before 6.2 rename only interfaces that are down.
        topology.router.sysctl(&[("ipv6/conf/right/keep_addr_on_down", "1")]).unwrap();
        let ip = "link set right down\nlink set right name elsewhere\nlink set elsewhere up\n\
                  link add right type veth peer name other\nlink set right up\nlink set other up";
        topology.router.ip(ip).unwrap();
        routes_again(topology);
        both_pass_by_the_port(&bench, Instant::now());
        let port = until_right_is(&bench, "up");
        assert!(port["reason"].as_str().is_some_and(|it| it.contains("elsewhere")), "{port}");
        // The one of its name is the port as soon as the old one is gone.
        topology.router.ip("link del elsewhere").unwrap();
        wattline_needs::until_or(
            || bench.log().contains("port right: attached again"),
            || bench.log(),
        );
        bench.finish();
    });
}

/// Ports are left to the kernel and taken back, five times, under traffic without a loss. They are
/// left one after another, so the order counts.
#[test]
fn ports_that_are_left_and_taken_back_lose_nothing() {
    privileged("ports_that_are_left_and_taken_back_lose_nothing", || {
        for (forwarder, first) in [(ADAPTIVE, "left"), (ADAPTIVE, "right"), (XDP, "left")] {
            let Forwarder::Wattline { mode, workers } = forwarder else { unreachable!() };
            let topology = Topology::build(Options::default()).unwrap();
            let _end = take_xdp_frames(&topology, forwarder);
            let wattline = Wattline::start_with(&topology, binary(), |socket| {
                let text = configuration(mode, workers, socket);
                let (head, ports) = text.split_once("\n[[port]]").unwrap();
                let (one, other) = ports.split_once("\n[[port]]").unwrap();
                let (one, other) = if first == "left" { (one, other) } else { (other, one) };
                format!("{head}\n[[port]]{one}\n[[port]]{other}")
            })
            .unwrap();
            for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
                assert!(reaches(&topology, &address));
            }
            let load = Load { rate_pps: 20_000.0, duration: LIMIT, flows: 16 };
            let probe = Probe::start(&topology, &load).unwrap();
            for (change, state) in [("add", "left"), ("del", "up")].repeat(5) {
                // A rule with `not` concerns unknown packets; it changes nothing for them.
                let rule = format!("rule {change} not from 192.0.2.0/24 lookup main pref 10");
                topology.router.ip(&rule).unwrap();
                wattline_needs::until_or(
                    || (0..2).all(|at| wattline.stats().unwrap()["ports"][at]["state"] == state),
                    || format!("not {state}: {}", wattline.log()),
                );
                std::thread::sleep(Duration::from_millis(200));
            }
            let outcome = probe.stop().unwrap();
            let stats = wattline.stats().unwrap();
            // On a starved machine the worker is late, and its rings drop and count packets.
            let by_rings = |port: &Value| {
                let full = ["fill_ring_empty", "receive_ring_full"].map(|it| port[it].as_u64());
                full.into_iter().flatten().sum::<u64>()
            };
            let late: u64 = stats["ports"].as_array().unwrap().iter().map(by_rings).sum();
            let explained = outcome.receiver_overflow_packets + late;
            let lost = outcome.lost_packets.saturating_sub(explained);
            assert_eq!(lost, 0, "{forwarder:?}, {first} first: {outcome:?}, {stats:#}");
            assert!(wattline.stop().unwrap().balance());
        }
    });
}
