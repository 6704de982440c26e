//! Faults around a router: links and routes that come and go under traffic. Afterwards it forwards
//! as before, and every frame is accounted for.

use crate::harness::{Bench, has, load_time};
use crate::throughput::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::time::{Duration, Instant};
use wattline_testbed::command;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::probe::{Load, Outcome, Probe};
use wattline_testbed::topology::{Options, SINK, Topology};

const LIMIT: Duration = Duration::from_secs(60);

with_every_kind_of_forwarder!(
    a_flapping_link_is_followed,
    routes_flapping_ten_thousand_times_a_second_are_followed,
    a_sink_that_stops_reading_does_not_stop_the_router,
);

fn load() -> Load {
    Load { rate_pps: 5_000.0, duration: LIMIT, flows: 16 }
}

pub fn reaches(topology: &Topology, address: &str) -> bool {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if ping_once(topology, address) {
            return true;
        }
    }
    false
}

/// Returns true if one ping is answered.
pub fn ping_once(topology: &Topology, address: &str) -> bool {
    let mut ping = topology.source.command("ping");
    ping.args(["-n", "-c", "1", "-W", "1", address]);
    command::run_to_end(&mut ping, LIMIT, "").unwrap().status.success()
}

fn reaches_sink(topology: &Topology) -> bool {
    reaches(topology, &SINK.v4.to_string()) && reaches(topology, &SINK.v6.to_string())
}

fn print(what: &str, forwarder: Forwarder, outcome: &Outcome) {
    println!(
        "{what}, {forwarder:?}: lost {} of {} packets, longest gap {:.1} ms",
        outcome.lost_packets,
        outcome.offered_packets,
        outcome.longest_gap_seconds * 1e3
    );
}

fn a_flapping_link_is_followed(forwarder: Forwarder) {
    if !has("ping", "a_flapping_link_is_followed") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let router = &bench.topology.router;
    // IPv6 addresses would not come back by themselves.
    router.sysctl(&[("ipv6/conf/right/keep_addr_on_down", "1")]).unwrap();
    let probe = Probe::start(&bench.topology, &load()).unwrap();
    for _ in 0..20 {
        router.ip("link set right down").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        router.ip("link set right up").unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(reaches_sink(&bench.topology));
    let outcome = probe.stop().unwrap();
    assert!(outcome.received_packets > 0);
    print("link flapping", forwarder, &outcome);
    bench.finish();
}

/// Ten thousand changes a second: a thousand routes come or go every tenth of a second.
fn routes_flapping_ten_thousand_times_a_second_are_followed(forwarder: Forwarder) {
    const BATCH: u32 = 1_000;
    const PERIOD: Duration = Duration::from_millis(100);
    if !has("ping", "routes_flapping_ten_thousand_times_a_second_are_followed") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    topology.sink.ip("route add local 16.0.0.0/8 dev lo").unwrap();
    let batch = |order: &str| {
        (0..BATCH).fold(String::new(), |mut lines, index| {
            let (high, low) = (index >> 8, index & 0xff);
            let _ = writeln!(lines, "route {order} 16.{high}.{low}.0/24 via {}", SINK.v4);
            lines
        })
    };
    let (add, delete) = (batch("add"), batch("del"));
    let probe = Probe::start(topology, &load()).unwrap();
    let start = Instant::now();
    let mut changes = 0;
    while start.elapsed() < load_time() {
        for lines in [&add, &delete] {
            let due = start + PERIOD * (changes / BATCH);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            topology.router.ip(lines).unwrap();
            changes += BATCH;
        }
    }
    let rate = f64::from(changes) / start.elapsed().as_secs_f64();
    // The last state counts: first only a route that leads nowhere, then one that leads on.
    topology.router.ip("route add blackhole 16.0.7.0/24").unwrap();
    wattline_needs::until("a blackhole is not followed", || !ping_once(topology, "16.0.7.1"));
    topology.router.ip(&format!("route replace 16.0.7.0/24 via {}", SINK.v4)).unwrap();
    assert!(reaches(topology, "16.0.7.1"));
    let outcome = probe.stop().unwrap();
    assert!(outcome.received_packets > 0);
    print(&format!("{rate:.0} route changes per second"), forwarder, &outcome);
    bench.finish();
}

/// The receiver of a TCP stream stops for a second and then goes on; other traffic passes
/// meanwhile.
fn a_sink_that_stops_reading_does_not_stop_the_router(forwarder: Forwarder) {
    let test = "a_sink_that_stops_reading_does_not_stop_the_router";
    if !has("iperf3", test) || !has("ping", test) {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let server = Server::start(&bench.topology);
    let mut client = bench.topology.source.command("iperf3");
    client.args(["-J", "-c", &SINK.v4.to_string(), "-t", "4"]);
    let client = std::thread::spawn(move || command::run(&mut client, LIMIT));
    std::thread::sleep(Duration::from_millis(500));
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(reaches_sink(&bench.topology));
    kill_process(pid, Signal::CONT).unwrap();
    let report: serde_json::Value = serde_json::from_str(&client.join().unwrap().unwrap()).unwrap();
    let last = report["intervals"].as_array().and_then(|all| all.last()).unwrap();
    assert!(last["sum"]["bytes"].as_u64().unwrap() > 0, "did not go on: {last}");
    bench.finish();
}
