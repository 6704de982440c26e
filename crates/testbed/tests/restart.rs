//! Restarts of the router under traffic, with every packet counted: a service manager that keeps
//! descriptors, as systemd does, stops and starts it. Needs root.
//!
//! Senders have a limited number of packets in flight, fewer than any queue on the path holds. So
//! no queue overflows however slow the machine is, and every lost packet is lost by the restart.

mod restarting;

use restarting::{Manager, Traffic};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wattline_linux::namespace::interface_index;
use wattline_linux::napi;
use wattline_linux::netlink::attached_program;
use wattline_testbed::command::{LIMIT, run};
use wattline_testbed::forwarder::{Mode, configuration};
use wattline_testbed::leftovers::can_build_namespaces;
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology};
use wattline_xdp::PassAll;

/// Runs the router for [`Manager`]; does nothing by itself.
#[test]
#[ignore = "the router of the other tests, which start it"]
fn the_router() {
    restarting::serve();
}

/// Default number of restarts; `WATTLINE_RESTARTS` overrides it.
const RESTARTS: u64 = 2;

fn restarts() -> u64 {
    let often = std::env::var("WATTLINE_RESTARTS").ok();
    often.and_then(|often| often.parse().ok()).unwrap_or(RESTARTS)
}

/// Returns the program ids of the router's interfaces.
fn programs(topology: &Topology) -> [Option<u32>; 2] {
    let program = |name| attached_program(interface_index(name).unwrap()).unwrap();
    let programs = || [LEFT, RIGHT].map(|port| program(port.interface));
    topology.router.enter(programs).unwrap()
}

/// Runs one test at a time: a manager's descriptors must not leak into other programs that are
/// started meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

struct Lab {
    topology: Topology,
    /// Programs with which both ends accept frames of XDP programs.
    _ends: Vec<PassAll>,
    _alone: MutexGuard<'static, ()>,
}

fn build(test: &str) -> Option<Lab> {
    if !can_build_namespaces(test) {
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let topology = Topology::build(Options::default()).unwrap();
    // Neighbours are known, as in a running router.
    for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
        topology.source.run("ping", &["-n", "-c", "2", "-W", "5", &address], LIMIT).unwrap();
    }
    let ends = [(&topology.source, SOURCE), (&topology.sink, SINK)].map(|(end, station)| {
        let pass = || PassAll::attach(interface_index(station.interface).unwrap()).unwrap();
        end.enter(pass).unwrap()
    });
    Some(Lab { topology, _ends: ends.into(), _alone: alone })
}

/// Makes a kernel thread receive frames instead of their sender, with precedence over all programs,
/// like a card's interrupt. On a busy machine, the kernel's scheduler occasionally leaves an
/// ordinary thread waiting for seconds (Linux 6.18, seen in its `schedstat`).
fn behave_as_cards(topology: &Topology) {
    for port in [LEFT, RIGHT] {
        let file = format!("/sys/class/net/{}/threaded", port.interface);
        topology.router.run("sh", &["-c", &format!("echo 1 > {file}")], LIMIT).unwrap();
        let thread = || napi::thread(port.interface, 0);
        let thread = topology.router.enter(thread).unwrap().unwrap().to_string();
        run(Command::new("chrt").args(["--fifo", "--pid", "1", &thread]), LIMIT).unwrap();
    }
}

/// Restarts the router repeatedly under traffic in both directions. Returns the numbers of sent and
/// of lost packets.
fn restart(topology: &Topology, mode: Mode, keeps: bool) -> (u64, u64) {
    let mut manager = Manager::new(&topology.router, keeps);
    let text = |socket: &std::path::Path| configuration(mode, 1, socket);
    let mut router = manager.start(text);
    behave_as_cards(topology);
    let directions = [(&topology.source, &topology.sink), (&topology.sink, &topology.source)];
    let addresses = [SINK.v4.into(), SOURCE.v6.into()];
    let traffic: Vec<_> = directions
        .into_iter()
        .zip(addresses)
        .map(|((from, to), at)| Traffic::start(from, to, at))
        .collect();
    let flows = |count: u64| traffic.iter().for_each(|traffic| traffic.wait_for(count));
    flows(300);
    for _ in 0..restarts() {
        let before = programs(topology);
        assert!(before.iter().all(Option::is_some), "{before:?}");
        let account = router.stop();
        assert!(account["forwarded"].as_u64().unwrap() > 200, "{account}");
        assert_eq!(account["dropped"], serde_json::json!({}), "{account}");
        let between = programs(topology);
        assert_eq!(between.map(|it| it.is_some()), [keeps; 2], "{between:?}");
        assert!(
            between.iter().zip(before).all(|(now, then)| *now != then),
            "programs of the old router"
        );
        flows(300);
        router = manager.start(text);
        behave_as_cards(topology);
        assert_eq!(manager.stored(), 0, "descriptors left after a restart: {}", router.log());
        flows(600);
    }
    let moved = traffic.into_iter().map(Traffic::end);
    let (sent, lost) = moved.fold((0, 0), |(sent, lost), (more, less)| (sent + more, lost + less));
    println!("{mode:?}, kept {keeps}: {lost} of {sent} packets lost in {} restarts", restarts());
    let account = router.stop();
    assert!(account["forwarded"].as_u64().unwrap() > 200, "{account}");
    let by_programs = account["xdp_forwarded"].as_u64().unwrap();
    assert_eq!(by_programs > 200, mode == Mode::XdpForward, "{account}");
    // The service ends: the programs are detached with the manager's descriptors.
    drop(manager);
    assert_eq!(programs(topology), [None, None]);
    (sent, lost)
}

#[test]
fn restart_loses_no_packet_of_workers() {
    let Some(lab) = build("restart_loses_no_packet_of_workers") else { return };
    assert_eq!(restart(&lab.topology, Mode::Adaptive, true).1, 0);
}

#[test]
fn restart_loses_no_packet_of_xdp_programs() {
    let Some(lab) = build("restart_loses_no_packet_of_xdp_programs") else { return };
    assert_eq!(restart(&lab.topology, Mode::XdpForward, true).1, 0);
}

/// Without a store, the last program is detached from the interface. A driver may then lose queued
/// packets: a veth without GRO frees its ring.
#[test]
fn only_queued_packets_may_be_lost_without_a_store() {
    let test = "only_queued_packets_may_be_lost_without_a_store";
    let Some(lab) = build(test) else { return };
    for mode in [Mode::Adaptive, Mode::XdpForward] {
        let (_, lost) = restart(&lab.topology, mode, false);
        assert!(lost <= restarts() * 2 * Traffic::UNDER_WAY, "{lost}");
    }
    // With GRO, its queues remain.
    for port in [LEFT, RIGHT] {
        lab.topology.router.run("ethtool", &["-K", port.interface, "gro", "on"], LIMIT).unwrap();
    }
    for mode in [Mode::Adaptive, Mode::XdpForward] {
        assert_eq!(restart(&lab.topology, mode, false).1, 0);
    }
}

/// A kept attachment is used for its own interface, and for no other.
#[test]
fn another_interface_with_the_same_index_is_attached_anew() {
    let test = "another_interface_with_the_same_index_is_attached_anew";
    let Some(lab) = build(test) else { return };
    let topology = &lab.topology;
    let mut manager = Manager::new(&topology.router, true);
    let text = |socket: &std::path::Path| configuration(Mode::Adaptive, 1, socket);
    let router = manager.start(text);
    router.stop();
    assert_eq!(manager.stored(), 2);
    // An interface is moved away, and another gets its index.
    let number = topology.router.enter(|| interface_index(RIGHT.interface).unwrap()).unwrap();
    topology
        .router
        .ip(&format!("link set {} netns {}", RIGHT.interface, topology.source.name()))
        .unwrap();
    topology
        .router
        .ip(&format!(
            "link add {} index {number} type veth peer name other\nlink set {} up\nlink set other up",
            RIGHT.interface, RIGHT.interface
        ))
        .unwrap();
    let router = manager.start(text);
    assert!(programs(topology).iter().all(Option::is_some), "{}", router.log());
    let moved =
        topology.source.enter(|| attached_program(interface_index(RIGHT.interface).unwrap()));
    assert_eq!(moved.unwrap().unwrap(), None, "nothing is left on the one that went");
    std::thread::sleep(Duration::from_millis(50));
    router.stop();
}
