//! Ports whose interface cannot be served when the router starts: absent, down, occupied, under another
//! name, with too few queues. The router starts without them and attaches them later.

use crate::faults::reaches;
use crate::harness::{Bench, binary, has};
use crate::returning::until_right_is;
use crate::returning::{both_pass_by_the_port, make_again, routes_again, take_xdp_frames};
use serde_json::Value;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_testbed::command;
use wattline_testbed::forwarder::{Forwarder, Mode, Wattline, configuration};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology, connect};
use wattline_xdp::PassAll;

const LIMIT: Duration = Duration::from_secs(60);

macro_rules! with_workers_and_programs {
    ($($function:ident),+ $(,)?) => {$(
        mod $function {
            tests_with! { $function, quiet: wattline_adaptive: ADAPTIVE, wattline_xdp: XDP }
        }
    )+};
}

with_workers_and_programs!(
    absent_port_is_attached_when_it_comes,
    port_that_is_down_is_attached_when_it_is_up,
    port_of_another_name_is_attached_once_it_is_renamed,
    occupied_port_is_attached_once_it_is_free,
    router_without_any_interface_attaches_all,
    interface_without_its_parent_is_attached_later,
);

fn built(forwarder: Forwarder) -> Topology {
    let workers = match forwarder {
        Forwarder::Wattline { workers, .. } => workers,
        Forwarder::Kernel => 1,
    };
    Topology::build(Options { queues: workers, ..Options::default() }).unwrap()
}

#[test]
fn port_is_found_by_an_alternative_name() {
    crate::harness::quiet_with(&["ping"], "port_is_found_by_an_alternative_name", || {
        let topology = Topology::build(Options::default()).unwrap();
        let (short, long) = ("enp3s0", "uplink-to-the-provider-of-building-7");
        topology
            .router
            .ip(&format!(
                "link property add dev left altname {short}\nlink property add dev right altname {long}"
            ))
            .unwrap();
        let wattline = Wattline::start_with(&topology, binary(), |socket| {
            configuration(Mode::Adaptive, 1, socket)
                .replace("interface = \"left\"", &format!("interface = \"{short}\""))
                .replace("interface = \"right\"", &format!("interface = \"{long}\""))
        })
        .unwrap_or_else(|error| panic!("{error}"));
        for name in ["left", "right"] {
            until(&wattline, name, "up");
        }
        assert!(reaches(&topology, &SINK.v4.to_string()));
        let totals = wattline.stop().unwrap();
        assert!(totals.forwarded > 0, "{totals:?}");
    });
}

fn port(wattline: &Wattline, name: &str) -> Value {
    let stats = wattline.stats().unwrap_or_else(|error| panic!("{error}\n{}", wattline.log()));
    let ports = stats["ports"].as_array().unwrap();
    ports.iter().find(|port| port["name"] == name).unwrap().clone()
}

#[track_caller]
fn until(wattline: &Wattline, name: &str, state: &str) -> Value {
    let now = || port(wattline, name);
    let reached = || Some(now()).filter(|port| port["state"] == state);
    let reason = || format!("not {state}: {}\n{}", now(), wattline.log());
    wattline_needs::until_or(reached, reason)
}

/// Starts a router without the port `right`, whose state and reason are as expected and in the log once.
#[track_caller]
fn start_without_right(topology: Topology, forwarder: Forwarder, state: &str, why: &str) -> Bench {
    let bench = Bench::start_in(topology, forwarder, "");
    let wattline = bench.router();
    let right = until_right_is(&bench, state);
    assert!(right["reason"].as_str().is_some_and(|it| it.contains(why)), "{right}");
    assert_eq!(right["mode"], "not attached");
    assert_eq!(port(wattline, "left")["state"], "up");
    let shown = bench.ask(&["show", "ports"]);
    assert!(shown.contains(why), "{shown}");
    let report = bench.ask(&["reload"]);
    assert!(report.contains("right"), "says what is not in force: {report}");
    let is_reason = |line: &&str| line.contains("WARN") && line.contains("port right:");
    let reported = bench.log().lines().filter(is_reason).count();
    assert_eq!(reported, 1, "{}", bench.log());
    bench
}

fn absent_port_is_attached_when_it_comes(forwarder: Forwarder) {
    if !has("ping", "absent_port_is_attached_when_it_comes") {
        return;
    }
    let topology = built(forwarder);
    // Its far end is still there, which takes frames of XDP programs.
    let elsewhere = Namespace::create("elsewhere").unwrap();
    topology.router.ip(&format!("link set right netns {}", elsewhere.name())).unwrap();
    let bench = start_without_right(topology, forwarder, "absent", "there is no interface right");
    elsewhere.ip("link del right").unwrap();
    let mut ends = Vec::new();
    // The second one has another number, and comes in place of one that was served.
    for words in ["port right: attached to", "port right: attached again to"] {
        make_again(&bench.topology);
        ends.push(take_xdp_frames(&bench.topology, forwarder));
        both_pass_by_the_port(&bench, Instant::now());
        assert_eq!(bench.log().matches(words).count(), 1, "{}", bench.log());
        if ends.len() == 1 {
            let lines = "link del right\nlink add other type veth peer name other-end";
            bench.topology.router.ip(lines).unwrap();
            until_right_is(&bench, "absent");
        }
    }
    bench.finish();
}

fn port_that_is_down_is_attached_when_it_is_up(forwarder: Forwarder) {
    if !has("ping", "port_that_is_down_is_attached_when_it_is_up") {
        return;
    }
    let topology = built(forwarder);
    topology.router.sysctl(&[("ipv6/conf/right/keep_addr_on_down", "1")]).unwrap();
    topology.router.ip("link set right down").unwrap();
    let bench = start_without_right(topology, forwarder, "absent", "right is there and down");
    bench.topology.router.ip("link set right up").unwrap();
    routes_again(&bench.topology);
    both_pass_by_the_port(&bench, Instant::now());
    bench.finish();
}

fn port_of_another_name_is_attached_once_it_is_renamed(forwarder: Forwarder) {
    if !has("ping", "port_of_another_name_is_attached_once_it_is_renamed") {
        return;
    }
    let topology = built(forwarder);
    topology.router.sysctl(&[("ipv6/conf/right/keep_addr_on_down", "1")]).unwrap();
    let rename = |topology: &Topology, from: &str, to: &str| {
        let lines = format!("link set {from} down\nlink set {from} name {to}\nlink set {to} up");
        topology.router.ip(&lines).unwrap();
        routes_again(topology);
    };
    rename(&topology, "right", "eth7");
    let bench = start_without_right(topology, forwarder, "absent", "there is no interface right");
    assert!(reaches(&bench.topology, &SINK.v4.to_string()), "the kernel forwards");
    rename(&bench.topology, "eth7", "right");
    both_pass_by_the_port(&bench, Instant::now());
    bench.finish();
}

fn occupied_port_is_attached_once_it_is_free(forwarder: Forwarder) {
    if !has("ping", "occupied_port_is_attached_once_it_is_free") {
        return;
    }
    let topology = built(forwarder);
    let attach = || PassAll::attach(interface_index("right").unwrap()).unwrap();
    let stranger = topology.router.enter(attach).unwrap();
    let bench = start_without_right(topology, forwarder, "failed", "XDP program");
    assert!(reaches(&bench.topology, &SINK.v4.to_string()), "the kernel forwards");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(bench.log().matches("port right: cannot be attached").count(), 1, "{}", bench.log());
    drop(stranger);
    both_pass_by_the_port(&bench, Instant::now());
    bench.finish();
}

fn router_without_any_interface_attaches_all(forwarder: Forwarder) {
    if !has("ping", "router_without_any_interface_attaches_all") {
        return;
    }
    let topology = built(forwarder);
    let Forwarder::Wattline { mode, workers } = forwarder else { unreachable!() };
    topology.router.ip("link del left\nlink del right").unwrap();
    let text = |socket: &Path| configuration(mode, workers, socket);
    let wattline = Wattline::start_with(&topology, binary(), text).unwrap();
    for name in ["left", "right"] {
        let port = until(&wattline, name, "absent");
        assert!(port["reason"].as_str().unwrap().contains("there is no interface"), "{port}");
    }
    let queues = topology.options.queues;
    connect(&topology.router, LEFT, &topology.source, SOURCE, 1500, queues).unwrap();
    let routes = format!("route replace default via {}", LEFT.v4);
    topology.source.ip(&routes).unwrap();
    make_again(&topology);
    for name in ["left", "right"] {
        until(&wattline, name, "up");
    }
    assert!(reaches(&topology, &SINK.v4.to_string()), "{}", wattline.log());
    let totals = wattline.stop().unwrap();
    assert!(totals.balance() && totals.forwarded > 0, "{totals:?}");
}

fn interface_without_its_parent_is_attached_later(forwarder: Forwarder) {
    let topology = built(forwarder);
    let more = "[[port]]\nname = \"upper\"\ninterface = \"upper\"\n";
    let bench = Bench::start_in(topology, forwarder, more);
    let wattline = bench.router();
    until(wattline, "upper", "absent");
    let router = &bench.topology.router;
    router.ip("link add trunk type veth peer name trunk-end").unwrap();
    router.ip("link set trunk up\nlink set trunk-end up").unwrap();
    router.ip("link add link trunk name upper type macvlan").unwrap();
    let port = until(wattline, "upper", "absent");
    assert!(port["reason"].as_str().unwrap().contains("upper is there and down"), "{port}");
    router.ip("link set upper up").unwrap();
    until(wattline, "upper", "up");
    router.ip("link del trunk").unwrap();
    until(wattline, "upper", "absent");
    assert!(reaches(&bench.topology, &SINK.v4.to_string()));
    bench.finish();
}

/// Two workers need two queues of each port.
#[test]
fn port_with_too_few_queues_is_attached_once_it_has_enough() {
    let test = "port_with_too_few_queues_is_attached_once_it_has_enough";
    crate::harness::quiet(test, || {
        let two = Forwarder::Wattline { mode: Mode::Adaptive, workers: 2 };
        let topology = built(two);
        topology.router.ip("link del right").unwrap();
        let bench = start_without_right(topology, two, "absent", "there is no interface right");
        let topology = &bench.topology;
        connect(&topology.router, RIGHT, &topology.sink, SINK, 1500, 1).unwrap();
        let failed = until_right_is(&bench, "failed");
        assert!(failed["reason"].as_str().unwrap().contains("1 queue"), "{failed}");
        topology.router.ip("link del right").unwrap();
        make_again(topology);
        until_right_is(&bench, "up");
        assert!(reaches(topology, &SINK.v4.to_string()), "{}", bench.log());
        bench.finish();
    });
}

/// Sections that name an absent port take effect once it is there.
#[test]
fn sections_of_an_absent_port_hold_when_it_comes() {
    crate::harness::quiet_with(&["ping"], "sections_of_an_absent_port_hold_when_it_comes", || {
        let topology = built(crate::harness::ADAPTIVE);
        topology.router.ip("link del right").unwrap();
        let more = r#"
[[acl]]
name = "no-telnet"
on = ["right"]
action = "deny"
protocol = "tcp"
destination_ports = 23
[[acl]]
name = "rest"
on = ["right"]
action = "permit"
[flow_records]
collectors = ["ipfix://127.0.0.1:9"]
ports = ["right"]
[[route]]
prefix = "198.51.100.0/24"
via = "SINK"
port = "right"
"#;
        let more = more.replace("SINK", &SINK.v4.to_string());
        let bench = Bench::start_in(topology, crate::harness::ADAPTIVE, &more);
        let wattline = bench.router();
        until_right_is(&bench, "absent");
        bench.ask(&["reload"]);
        make_again(&bench.topology);
        both_pass_by_the_port(&bench, Instant::now());
        let numbers =
            wattline.stats().unwrap()["applications"]["flow_records"]["interfaces"].clone();
        let number = || interface_index("right").unwrap();
        let expected = bench.topology.router.enter(number).unwrap();
        assert_eq!(numbers[1]["number"], expected, "{numbers}");
        let fib = bench.ask(&["show", "fib", "198.51.100.1", "--json"]);
        let fib: Value = serde_json::from_str(&fib).unwrap();
        assert_eq!(fib["next_hop"]["port"], "right", "{fib}");
        bench.finish();
    });
}

/// A second router on the same interfaces waits for the first one to end.
#[test]
fn second_router_takes_over_when_the_first_ends() {
    let test = "second_router_takes_over_when_the_first_ends";
    crate::harness::quiet(test, || {
        let bench = Bench::start(Options::default(), crate::harness::ADAPTIVE);
        let text = |socket: &Path| configuration(Mode::Adaptive, 1, socket);
        let second = Wattline::start_with(&bench.topology, binary(), text).unwrap();
        for name in ["left", "right"] {
            let port = until(&second, name, "failed");
            assert!(port["reason"].as_str().unwrap().contains("another instance"), "{port}");
        }
        assert!(reaches(&bench.topology, &SINK.v4.to_string()));
        let Bench { running, topology, .. } = bench;
        running.stop().unwrap();
        for name in ["left", "right"] {
            until(&second, name, "up");
        }
        assert!(reaches(&topology, &SINK.v4.to_string()), "{}", second.log());
        second.stop().unwrap();
    });
}

/// The router is ready although a port is missing, and names it.
#[test]
fn service_manager_learns_of_missing_ports() {
    let test = "service_manager_learns_of_missing_ports";
    crate::harness::quiet(test, || {
        let topology = built(crate::harness::ADAPTIVE);
        topology.router.ip("link del right").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(LIMIT)).unwrap();
        let config = folder.path().join("router.toml");
        let text = configuration(Mode::Adaptive, 1, &folder.path().join("socket"));
        std::fs::write(&config, text).unwrap();
        let mut command = topology.router.command(&binary().to_string_lossy());
        command.arg("run").arg(&config).env("NOTIFY_SOCKET", &path).stderr(Stdio::null());
        let mut router = command::spawn(&mut command).unwrap();
        let next = || {
            let mut buffer = [0; 256];
            let length = manager.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        assert_eq!(next(), "STATUS=ports: 1 of 2 attached; not right (absent)");
        assert_eq!(next(), "READY=1");
        make_again(&topology);
        while next() != "STATUS=ports: all of 2 attached" {}
        crate::harness::terminate(&router, rustix::process::Signal::TERM);
        assert!(router.wait().unwrap().success());
    });
}

/// Without /dev/net/tun, ports leave packets that are routed over other interfaces to the kernel.
#[test]
fn without_a_tun_device_no_packet_is_lost() {
    crate::harness::quiet_with(&["ping"], "without_a_tun_device_no_packet_is_lost", || {
        for mode in [Mode::Adaptive, Mode::XdpForward] {
            let topology = built(crate::harness::ADAPTIVE);
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("wattline-without-tun");
            let script = format!(
                "#!/bin/sh\ncase $1 in run) exec unshare -m sh -c 'mount -t tmpfs none /dev/net && exec \
                 \"$0\" \"$@\"' {0} \"$@\" ;; *) exec {0} \"$@\" ;; esac\n",
                binary().display()
            );
            std::fs::write(&program, script).unwrap();
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            // `right` is no port.
            let text = |socket: &Path| {
                let text = configuration(mode, 1, socket)
                    .replace("xdp_forward = \"on\"", "xdp_forward = \"auto\"");
                text.split("\n[[port]]\nname = \"right\"").next().unwrap().to_owned()
            };
            let wattline = Wattline::start_with(&topology, &program, text).unwrap();
            let log = wattline.log();
            assert!(log.contains("--device /dev/net/tun"), "{log}");
            let pings = |address: &str| {
                let ping = ["-n", "-q", "-c", "10", "-i", "0.05", "-W", "5", address];
                let output = topology.source.run("ping", &ping, LIMIT);
                let output = output.unwrap_or_else(|error| panic!("{error}\n{}", wattline.log()));
                assert!(output.contains(" 0% packet loss"), "{output}");
            };
            pings(&SINK.v4.to_string());
            pings(&SINK.v6.to_string());
            // A route that comes later.
            let later = "203.0.113.1";
            topology.sink.ip(&format!("address add {later}/32 dev lo")).unwrap();
            topology.router.ip(&format!("route del default via {}", SINK.v4)).unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            topology.router.ip(&format!("route add {later} via {}", SINK.v4)).unwrap();
            std::thread::sleep(Duration::from_millis(2500));
            pings(later);
            let totals = wattline.stop().unwrap();
            assert!(totals.balance(), "{totals:?}");
            assert_eq!(totals.punted, 0, "{totals:?}");
        }
    });
}
