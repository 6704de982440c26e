//! Ports that `wattline reload` adds and removes while the others forward: the others lose nothing,
//! an added port forwards, and a removed port leaves its interface as it was.

use crate::harness::{ADAPTIVE, XDP, binary, has, privileged_with, quiet, quiet_with};
use crate::ipsec::{KIND, keys, tunnel_end};
use crate::soak::held_by;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wattline_daemon::socket::{Request, ask};
use wattline_dataplane::port::PortId;
use wattline_linux::namespace::interface_index;
use wattline_ports::afxdp::{self, OpenedWorker, QueueAddress, open_worker};
use wattline_testbed::command;
use wattline_testbed::forwarder::{Forwarder, Mode, Wattline, configuration};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::probe::{Load, Probe};
use wattline_testbed::topology::{Options, SINK, Station, Topology, connect};
use wattline_xdp::PassAll;

pub const LIMIT: Duration = Duration::from_secs(60);

/// The interface that becomes a port, and its far end.
pub const SIDE: Station = Station {
    interface: "side",
    mac: [0x02, 0x57, 0, 0, 0, 0x31],
    v4: std::net::Ipv4Addr::new(198, 18, 9, 1),
    v6: std::net::Ipv6Addr::new(0x2001, 2, 0, 3, 0, 0, 0, 1),
};
const FAR: Station = Station {
    interface: "uplink",
    mac: [0x02, 0x57, 0, 0, 0, 0x32],
    v4: std::net::Ipv4Addr::new(198, 18, 9, 2),
    v6: std::net::Ipv6Addr::new(0x2001, 2, 0, 3, 0, 0, 0, 2),
};
const SIDE_PORT: &str = "\n[[port]]\nname = \"side\"\ninterface = \"side\"\n";

const POLL_TWO: Forwarder = Forwarder::Wattline { mode: Mode::Poll, workers: 2 };

mod with {
    tests_with! {
        a_port_comes_and_goes_under_traffic, quiet:
        workers: ADAPTIVE, xdp_programs: XDP
    }

    #[test]
    #[ignore = "takes all processors; `make test-long` runs it"]
    fn two_polling_workers() {
        let test = "a_port_comes_and_goes_under_traffic";
        crate::harness::alone(test, || {
            super::a_port_comes_and_goes_under_traffic(super::POLL_TWO);
        });
    }
}

/// A router between source and sink, with one more interface that is no port yet.
pub struct Row {
    // First: the router is stopped before its namespace goes.
    pub router: Wattline,
    pub plain: String,
    _ends: Vec<PassAll>,
    pub far: Namespace,
    pub topology: Topology,
}

impl Row {
    fn start(forwarder: Forwarder) -> Self {
        Self::start_with(forwarder, "")
    }

    /// With more keys of `[router]`.
    fn start_with(forwarder: Forwarder, keys: &str) -> Self {
        Self::start_beside(forwarder, keys, "")
    }

    /// And with more sections.
    pub fn start_beside(forwarder: Forwarder, keys: &str, sections: &str) -> Self {
        Self::start_as(binary(), forwarder, keys, sections, |_| {})
    }

    /// Starts the given program, once the topology is prepared.
    pub fn start_as(
        program: &Path,
        forwarder: Forwarder,
        keys: &str,
        sections: &str,
        prepare: impl FnOnce(&Topology),
    ) -> Self {
        let Forwarder::Wattline { mode, workers } = forwarder else { unreachable!() };
        let options = Options { queues: workers, static_neighbours: true, ..Options::default() };
        let topology = Topology::build(options).unwrap();
        let far = Namespace::create("far").unwrap();
        connect(&topology.router, SIDE, &far, FAR, 1500, workers).unwrap();
        let routes =
            format!("route add default via {}\nroute add default via {}", SIDE.v4, SIDE.v6);
        far.ip(&routes).unwrap();
        prepare(&topology);
        let ends = match mode {
            Mode::XdpForward => {
                [&topology.source, &topology.sink, &far].map(take_xdp_frames).into()
            }
            _ => Vec::new(),
        };
        let text = |socket: &Path| {
            let text = configuration(mode, workers, socket) + sections;
            text.replace("[router]\n", &format!("[router]\n{keys}"))
        };
        let router = Wattline::start_with(&topology, program, text).unwrap();
        let plain = std::fs::read_to_string(router.config()).unwrap();
        Self { router, plain, _ends: ends, far, topology }
    }

    /// Reloads this configuration. Returns the report, or the error.
    pub fn reload(&self, text: &str) -> Result<Value, String> {
        std::fs::write(self.router.config(), text).unwrap();
        // The router's own program may have been replaced.
        let mut command = Command::new(binary());
        command.args(["reload", "--json", "--socket"]).arg(self.router.socket());
        let output = command::run_to_end(&mut command, LIMIT, "").unwrap();
        match output.status.code() {
            // The second where a part of it needs a restart.
            Some(0 | 75) => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    #[track_caller]
    pub fn apply(&self, text: &str) -> Value {
        let report = self.reload(text);
        report.unwrap_or_else(|error| panic!("{error}\n{}", self.router.log()))
    }

    pub fn with_side(&self) -> String {
        self.plain.clone() + SIDE_PORT
    }

    pub fn port(&self, name: &str) -> Option<Value> {
        let stats = self.router.stats().unwrap();
        let ports = stats["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).cloned()
    }

    pub fn ask(&self, what: &[&str]) -> String {
        self.router.ask(what).unwrap()
    }

    /// Samples of the metrics that name the port, by queue and direction, with their values.
    fn metrics_of_side(&self) -> Vec<String> {
        let answer = ask(&self.router.socket(), Request::Metrics).unwrap();
        let lines = answer.as_str().unwrap().lines();
        let of_side = lines.filter(|line| line.starts_with("wattline_packets_total"));
        of_side.filter(|line| line.contains("port=\"side\"")).map(str::to_owned).collect()
    }

    /// Twenty pings each from the far end to the sink, by IPv4 and IPv6: all are answered.
    #[track_caller]
    pub fn pings(&self) {
        for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
            // Ping waits for the last answer no longer than its interval, whatever `-W` says; a
            // worker may have to wait that long for its processor.
            let ping = ["-n", "-c", "20", "-i", "0.05", "-W", "5", &address];
            let output = self.far.run("ping", &ping, LIMIT);
            let output = output.unwrap_or_else(|error| panic!("{error}\n{}", self.router.log()));
            assert!(output.contains(" 0% packet loss"), "{output}\n{}", self.router.log());
        }
    }

    /// The same, by the port: it counts them both ways from 0 on.
    #[track_caller]
    pub fn pings_by_the_port(&self) {
        self.pings();
        // An idle worker reports its counts with its next batch.
        let side = || self.port("side").unwrap();
        let counted = || {
            let side = side();
            let counts = ["received_packets", "transmitted_packets"].map(|key| side[key].as_u64());
            counts.iter().all(|count| (40..80).contains(&count.unwrap()))
        };
        wattline_needs::until_or(counted, || format!("{}\n{}", side(), self.router.log()));
    }

    /// Everything about the interface that a port could leave behind, at both ends.
    pub fn traces(&self) -> String {
        let Self { topology: Topology { router, .. }, far, .. } = self;
        let run = |of: &Namespace, program: &str, arguments: &str| {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            of.run(program, &arguments, LIMIT).unwrap()
        };
        let files = "grep -s . /sys/class/net/side/flags /sys/class/net/side/threaded \
                     /sys/class/net/side/gro_flush_timeout \
                     /sys/class/net/side/napi_defer_hard_irqs";
        let settings = router.run("sh", &["-c", files], LIMIT).unwrap();
        [
            run(router, "ip", "-d link show side"),
            // Duplicate address detection may still be under way when the test begins.
            run(router, "ip", "address show side").replace(" tentative", ""),
            run(router, "ip", "route show dev side"),
            run(router, "ethtool", "-k side"),
            run(router, "ethtool", "-l side"),
            run(far, "ethtool", "-k uplink"),
            settings,
        ]
        .join("\n")
    }

    /// Descriptors of the router, by kind: sockets, programs, maps, attachments.
    fn descriptors(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.router.pid());
        let kind = |entry: std::io::Result<std::fs::DirEntry>| {
            let target = std::fs::read_link(entry.ok()?.path()).ok()?;
            let text = target.to_string_lossy().into_owned();
            Some(text.split(":[").next().unwrap_or_default().to_owned())
        };
        let mut kinds: Vec<_> = std::fs::read_dir(folder).unwrap().filter_map(kind).collect();
        kinds.sort();
        kinds
    }

    /// The same once no connection that has been answered is still being closed.
    pub fn descriptors_at_rest(&self) -> Vec<String> {
        let (mut last, mut looks, mut since) = (self.descriptors(), 0, Instant::now());
        while looks < 10 || since.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.descriptors();
            if now != last {
                (last, looks, since) = (now, 0, Instant::now());
            }
            looks += 1;
        }
        last
    }

    /// A connection that is just being closed is not yet gone.
    #[track_caller]
    pub fn until_descriptors_are(&self, expected: &[String]) {
        let reason = || format!("{expected:?}\nand now {:?}", self.descriptors());
        wattline_needs::until_or(|| self.descriptors() == expected, reason);
    }

    pub fn stop(self) {
        let totals = self.router.stop().unwrap();
        assert!(totals.balance(), "{totals:?}");
    }
}

/// Makes the end of a wire take frames of XDP programs.
fn take_xdp_frames(namespace: &Namespace) -> PassAll {
    let attach = || PassAll::attach(interface_index("uplink").unwrap()).unwrap();
    namespace.enter(attach).unwrap()
}

pub fn load(rate_pps: f64) -> Load {
    Load { rate_pps, duration: Duration::from_secs(600), flows: 16 }
}

/// Checks that every packet between the other ports has arrived, except drops at the receiver's
/// socket.
#[track_caller]
pub fn lost_nothing(probe: Probe) {
    let outcome = probe.stop().unwrap();
    assert!(outcome.received_packets > 1000, "{outcome:?}");
    assert_eq!(outcome.lost_packets, outcome.receiver_overflow_packets, "{outcome:?}");
}

fn a_port_comes_and_goes_under_traffic(forwarder: Forwarder) {
    if !has("ping", "a_port_comes_and_goes_under_traffic") {
        return;
    }
    let row = Row::start(forwarder);
    row.pings();
    let (traces, descriptors) = (row.traces(), row.descriptors_at_rest());
    let probe = Probe::start(&row.topology, &load(5_000.0)).unwrap();
    let mut forwarded = 0;
    // The second time shows leftovers of the first.
    for _ in 0..2 {
        assert!(row.port("side").is_none());
        let report = row.apply(&row.with_side());
        assert_eq!(report["applied"], serde_json::json!(["[[port]]"]), "{report}");
        assert_eq!(report["not_as_configured"], serde_json::json!([]), "{report}");
        let side = row.port("side").unwrap();
        assert_eq!(side["state"], "up", "{side}");
        assert_eq!(side["received_packets"], 0, "{side}");
        row.pings_by_the_port();
        if forwarder == XDP {
            let side = row.port("side").unwrap();
            assert!(side["xdp"]["received_packets"].as_u64().unwrap() >= 40, "{side}");
            assert!(side["xdp"]["transmitted_packets"].as_u64().unwrap() >= 40, "{side}");
        }
        let samples = row.metrics_of_side();
        let sum: f64 =
            samples.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        assert!((80.0..160.0).contains(&sum), "{samples:?}");
        let shown: Value = serde_json::from_str(&row.ask(&["show", "ports", "--json"])).unwrap();
        let shown = shown["ports"].as_array().unwrap().clone();
        let names: Vec<_> = shown.iter().map(|port| port["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["left", "right", "side"]);
        assert_eq!((&shown[2]["interface"], &shown[2]["mtu"]), (&"side".into(), &1500.into()));
        assert!(shown[2]["addresses"].to_string().contains(&SIDE.v4.to_string()), "{shown:?}");

        let report = row.apply(&row.plain);
        assert_eq!(report["applied"], serde_json::json!(["[[port]]"]), "{report}");
        assert!(row.port("side").is_none());
        assert!(row.metrics_of_side().is_empty(), "{:?}", row.metrics_of_side());
        assert_eq!(row.traces(), traces);
        row.until_descriptors_are(&descriptors);
        row.pings();
        // The sums go on where the port's counts are gone.
        let stats = row.router.stats().unwrap();
        let now = stats["forwarded"].as_u64().unwrap();
        assert!(now >= forwarded + 80, "{forwarded}, then {now}");
        forwarded = now;
    }
    // Another place in the file is the same port.
    let (head, ports) = row.plain.split_once("\n[[port]]").unwrap();
    row.apply(&format!("{head}{SIDE_PORT}\n[[port]]{ports}"));
    row.pings_by_the_port();
    assert_eq!(row.port("left").unwrap()["state"], "up");
    lost_nothing(probe);
    row.stop();
}

/// A port from the start is removed, and an added one takes its place; then it comes back.
#[test]
fn a_port_of_the_start_goes_and_comes_back() {
    privileged_with(&["ping"], "a_port_of_the_start_goes_and_comes_back", || {
        for forwarder in [ADAPTIVE, XDP] {
            let row = Row::start(forwarder);
            row.pings();
            let probe = Probe::start(&row.topology, &load(20_000.0)).unwrap();
            row.apply(&row.with_side());
            // By the kernel the probe's packets get through as well.
            let left = "\n[[port]]\nname = \"left\"\ninterface = \"left\"\n";
            let without_left = row.with_side().replace(left, "");
            row.apply(&without_left);
            assert!(row.port("left").is_none());
            row.pings_by_the_port();
            row.apply(&row.with_side());
            assert_eq!(row.port("left").unwrap()["state"], "up");
            let count = || row.port("left").unwrap()["received_packets"].as_u64().unwrap();
            wattline_needs::until_or(|| count() >= 1000, || row.router.log());
            lost_nothing(probe);
            row.stop();
        }
    });
}

#[test]
fn ports_that_come_and_go_twenty_times_leak_nothing() {
    quiet_with(&["ping"], "ports_that_come_and_go_twenty_times_leak_nothing", || {
        for forwarder in [ADAPTIVE, XDP] {
            let row = Row::start(forwarder);
            let (traces, descriptors) = (row.traces(), row.descriptors_at_rest());
            let probe = Probe::start(&row.topology, &load(2_000.0)).unwrap();
            let mut early = 0;
            for round in 0..20 {
                row.apply(&row.with_side());
                if round % 10 == 0 {
                    row.pings_by_the_port();
                }
                row.apply(&row.plain);
                if round == 9 {
                    early = held_by(row.router.pid()).1;
                }
            }
            row.until_descriptors_are(&descriptors);
            let late = held_by(row.router.pid()).1;
            println!("{forwarder:?}: {early} kB after 10 rounds, {late} kB after 20");
            // Less than a frame memory or a ring: a leak would leave one in each round.
            assert!(late < early + 2048, "{early} kB, then {late} kB");
            assert_eq!(row.traces(), traces);
            lost_nothing(probe);
            row.stop();
        }
    });
}

/// The kernel releases a queue some time after its last socket was closed, on a busy machine
/// seconds after. A socket of another program stands for the delay, which a test cannot cause.
#[test]
fn returning_port_waits_for_queues_of_closed_sockets() {
    quiet("returning_port_waits_for_queues_of_closed_sockets", || {
        let row = Row::start(ADAPTIVE);
        row.apply(&row.with_side());
        row.apply(&row.plain);
        let removed = Instant::now();
        let held = row.topology.router.enter(hold_queue_of_side).unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(3));
            drop(held);
        });
        row.apply(&row.with_side());
        assert!(removed.elapsed() > Duration::from_secs(3));
        holder.join().unwrap();
        assert_eq!(row.port("side").unwrap()["state"], "up");

        // A queue that is never released is refused.
        row.apply(&row.plain);
        let held = row.topology.router.enter(hold_queue_of_side).unwrap();
        let error = row.reload(&row.with_side()).unwrap_err();
        assert!(error.contains("queue 0 of side is in use by another process"), "{error}");
        drop(held);
        row.apply(&row.with_side());
        row.stop();
    });
}

fn hold_queue_of_side() -> OpenedWorker {
    let address = QueueAddress {
        port: PortId(0),
        interface: SIDE.interface.to_owned(),
        ifindex: interface_index(SIDE.interface).unwrap(),
        queue: 0,
        mtu: 1500,
        copies: false,
    };
    open_worker(&[address], &afxdp::Options { patience: LIMIT, ..afxdp::Options::default() })
        .unwrap()
}

/// A missing cable is not a configuration error, and `stats` reports it at once.
#[test]
fn added_port_without_a_carrier_reports_it_at_once() {
    quiet("added_port_without_a_carrier_reports_it_at_once", || {
        let row = Row::start(ADAPTIVE);
        row.far.run("ip", &["link", "set", "uplink", "down"], LIMIT).unwrap();
        let report = row.apply(&row.with_side());
        assert_eq!(report["not_as_configured"], serde_json::json!([]), "{report}");
        let side = row.port("side").unwrap();
        assert_eq!(side["state"], "no-carrier", "{side}");
        assert!(side["reason"].as_str().unwrap().contains("no carrier"), "{side}");
        assert!(row.router.log().contains("port side: no-carrier"), "{}", row.router.log());
        row.stop();
    });
}

/// The kernel shapes the output of the interface: as at the start, the port is left to it, and
/// served once the shaper is gone.
#[test]
fn added_port_is_left_to_the_kernel_as_at_the_start() {
    let test = "added_port_is_left_to_the_kernel_as_at_the_start";
    quiet_with(&["ping"], test, || {
        for forwarder in [ADAPTIVE, XDP] {
            let row = Row::start(forwarder);
            let tc = |arguments: &str| {
                let arguments: Vec<&str> = arguments.split(' ').collect();
                row.topology.router.run("tc", &arguments, LIMIT).unwrap();
            };
            let descriptors = row.descriptors_at_rest();
            tc("qdisc add dev side root tbf rate 1gbit burst 1mb latency 50ms");
            let report = row.apply(&row.with_side());
            assert!(report["not_as_configured"][0].as_str().unwrap().contains("tbf"), "{report}");
            assert_eq!(row.port("side").unwrap()["state"], "left");
            row.pings();
            assert_eq!(row.port("side").unwrap()["received_packets"], 0);
            assert!(!row.traces().contains("xdp"), "{}", row.traces());
            tc("qdisc del dev side root");
            wattline_needs::until_or(
                || row.port("side").unwrap()["state"] == "up",
                || row.router.log(),
            );
            row.pings_by_the_port();
            row.apply(&row.plain);
            row.until_descriptors_are(&descriptors);
            row.stop();
        }
    });
}

/// Packets that a tunnel protects do not leave unencrypted, whether a port is there, comes or goes: the
/// kernel is kept from forwarding them, and the XDP program of an added port passes none to it.
#[test]
fn a_port_that_is_added_beside_a_tunnel_is_guarded() {
    quiet_with(&["ping"], "a_port_that_is_added_beside_a_tunnel_is_guarded", || {
        let folder = tempfile::tempdir().unwrap();
        keys(folder.path(), KIND);
        let networks = [["198.18.9.0/24", "198.19.0.0/24"]];
        let tunnel = tunnel_end(folder.path(), KIND, 0, &networks);
        let row = Row::start_beside(ADAPTIVE, "spare_ports = 1\n", &tunnel);
        // ICMP echo requests that the sink saw unencrypted.
        let in_clear = || {
            let text = row.topology.sink.run("cat", &["/proc/net/snmp"], LIMIT).unwrap();
            let mut lines = text.lines().filter(|line| line.starts_with("Icmp:"));
            let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
            let mut fields = names.split(' ').zip(values.split(' '));
            fields.find(|(name, _)| *name == "InEchos").unwrap().1.to_owned()
        };
        let before = in_clear();
        // No answer comes back, since no gateway decrypts them.
        let pings = || {
            for more in [&[][..], &["-R"], &["-T", "tsonly"]] {
                let mut ping = row.far.command("ping");
                ping.args(["-n", "-c", "5", "-i", "0.01", "-W", "1"]).args(more);
                let output = command::run_to_end(ping.arg(SINK.v4.to_string()), LIMIT, "").unwrap();
                assert!(!output.status.success(), "{output:?}");
            }
            assert_eq!(in_clear(), before);
        };
        let encrypted = || {
            let stats = row.router.stats().unwrap();
            let tunnel = &stats["applications"]["ipsec"]["tunnels"][0];
            tunnel["outbound"]["packets"].as_u64().unwrap_or_else(|| panic!("{stats}"))
        };
        pings();
        for round in 1..=2 {
            let report = row.apply(&row.with_side());
            assert_eq!(report["needs_restart"], serde_json::json!([]), "{report}");
            pings();
            wattline_needs::until_or(|| encrypted() >= round * 5, || row.router.stats().unwrap());
            row.apply(&row.plain);
            pings();
        }
        row.stop();
    });
}

/// Flows of an added port are recorded with its name and number; recording of other ports goes on.
#[test]
fn a_port_that_is_added_is_in_the_flow_records() {
    quiet_with(&["ping"], "a_port_that_is_added_is_in_the_flow_records", || {
        let records = "[flow_records]\ncollectors = [\"ipfix://127.0.0.1:4739\"]\n\
                       idle_timeout = \"1s\"\n";
        let row = Row::start_beside(ADAPTIVE, "spare_ports = 1\n", records);
        for _ in 0..2 {
            let report = row.apply(&row.with_side());
            assert_eq!(report["needs_restart"], serde_json::json!([]), "{report}");
            row.pings_by_the_port();
            let stats = row.router.stats().unwrap();
            let numbers = &stats["applications"]["flow_records"]["interfaces"];
            let number = row.topology.router.enter(|| interface_index("side").unwrap()).unwrap();
            assert_eq!(numbers[2], serde_json::json!({ "number": number, "port": "side" }));
            let recorded = || {
                let shown: Value =
                    serde_json::from_str(&row.ask(&["show", "flows", "--json"])).unwrap();
                let flows = shown["flows"].as_array().unwrap().clone();
                let is_there = |key: &str| flows.iter().any(|flow| flow[key] == "side");
                is_there("in") && is_there("out")
            };
            wattline_needs::until_or(recorded, || row.ask(&["show", "flows"]));
            row.apply(&row.plain);
            row.pings();
        }
        // Not with another choice of ports: nothing of it is in force.
        let chosen = row.with_side().replace("idle_timeout", "ports = [\"left\"]\nidle_timeout");
        let report = row.apply(&chosen);
        let because = report["because"].to_string();
        assert!(because.contains("[flow_records] ports has changed"), "{report}");
        assert!(row.port("side").is_none());
        row.stop();
    });
}

/// All errors are reported, and nothing is applied.
#[test]
fn a_reload_with_a_bad_port_leaves_all_as_it_was() {
    quiet_with(&["ping"], "a_reload_with_a_bad_port_leaves_all_as_it_was", || {
        let row = Row::start_with(ADAPTIVE, "spare_ports = 2\n");
        let router = &row.topology.router;
        router.ip("link add low type veth peer name lower\nlink add odd type veth peer name even\nlink set odd up\nlink set even up").unwrap();
        let port = |name: &str| format!("\n[[port]]\nname = \"{name}\"\ninterface = \"{name}\"\n");
        let (traces, descriptors) = (row.traces(), row.descriptors_at_rest());
        let route = "\n[[route]]\nprefix = \"203.0.113.0/24\"\nkind = \"blackhole\"\n";
        let refused = |text: &str, words: &[&str]| {
            let error = row.reload(text).unwrap_err();
            for word in words {
                assert!(error.contains(word), "{word} in: {error}");
            }
            let stats = row.router.stats().unwrap();
            assert_eq!(stats["ports"].as_array().unwrap().len(), 2, "{stats}");
            assert_eq!(row.traces(), traces);
            row.until_descriptors_are(&descriptors);
            let routes = row.ask(&["show", "routes", "203.0.113.0/24"]);
            assert!(!routes.contains("blackhole"), "{routes}");
        };
        // A good one beside two that are known to be bad.
        let bad = [port("nowhere"), port("low"), route.to_owned()].concat();
        refused(
            &(row.with_side() + &bad),
            &["[[port]] nowhere", "no such interface", "[[port]] low", "is down"],
        );
        // One that turns out to be bad after the good one was attached.
        let stranger = router.enter(|| PassAll::attach(interface_index("odd").unwrap()).unwrap());
        refused(&(row.with_side() + &port("odd") + route), &["[[port]] odd", "XDP program"]);
        drop(stranger);
        // More than there is room for.
        router.ip("link set low up").unwrap();
        let many = [port("odd"), port("low")].concat();
        refused(&(row.with_side() + &many + route), &["[[port]] low", "spare_ports = 2"]);
        // An interface of another port.
        let renamed = row.plain.replace("name = \"right\"", "name = \"other\"");
        refused(&(renamed + route), &["[[port]] other", "still belongs to port right"]);
        // Longer packets than the memory of this router takes.
        router.ip("link set odd mtu 3000\nlink set even mtu 3000").unwrap();
        refused(&(row.with_side() + &port("odd") + route), &["[[port]] odd", "3000", "mtu 1774"]);

        // Changes of ports that stay are reported as needing a restart; they are no mistake.
        let report = row.apply(
            &(row.plain.replace("interface = \"left\"", "interface = \"left\"\nmtu = 1400")
                + SIDE_PORT),
        );
        assert_eq!(report["needs_restart"], serde_json::json!(["[[port]]"]), "{report}");
        assert!(report["because"][0].as_str().unwrap().contains("left: mtu"), "{report}");
        assert!(row.port("side").is_none());

        // After all of that a good one is added.
        row.apply(&row.with_side());
        row.pings_by_the_port();
        row.stop();
    });
}
