//! A restart of the router under traffic, with every packet counted: stopped and started by a service
//! manager that keeps descriptors, as systemd's does. Needs root.
//!
//! Senders have a limited number of packets under way, fewer than any queue on the way holds. So no
//! queue overflows however slow the machine is, and a packet that is lost is lost by the restart.

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

/// Number of restarts, unless `WATTLINE_RESTARTS` says.
const RESTARTS: u64 = 2;

fn restarts() -> u64 {
    let often = std::env::var("WATTLINE_RESTARTS").ok();
    often.and_then(|often| often.parse().ok()).unwrap_or(RESTARTS)
}

/// The programs of the router's interfaces.
fn programs(topology: &Topology) -> [Option<u32>; 2] {
    let program = |name| attached_program(interface_index(name).unwrap()).unwrap();
    let programs = || [LEFT, RIGHT].map(|port| program(port.interface));
    topology.router.enter(programs).unwrap()
}

/// One test at a time: a manager's descriptors are for its own routers, and no other program that is
/// started meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

struct Lab {
    topology: Topology,
    /// Both ends take frames of XDP programs.
    _ends: Vec<PassAll>,
    _alone: MutexGuard<'static, ()>,
}

fn build(test: &str) -> Option<Lab> {
    if !can_build_namespaces(test) {
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let topology = Topology::build(Options::default()).unwrap();
    // Neighbours are known, as to a router at work.
    for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
        topology.source.run("ping", &["-n", "-c", "2", "-W", "5", &address], LIMIT).unwrap();
    }
    let ends = [(&topology.source, SOURCE), (&topology.sink, SINK)].map(|(end, station)| {
        let pass = || PassAll::attach(interface_index(station.interface).unwrap()).unwrap();
        end.enter(pass).unwrap()
    });
    Some(Lab { topology, _ends: ends.into(), _alone: alone })
}

/// Frames wait for a thread of the kernel instead of being taken by their sender; and that thread
/// comes before all programs, as a card's interrupt does. On a busy machine the kernel's scheduler
/// leaves an ordinary thread waiting for seconds now and then (Linux 6.18, seen in its `schedstat`).
fn behave_as_cards(topology: &Topology) {
    for port in [LEFT, RIGHT] {
        let file = format!("/sys/class/net/{}/threaded", port.interface);
        topology.router.run("sh", &["-c", &format!("echo 1 > {file}")], LIMIT).unwrap();
        let thread = || napi::thread(port.interface, 0);
        let thread = topology.router.enter(thread).unwrap().unwrap().to_string();
        run(Command::new("chrt").args(["--fifo", "--pid", "1", &thread]), LIMIT).unwrap();
    }
}

/// Restarts it again and again under traffic both ways. What was sent, and what was lost.
fn restart(topology: &Topology, mode: Mode, keeps: bool) -> (u64, u64) {
    let mut manager = Manager::new(&topology.router, keeps);
    let text = |socket: &std::path::Path| configuration(mode, 1, socket);
    let mut router = manager.start(text);
    behave_as_cards(topology);
    let ways = [(&topology.source, &topology.sink), (&topology.sink, &topology.source)];
    let addresses = [SINK.v4.into(), SOURCE.v6.into()];
    let traffic: Vec<_> = ways
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
        assert!(between.iter().zip(before).all(|(now, then)| *now != then), "of the old router");
        flows(300);
        router = manager.start(text);
        behave_as_cards(topology);
        assert_eq!(manager.stored(), 0, "what outlives a router that is killed: {}", router.log());
        flows(600);
    }
    let moved = traffic.into_iter().map(Traffic::end);
    let (sent, lost) = moved.fold((0, 0), |(sent, lost), (more, less)| (sent + more, lost + less));
    println!("{mode:?}, kept {keeps}: {lost} of {sent} packets lost in {} restarts", restarts());
    let account = router.stop();
    assert!(account["forwarded"].as_u64().unwrap() > 200, "{account}");
    let by_programs = account["xdp_forwarded"].as_u64().unwrap();
    assert_eq!(by_programs > 200, mode == Mode::XdpForward, "{account}");
    // The service ends: with the manager's descriptors the programs go.
    drop(manager);
    assert_eq!(programs(topology), [None, None]);
    (sent, lost)
}

#[test]
fn a_restart_loses_no_packet_of_workers() {
    let Some(lab) = build("a_restart_loses_no_packet_of_workers") else { return };
    assert_eq!(restart(&lab.topology, Mode::Adaptive, true).1, 0);
}

#[test]
fn a_restart_loses_no_packet_of_xdp_programs() {
    let Some(lab) = build("a_restart_loses_no_packet_of_xdp_programs") else { return };
    assert_eq!(restart(&lab.topology, Mode::XdpForward, true).1, 0);
}

/// Without a store the last program leaves the interface. Then a driver may lose what its queues hold:
/// a veth without GRO does, whose ring is thrown away.
#[test]
fn without_a_store_a_driver_may_lose_what_its_queues_hold_and_nothing_else() {
    let test = "without_a_store_a_driver_may_lose_what_its_queues_hold_and_nothing_else";
    let Some(lab) = build(test) else { return };
    for mode in [Mode::Adaptive, Mode::XdpForward] {
        let (_, lost) = restart(&lab.topology, mode, false);
        assert!(lost <= restarts() * 2 * Traffic::UNDER_WAY, "{lost}");
    }
    // With GRO its queues stay.
    for port in [LEFT, RIGHT] {
        lab.topology.router.run("ethtool", &["-K", port.interface, "gro", "on"], LIMIT).unwrap();
    }
    for mode in [Mode::Adaptive, Mode::XdpForward] {
        assert_eq!(restart(&lab.topology, mode, false).1, 0);
    }
}

/// A kept attachment is used for its own interface, and for no other.
#[test]
fn another_interface_in_the_same_place_is_attached_anew() {
    let test = "another_interface_in_the_same_place_is_attached_anew";
    let Some(lab) = build(test) else { return };
    let topology = &lab.topology;
    let mut manager = Manager::new(&topology.router, true);
    let text = |socket: &std::path::Path| configuration(Mode::Adaptive, 1, socket);
    let router = manager.start(text);
    router.stop();
    assert_eq!(manager.stored(), 2);
    // One goes with its number, and another comes with that number.
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
