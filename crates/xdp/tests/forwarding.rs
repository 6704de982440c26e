//! AF_XDP ports and the XDP program together, on veth pairs in network namespaces. Needs root;
//! without it, the tests print a note and pass.

mod common;

use common::{ROUTER_IN_MAC, ROUTER_OUT_MAC, SINK_MAC, Topology, index};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wattline_dataplane::frame::{BATCH_MAX, Frame, FramePool};
use wattline_dataplane::port::{PortId, PortQueue, Waiter};
use wattline_linux::namespace::enter_thread;
use wattline_needs::StopOnDrop;
use wattline_ports::afxdp::{
    AfXdpQueue, OpenError, OpenedWorker, Options, QueueAddress, open_worker,
};
use wattline_ports::waiter::PollWaiter;
use wattline_xdp::steer::{Steering, TABLE_ENTRIES, balance};
use wattline_xdp::{LocalAddress, Verdict, XdpError, XdpMode, XdpModeChoice, XdpProgram};

const QUEUES: u32 = 2;
/// Far longer than any step of these tests.
const PATIENCE: Duration = Duration::from_secs(30);

fn address(port: u16, interface: &str, queue: u32) -> QueueAddress {
    let mtu = 1500;
    let (interface, ifindex) = (interface.to_owned(), index(interface));
    QueueAddress { port: PortId(port), interface, ifindex, queue, mtu, copies: false }
}

/// Opens queue `queue` of the router's two interfaces, for one worker.
fn worker(queue: u32) -> OpenedWorker {
    let addresses = [address(0, "r0", queue), address(1, "r1", queue)];
    open_worker(&addresses, &Options { ring: 256, ..Options::default() }).unwrap()
}

fn programs() -> (XdpProgram, XdpProgram) {
    let load = |name, mac| XdpProgram::load(index(name), mac, XdpModeChoice::Auto).unwrap();
    (load("r0", ROUTER_IN_MAC), load("r1", ROUTER_OUT_MAC))
}

/// Receives frames on the first queue and sends them out on the second, with new MAC addresses,
/// until `stop` is set and nothing is left.
fn forward(mut opened: OpenedWorker, stop: &AtomicBool) -> (FramePool, Vec<AfXdpQueue>) {
    let pool = &mut opened.pool;
    let mut waiter = PollWaiter::new(opened.queues.iter().map(AfXdpQueue::socket)).unwrap();
    let [incoming, outgoing] = opened.queues.as_mut_slice() else { panic!("two queues") };
    let mut frames = [Frame::default(); BATCH_MAX];
    loop {
        incoming.recycle(pool);
        outgoing.recycle(pool);
        let count = incoming.receive(pool, &mut frames);
        if count == 0 {
            if stop.load(Ordering::Acquire) {
                break;
            }
            waiter.wait(Duration::from_millis(10));
            continue;
        }
        for frame in &frames[..count] {
            assert_eq!(frame.port_in, PortId(0));
            let bytes = pool.frame_bytes(frame);
            bytes[..6].copy_from_slice(&SINK_MAC);
            bytes[6..12].copy_from_slice(&ROUTER_OUT_MAC);
        }
        let mut sent = 0;
        while sent < count {
            sent += outgoing.transmit(pool, &frames[sent..count]);
            outgoing.flush(pool);
            outgoing.recycle(pool);
        }
    }
    (opened.pool, opened.queues)
}

#[test]
fn every_packet_reaches_the_sink_over_all_queues_and_the_table_moves_flows() {
    const FLOWS: usize = 64;
    const ROUNDS: usize = 60;
    let Some(topology) = Topology::build(QUEUES) else { return };
    let stop = AtomicBool::new(false);
    let arrived = AtomicUsize::new(0);
    let (router, sink) = (topology.router.name(), topology.sink.name());
    let source = topology.source.name();

    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (stop, arrived) = (&stop, &arrived);
        let stop_workers = StopOnDrop(stop);
        let workers: Vec<_> = (0..QUEUES)
            .map(|queue| {
                let ready = ready.clone();
                scope.spawn(move || {
                    enter_thread(router).unwrap();
                    let opened = worker(queue);
                    let mode = opened.queues[0].mode();
                    assert!(!mode.zero_copy, "veth has none");
                    let sockets: Vec<_> = opened
                        .queues
                        .iter()
                        .map(|queue| rustix::io::fcntl_dupfd_cloexec(queue.socket(), 0).unwrap())
                        .collect();
                    ready.send((queue, sockets)).unwrap();
                    forward(opened, stop)
                })
            })
            .collect();
        let programs = scope
            .spawn(move || {
                enter_thread(router).unwrap();
                let (program_in, program_out) = programs();
                for (queue, sockets) in is_ready.iter().take(QUEUES as usize) {
                    use rustix::fd::AsFd;
                    program_in.set_socket(queue, sockets[0].as_fd()).unwrap();
                    program_out.set_socket(queue, sockets[1].as_fd()).unwrap();
                }
                (program_in, program_out)
            })
            .join()
            .unwrap();
        assert_eq!(programs.0.mode(), XdpMode::Native);

        let (listening, is_listening) = std::sync::mpsc::channel();
        let receiver = scope.spawn(move || {
            enter_thread(sink).unwrap();
            let socket = UdpSocket::bind("10.2.0.2:9").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            listening.send(()).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while arrived.load(Ordering::Relaxed) < 2 * FLOWS * ROUNDS && Instant::now() < deadline
            {
                if socket.recv(&mut [0; 2048]).is_ok() {
                    arrived.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        is_listening.recv().unwrap();

        // One sender, which waits for each round to arrive: no queue overflows even on a slow
        // machine, so nothing may be lost.
        let per_queue = scope
            .spawn(move || {
                enter_thread(source).unwrap();
                let table = balance(&[0; TABLE_ENTRIES], &[0, 1]);
                let steering = Steering::attach(index("a0"), &table).unwrap();
                assert_eq!(steering.read().unwrap(), table);
                let flows: Vec<UdpSocket> =
                    (0..FLOWS).map(|_| UdpSocket::bind("10.1.0.2:0").unwrap()).collect();
                let mut sent_before = 0;
                let mut send = || {
                    for round in 0..ROUNDS {
                        for flow in &flows {
                            let sent = flow.send_to(&[round as u8; 300], "10.2.0.2:9");
                            assert_eq!(sent.unwrap(), 300);
                        }
                        sent_before += FLOWS;
                        wattline_needs::until("packets were lost", || {
                            arrived.load(Ordering::Relaxed) >= sent_before
                        });
                    }
                };
                send();
                steering.write(&balance(&table, &[1])).unwrap();
                send();
                FLOWS * ROUNDS
            })
            .join()
            .unwrap();
        receiver.join().unwrap();
        drop(stop_workers);
        let counters: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        let arrivals: Vec<u64> = counters
            .iter()
            .map(|(_, queues)| {
                let (incoming, outgoing) = (queues[0].counters(), queues[1].counters());
                assert_eq!(incoming.received_packets, outgoing.transmitted_packets);
                assert_eq!(incoming.received_bytes, outgoing.transmitted_bytes);
                assert_eq!(incoming.receive_ring_full + incoming.fill_ring_empty, 0);
                assert_eq!(incoming.receive_invalid, 0);
                incoming.received_packets
            })
            .collect();
        let total = 2 * per_queue as u64;
        assert_eq!(arrivals.iter().sum::<u64>(), total);
        assert_eq!(arrived.load(Ordering::Relaxed) as u64, total);
        // In the first half both queues had flows, in the second only queue 1.
        assert!(arrivals[0] > 0 && arrivals[0] < per_queue as u64, "{arrivals:?}");
        assert!(arrivals[1] > per_queue as u64, "{arrivals:?}");
        assert_eq!(programs.0.counters().unwrap().redirected(), total);
    });
}

#[test]
fn second_instance_is_refused_and_the_first_leaves_no_trace() {
    let Some(topology) = Topology::build(1) else { return };
    topology
        .router
        .enter(|| {
            let first = worker(0);
            let program = XdpProgram::load(index("r0"), ROUTER_IN_MAC, XdpModeChoice::Auto);
            let program = program.unwrap();
            match open_worker(&[address(0, "r0", 0)], &Options::default()) {
                Err(OpenError::InUse { interface, queue: 0 }) => assert_eq!(interface, "r0"),
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("two sockets on one queue"),
            }
            for mode in [XdpMode::Native, XdpMode::Generic] {
                let choice = XdpModeChoice::Only(mode);
                let second = XdpProgram::load(index("r0"), ROUTER_IN_MAC, choice);
                assert!(matches!(second, Err(XdpError::Occupied { .. })), "{mode:?}");
            }
            match open_worker(&[address(0, "r1", 5)], &Options::default()) {
                Err(OpenError::NoSuchQueue { interface, queue: 5 }) => assert_eq!(interface, "r1"),
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("there is one queue"),
            }
            drop((first, program));
            // Opens again at once: `open` waits for the kernel's clean-up.
            let (again, programs) = (worker(0), programs());
            drop((again, programs));
        })
        .unwrap();
    let links = topology.router.ip("-d link show").unwrap();
    assert!(!links.contains("xdp"), "{links}");
}

#[test]
fn generic_mode_serves_on_request_and_local_packets_stay_with_the_kernel() {
    const PACKETS: usize = 20;
    let Some(topology) = Topology::build(1) else { return };
    topology.router.ip("addr add 10.1.0.1/24 dev r0").unwrap();
    let (opened, program, local) = topology
        .router
        .enter(|| {
            let opened = worker(0);
            let choice = XdpModeChoice::Only(XdpMode::Generic);
            let program = XdpProgram::load(index("r0"), ROUTER_IN_MAC, choice).unwrap();
            program.add_local(IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), LocalAddress::Host).unwrap();
            program.set_socket(0, opened.queues[0].socket()).unwrap();
            (opened, program, UdpSocket::bind("10.1.0.1:9").unwrap())
        })
        .unwrap();
    assert_eq!(program.mode(), XdpMode::Generic);
    topology
        .source
        .enter(|| {
            let socket = UdpSocket::bind("10.1.0.2:0").unwrap();
            for _ in 0..PACKETS {
                socket.send_to(&[7; 100], "10.2.0.2:9").unwrap();
                socket.send_to(&[8; 100], "10.1.0.1:9").unwrap();
            }
        })
        .unwrap();
    let OpenedWorker { mut pool, mut queues, .. } = opened;
    let mut frames = [Frame::default(); BATCH_MAX];
    let mut received = 0;
    let deadline = Instant::now() + PATIENCE;
    while received < PACKETS && Instant::now() < deadline {
        let count = queues[0].receive(&mut pool, &mut frames);
        for frame in &frames[..count] {
            assert_eq!(pool.frame_bytes(frame)[42..], [7; 100]);
        }
        received += count;
    }
    assert_eq!(received, PACKETS);
    local.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..PACKETS {
        let mut payload = [0; 200];
        assert_eq!(local.recv(&mut payload).unwrap(), 100);
        assert_eq!(payload[..100], [8; 100]);
    }
    let counters = program.counters().unwrap();
    assert_eq!(counters.redirected(), PACKETS as u64);
    assert_eq!(counters.get(Verdict::Local), PACKETS as u64);
}

/// The memory is owned by a remaining socket, by a socket of a recreated interface, or, if all are
/// gone, by the new socket.
#[test]
fn memory_of_a_removed_interface_returns_and_its_successor_uses_it() {
    let Some(topology) = Topology::build(1) else { return };
    let router = &topology.router;
    router
        .enter(|| {
            let OpenedWorker { mut pool, queues, memory } = worker(0);
            let mut queues: Vec<_> = queues.into_iter().map(Some).collect();
            let away = |pool: &FramePool| pool.chunks() as usize - pool.free_chunks();
            let of_one = away(&pool) / 2;
            assert!(of_one > 0);
            for gone in [&["r1"][..], &["r0"], &["r0", "r1"]] {
                let place = |name: &str| usize::from(name == "r1");
                for name in gone {
                    router.ip(&format!("link delete {name}")).unwrap();
                    let queue = queues[place(name)].take().unwrap();
                    let status = queue.status();
                    let lent = queue.close();
                    assert!(status.failed());
                    assert_eq!(lent.settled_after(), Duration::ZERO, "no card writes to it");
                    lent.give_back(&mut pool);
                }
                assert_eq!(away(&pool), of_one * (2 - gone.len()), "{gone:?}");
                for name in gone {
                    router.ip(&format!("link add {name} type veth peer name {name}x")).unwrap();
                    router.ip(&format!("link set {name} up")).unwrap();
                    let sharing: Vec<_> = queues.iter().flatten().map(AfXdpQueue::socket).collect();
                    let address = address(place(name) as u16, name, 0);
                    let mut queue = memory.open(&address, &sharing).unwrap();
                    queue.recycle(&mut pool);
                    queues[place(name)] = Some(queue);
                }
                assert_eq!(away(&pool), 2 * of_one, "{gone:?}");
            }
        })
        .unwrap();
}
