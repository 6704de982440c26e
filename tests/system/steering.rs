//! Several workers behind a virtual card with an indirection table: flows move between queues,
//! and workers come and go, while TCP streams go on.

use crate::harness::{Bench, privileged_with};
use crate::throughput::{Client, Server, stalls};
use std::time::Duration;
use wattline_linux::namespace::interface_index;
use wattline_testbed::forwarder::{Forwarder, Mode};
use wattline_testbed::topology::{LEFT, Options, SINK, SOURCE, Topology};
use wattline_xdp::steer::{Steering, TABLE_ENTRIES, balance};

const LIMIT: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_millis(200);
const WATCH: Duration = Duration::from_millis(800);

/// Packets that each receive queue of the router's left interface gave to XDP so far.
fn received_by_queue(topology: &Topology) -> [u64; 2] {
    let text = topology.router.run("ethtool", &["-S", LEFT.interface], LIMIT).unwrap();
    [0, 1].map(|queue| {
        let name = format!("rx_queue_{queue}_xdp_packets:");
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse().unwrap()
    })
}

fn received_meanwhile(topology: &Topology) -> [u64; 2] {
    let before = received_by_queue(topology);
    std::thread::sleep(WATCH);
    let after = received_by_queue(topology);
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn flows_move_between_queues_and_workers_come_and_go_under_tcp() {
    let test = "flows_move_between_queues_and_workers_come_and_go_under_tcp";
    privileged_with(&["iperf3"], test, || {
        let two = Forwarder::Wattline { mode: Mode::Adaptive, workers: 2 };
        let bench = Bench::start(Options { queues: 2, ..Options::default() }, two);
        let topology = &bench.topology;
        let only = |queue| balance(&[0; TABLE_ENTRIES], &[queue]);
        let steering = topology
            .source
            .enter(|| Steering::attach(interface_index(SOURCE.interface).unwrap(), &only(0)))
            .unwrap()
            .unwrap();
        let _server = Server::start(topology);
        let client =
            Client::start(&topology.source, &SINK.v4.to_string(), &["-P", "8", "-b", "5M"]);
        std::thread::sleep(Duration::from_secs(1));

        for queue in [0, 1, 0] {
            steering.write(&only(queue)).unwrap();
            std::thread::sleep(SETTLE);
            let received = received_meanwhile(topology);
            let (chosen, other) = (received[usize::from(queue)], received[1 - usize::from(queue)]);
            // Stray ARP packets and packets under way are no flows.
            assert!(chosen > 10 * other && chosen > 0, "to queue {queue}: {received:?}");
        }
        let both = balance(&only(0), &[0, 1]);
        steering.write(&both).unwrap();
        assert_eq!(steering.read().unwrap(), both);

        for workers in ["1", "2", "1", "2"] {
            bench.ask(&["active", workers]);
            std::thread::sleep(SETTLE);
        }

        let report = client.interrupt();
        assert!(!stalls(&report), "{report}");
        bench.finish();
    });
}
