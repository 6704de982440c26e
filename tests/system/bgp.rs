//! BIRD feeds a hundred thousand routes into the router's kernel, and takes them back
//! under traffic.
//!
//! ```text
//!   source ── router ── sink (answers for all that is announced)
//!               │ BGP
//!             feeder (announces; forwards nothing)
//! ```

use crate::faults::ping_once;
use crate::harness::{Bench, has};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wattline_needs::KillOnDrop;
use wattline_testbed::command;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::probe::{Load, Probe};
use wattline_testbed::topology::{Options, SINK, Topology};

const LIMIT: Duration = Duration::from_secs(120);
const V4_ROUTES: u32 = 80_000;
const V6_ROUTES: u32 = 20_000;

mod a_hundred_thousand_routes_arrive_are_used_and_go {
    tests_with! {
        a_hundred_thousand_routes_arrive_are_used_and_go, privileged:
        workers: ADAPTIVE, xdp_programs: XDP
    }
}

fn a_hundred_thousand_routes_arrive_are_used_and_go(forwarder: Forwarder) {
    let test = "a_hundred_thousand_routes_arrive_are_used_and_go";
    if !has("bird", test) || !has("ping", test) {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    let folder = TempDir::new().unwrap();
    let feeder = prepare(topology);
    let _router_bird = Bird::start(&topology.router, folder.path(), "router", ROUTER.to_owned());
    let feeding = Bird::start(&feeder, folder.path(), "feeder", feeder_configuration());
    wait_for_routes(topology, V4_ROUTES as usize, V6_ROUTES as usize);
    for destination in sample() {
        assert!(answers(topology, &destination, LIMIT), "{destination} was announced");
    }

    // Traffic to a connected network must not suffer when all routes are withdrawn.
    let load = Load { rate_pps: 2_000.0, duration: LIMIT, flows: 8 };
    let probe = Probe::start(topology, &load).unwrap();
    for family in ["announced4", "announced6"] {
        let reply = feeding.control(&format!("disable {family}")).unwrap();
        assert!(reply.contains("disabled"), "{reply}");
    }
    wait_for_routes(topology, 0, 0);
    for destination in sample() {
        wattline_needs::until_or(
            || !answers(topology, &destination, Duration::from_millis(300)),
            || format!("{destination} was withdrawn and still answers"),
        );
    }
    let outcome = probe.stop().unwrap();
    assert!(outcome.received_packets > 0);
    println!(
        "{forwarder:?}: lost {} of {} packets while {} routes went",
        outcome.lost_packets,
        outcome.offered_packets,
        V4_ROUTES + V6_ROUTES
    );
    bench.finish();
}

/// Connects a feeder to the router, makes the sink answer for all announced prefixes, and removes
/// the default route, which would hide missing ones.
fn prepare(topology: &Topology) -> Namespace {
    let feeder = Namespace::create("feeder").unwrap();
    topology
        .router
        .ip(&format!(
            "route del default via {}\nroute del default via {}\n\
             link add feed type veth peer name feed netns {}\n\
             address add 192.0.2.1/30 dev feed\nlink set feed up",
            SINK.v4,
            SINK.v6,
            feeder.name()
        ))
        .unwrap();
    feeder.ip("address add 192.0.2.2/30 dev feed\nlink set feed up").unwrap();
    topology
        .sink
        .ip("route add local 16.0.0.0/7 dev lo\nroute add local 2001:db8::/32 dev lo")
        .unwrap();
    feeder
}

fn v4_prefix(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x1000_0000 + (index << 8))
}

fn v6_prefix(index: u32) -> Ipv6Addr {
    Ipv6Addr::from((0x2001_0db8_u128 << 96) + (u128::from(index) << 80))
}

/// A host in the first, the last and some prefixes between.
fn sample() -> Vec<String> {
    let v4 = [0, 1, 12_345, 40_000, V4_ROUTES - 1]
        .map(|index| Ipv4Addr::from(u32::from(v4_prefix(index)) + 9).to_string());
    let v6 = [0, 7_777, V6_ROUTES - 1]
        .map(|index| Ipv6Addr::from(u128::from(v6_prefix(index)) + 9).to_string());
    v4.into_iter().chain(v6).collect()
}

fn answers(topology: &Topology, destination: &str, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if ping_once(topology, destination) {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}

/// Waits until the router's kernel has exactly so many routes from BIRD.
fn wait_for_routes(topology: &Topology, v4: usize, v6: usize) {
    let count = |family| {
        let list = ["-o", family, "route", "show", "proto", "bird"];
        topology.router.run("ip", &list, LIMIT).unwrap().lines().count()
    };
    let now = || (count("-4"), count("-6"));
    let reason = || format!("{:?} routes instead of {:?}", now(), (v4, v6));
    wattline_needs::until_or(|| now() == (v4, v6), reason);
}

/// A BIRD daemon; stopped when dropped.
struct Bird {
    child: KillOnDrop,
    socket: String,
}

impl Bird {
    fn start(namespace: &Namespace, folder: &Path, name: &str, configuration: String) -> Self {
        let file = folder.join(format!("{name}.conf"));
        std::fs::write(&file, configuration).unwrap();
        let socket = folder.join(format!("{name}.ctl")).display().to_string();
        let words = folder.join(format!("{name}.log"));
        let log = std::fs::File::create(&words).unwrap();
        let mut bird = namespace.command("bird");
        bird.args(["-f", "-s", &socket, "-c"]).arg(&file).stdin(Stdio::null());
        bird.stdout(Stdio::null()).stderr(log);
        let mut bird = Self { child: KillOnDrop(command::spawn(&mut bird).unwrap()), socket };
        while bird.control("show status").is_err() {
            let ended = command::wait(&mut bird.child, Duration::from_millis(50)).unwrap();
            let words = std::fs::read_to_string(&words).unwrap_or_default();
            assert!(ended.is_none(), "BIRD of the {name} did not start: {words}");
        }
        bird
    }

    fn control(&self, order: &str) -> Result<String, wattline_testbed::Error> {
        let mut birdc = std::process::Command::new("birdc");
        command::run(birdc.args(["-s", &self.socket]).args(order.split(' ')), LIMIT)
    }
}

const ROUTER: &str = "
router id 192.0.2.1;
protocol device {}
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; }
protocol bgp feeder {
    local 192.0.2.1 as 65000;
    neighbor 192.0.2.2 as 65000;
    connect delay time 1;
    ipv4 { import all; export none; };
    ipv6 { import all; export none; };
}
";

/// The next hop of all routes is the sink, which the feeder itself need not reach.
fn feeder_configuration() -> String {
    let mut text = format!(
        "
router id 192.0.2.2;
protocol device {{}}
protocol bgp reflector {{
    local 192.0.2.2 as 65000;
    neighbor 192.0.2.1 as 65000;
    connect delay time 1;
    ipv4 {{ import none; export filter {{ bgp_next_hop = {}; accept; }}; }};
    ipv6 {{ import none; export filter {{ bgp_next_hop = {}; accept; }}; }};
}}
protocol static announced4 {{ ipv4;
",
        SINK.v4, SINK.v6
    );
    for index in 0..V4_ROUTES {
        text += &format!("route {}/24 blackhole;\n", v4_prefix(index));
    }
    text += "}\nprotocol static announced6 { ipv6;\n";
    for index in 0..V6_ROUTES {
        text += &format!("route {}/48 blackhole;\n", v6_prefix(index));
    }
    text + "}\n"
}
