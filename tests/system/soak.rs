//! Interfaces that change at random under TCP: after each change everything gets through again. At
//! the end every frame is accounted for, no memory and no descriptor has leaked, and the kernel is
//! as it was.
//!
//! `WATTLINE_SOAK_SECONDS` sets how long (default 6; 600 for a full run), `WATTLINE_SOAK_SEED` which
//! changes.

use crate::harness::{
    ADAPTIVE, Bench, Dice, XDP, has, number_from_environment, privileged, quiet_with,
};
use crate::returning::{
    both_pass_by_the_port, make_again, routes_again, take_xdp_frames, until_right_is,
};
use crate::throughput::{PORT, Server};
use std::process::Stdio;
use std::time::{Duration, Instant};
use wattline_needs::KillOnDrop;
use wattline_testbed::command;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::{Options, RIGHT, SINK, Topology};

const LIMIT: Duration = Duration::from_secs(60);

/// TCP from source to sink, again and again: connections do not outlive every change.
struct Tcp {
    _server: Server,
    /// The one that still runs ends by its limit, or with its namespace.
    _client: KillOnDrop,
}

impl Tcp {
    fn start(topology: &Topology) -> Self {
        let server = Server::start(topology);
        let once = format!("timeout 10 iperf3 -c {} -p {PORT} -t 5 -b 20M", SINK.v4);
        let mut client = topology.source.command("sh");
        client.args(["-c", &format!("while :; do {once}; sleep 0.1; done")]);
        client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { _server: server, _client: KillOnDrop(command::spawn(&mut client).unwrap()) }
    }
}

/// Lists the kernel's links, addresses, routes and rules, without their counters.
fn kernel_state(router: &Namespace) -> String {
    let seen = |arguments: &[&str]| router.run("ip", arguments, LIMIT).unwrap();
    let mut lines = Vec::new();
    for what in [
        &["-o", "link", "show"][..],
        &["-o", "-4", "address", "show"],
        &["-4", "route", "show", "table", "main"],
        &["rule", "show"],
        &["-6", "rule", "show"],
    ] {
        // Interfaces have other numbers when they are made again, and a queueing discipline does not
        // say more.
        let text = seen(what);
        lines.extend(text.lines().map(|line| {
            let line = line.split_once(": ").map_or(line, |(_, rest)| rest);
            let line = line.split(" link-netns").next().unwrap_or_default();
            let line = line.split(" valid_lft").next().unwrap_or_default();
            line.replace("@if", "@").trim_end().to_owned()
        }));
    }
    let names: Vec<String> = lines.iter().map(|line| without_index(line)).collect();
    names.join("\n")
}

/// `right@12: …` is `right: …`: the number is the other end's.
fn without_index(line: &str) -> String {
    match line.split_once('@') {
        Some((name, rest)) => {
            format!("{name}{}", rest.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        }
        None => line.to_owned(),
    }
}

/// Open descriptors and resident memory (kB) of a process.
pub fn held_by(pid: u32) -> (usize, u64) {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (descriptors, line.split_whitespace().next().unwrap().parse().unwrap())
}

/// Makes one change and undoes it; everything gets through when this returns.
fn change(
    bench: &Bench,
    forwarder: wattline_testbed::forwarder::Forwarder,
    dice: &mut Dice,
) -> &'static str {
    let Topology { router, sink, source, .. } = &bench.topology;
    let ip = |namespace: &Namespace, lines: &str| {
        namespace.ip(lines).unwrap_or_else(|error| panic!("{lines}: {error}"));
    };
    let address = format!("address replace {}/64 dev right nodad", RIGHT.v6);
    let what = match dice.below(9) {
        0 => {
            for _ in 0..=dice.below(5) {
                ip(router, "link set right down\nlink set right up");
            }
            "the link goes down and up"
        }
        1 => {
            ip(sink, "link set uplink down");
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            ip(sink, "link set uplink up");
            ip(sink, &format!("address replace {}/64 dev uplink nodad", SINK.v6));
            "the far end goes down and up"
        }
        2 => {
            ip(router, "link set right down\nlink set right name elsewhere\nlink set elsewhere up");
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            ip(router, "link set elsewhere down\nlink set elsewhere name right\nlink set right up");
            "another name and back"
        }
        3 => {
            let elsewhere = Namespace::create("elsewhere").unwrap();
            ip(router, &format!("link set right netns {}", elsewhere.name()));
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            ip(&elsewhere, &format!("link set right netns {}", router.name()));
            ip(router, &format!("address add {}/24 dev right\nlink set right up", RIGHT.v4));
            "another namespace and back"
        }
        4 => {
            ip(router, "link del right");
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            make_again(&bench.topology);
            // It ends with the interface that it is on.
            std::mem::forget(take_xdp_frames(&bench.topology, forwarder));
            "deleted and made again"
        }
        5 => {
            ip(router, "link set right mtu 1400");
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            ip(router, "link set right mtu 1500");
            "another MTU and back"
        }
        6 => {
            let all = |mtu: u32| {
                ip(router, &format!("link set left mtu {mtu}\nlink set right mtu {mtu}"));
                ip(source, &format!("link set uplink mtu {mtu}"));
                ip(sink, &format!("link set uplink mtu {mtu}"));
            };
            all(9000);
            // Both ends remember the MTU of a narrower link for minutes.
            for end in [source, sink] {
                ip(end, "route flush cache");
            }
            let mut ping = source.command("ping");
            ping.args(["-n", "-c", "5", "-i", "0.05", "-W", "5", "-s", "8000", "-M", "do"]);
            let output = command::run(ping.arg(SINK.v4.to_string()), LIMIT);
            let output = output.unwrap_or_else(|error| panic!("jumbo frames: {error}"));
            assert!(output.contains(" 0% packet loss"), "jumbo frames: {output}");
            all(1500);
            "jumbo frames on every link and back"
        }
        7 => {
            ip(router, "address add 203.0.113.1/24 dev right\naddress add 203.0.113.9/32 dev left");
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            ip(router, "address del 203.0.113.1/24 dev right\naddress del 203.0.113.9/32 dev left");
            "addresses come and go"
        }
        _ => {
            ip(router, "neighbour flush dev right\nneighbour flush dev left");
            ip(source, "neighbour flush dev uplink");
            "neighbours are forgotten"
        }
    };
    // Addresses and routes that do not outlive an interface that is down.
    ip(router, &address);
    routes_again(&bench.topology);
    what
}

fn soak(forwarder: wattline_testbed::forwarder::Forwarder, time: Duration, seed: u64) {
    let topology = Topology::build(Options::default()).unwrap();
    topology.router.sysctl(&[("ipv6/conf/all/keep_addr_on_down", "1")]).unwrap();
    let before = kernel_state(&topology.router);
    let bench = Bench::start_in(topology, forwarder, "");
    let tcp = Tcp::start(&bench.topology);
    let pid = bench.router().pid();
    let mut dice = Dice(seed | 1);
    let end = Instant::now() + time;
    let mut changes = 0;
    let mut first = None;
    while Instant::now() < end || changes < 4 {
        let what = change(&bench, forwarder, &mut dice);
        changes += 1;
        until_right_is(&bench, "up");
        // No loss once a change is over, in either family, by Wattline.
        both_pass_by_the_port(&bench, Instant::now());
        let held = held_by(pid);
        // From the first few on nothing grows; a run has at least one more.
        if changes == 3 {
            first = Some(held);
        }
        println!("{changes}: {what}: {} descriptors, {} kB", held.0, held.1);
    }
    drop(tcp);
    let (descriptors, memory) = held_by(pid);
    let (first_descriptors, first_memory) = first.expect("there were at least four changes");
    assert!(
        descriptors <= first_descriptors + 2,
        "{first_descriptors} descriptors, then {descriptors}, after {changes} changes, seed {seed}"
    );
    assert!(
        memory <= first_memory + first_memory / 10,
        "{first_memory} kB, then {memory}, after {changes} changes, seed {seed}"
    );
    let Bench { running, topology, .. } = bench;
    let log = running.wattline.as_ref().unwrap().log();
    assert!(!log.contains("panicked"), "{log}");
    let totals = running.stop().unwrap_or_else(|error| panic!("{error}")).unwrap();
    assert!(totals.balance(), "received + generated = forwarded + punted + dropped: {totals:?}");
    assert!(totals.forwarded > 0, "{totals:?}");
    assert_eq!(kernel_state(&topology.router), before, "the kernel is as it was; seed {seed}");
    println!("{changes} changes: {totals:?}");
}

#[test]
fn random_changes_under_tcp_lose_only_explained_packets() {
    let test = "random_changes_under_tcp_lose_only_explained_packets";
    if !has("ping", test) || !has("iperf3", test) {
        return;
    }
    let time = Duration::from_secs(number_from_environment("WATTLINE_SOAK_SECONDS", 6)) / 2;
    let seed = number_from_environment("WATTLINE_SOAK_SEED", 0x5eed);
    for forwarder in [ADAPTIVE, XDP] {
        privileged(test, || soak(forwarder, time, seed));
    }
}

/// `WATTLINE_SOAK_CYCLES` times (default 8; 300 for a full run).
#[test]
fn interfaces_that_are_attached_again_and_again_leak_nothing() {
    quiet_with(&["ping"], "interfaces_that_are_attached_again_and_again_leak_nothing", || {
        let cycles = number_from_environment("WATTLINE_SOAK_CYCLES", 8);
        let bench = Bench::start(Options::default(), ADAPTIVE);
        let pid = bench.router().pid();
        assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
        let mut first = None;
        for cycle in 0..cycles {
            bench.topology.router.ip("link del right").unwrap();
            until_right_is(&bench, "absent");
            make_again(&bench.topology);
            until_right_is(&bench, "up");
            if cycle == 3 {
                first = Some(held_by(pid));
            }
        }
        assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
        let (descriptors, memory) = held_by(pid);
        println!("{cycles} cycles: {first:?}, then {descriptors} descriptors, {memory} kB");
        if let Some((first_descriptors, first_memory)) = first {
            assert!(
                descriptors <= first_descriptors + 2,
                "{first_descriptors}, then {descriptors}"
            );
            assert!(memory <= first_memory + first_memory / 5, "{first_memory} kB, then {memory}");
        }
        bench.finish();
    });
}
