//! The whole generator against devices with known faults: in memory, and over real interfaces.

use super::account::Account;
use super::flows::Flow;
use super::opened_queue::{OpenedQueue, open};
use super::receiver;
use super::schedule::Schedule;
use super::sender::{Sender, Turn};
use super::stamp::Stamp;
use super::*;
use crate::clock::monotonic_nanos;
use crate::command;
use crate::leftovers::can_build_namespaces;
use crate::namespace::Namespace;
use crate::topology::{self, LEFT, RIGHT, SINK, SOURCE, connect};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_dataplane::frame::{BATCH_MAX, Frame};
use wattline_dataplane::port::PortId;
use wattline_ports::memory::{WireEnd, wire};

/// Faults of the device, by packets' order of arrival from 0.
#[derive(Clone, Copy)]
struct Faults {
    lose: &'static [u64],
    double: &'static [u64],
    /// Number of packets that pass a held packet.
    hold: &'static [u64],
    held_for: u64,
    damage: &'static [u64],
}

const NONE: Faults = Faults { lose: &[], double: &[], hold: &[], held_for: 8, damage: &[] };
const SOME: Faults = Faults {
    lose: &[10, 11, 500, 900, 901],
    double: &[20, 600, 777],
    hold: &[40, 800],
    held_for: 8,
    damage: &[50, 51],
};

/// A device that forwards frames with faults.
struct Device {
    faults: Faults,
    arrived: u64,
    held: VecDeque<(u64, Vec<u8>)>,
}

impl Device {
    fn new(faults: Faults) -> Self {
        Self { faults, arrived: 0, held: VecDeque::new() }
    }

    fn forward(&mut self, frame: &[u8], mut send: impl FnMut(&[u8])) {
        let number = self.arrived;
        self.arrived += 1;
        let Faults { lose, double, hold, held_for, damage } = self.faults;
        if hold.contains(&number) {
            self.held.push_back((number + held_for, frame.to_vec()));
        } else if damage.contains(&number) {
            let mut frame = frame.to_vec();
            // The last byte of the stamp's number.
            frame[14 + 20 + 8 + 8] ^= 1;
            send(&frame);
        } else if !lose.contains(&number) {
            send(frame);
            if double.contains(&number) {
                send(frame);
            }
        }
        while self.held.front().is_some_and(|(until, _)| *until <= number) {
            if let Some((_, frame)) = self.held.pop_front() {
                send(&frame);
            }
        }
    }
}

/// Sending and receiving in the kernel alone.
const XDP_METHODS: Methods = Methods { send: SendBy::LiveFrames, receive: ReceiveBy::Program };
/// Each sender with each receiver; they must understand each other.
const ALL_METHODS: [Methods; 4] = [
    Methods::SOCKETS,
    Methods { send: SendBy::LiveFrames, receive: ReceiveBy::Sockets },
    Methods { send: SendBy::Sockets, receive: ReceiveBy::Program },
    XDP_METHODS,
];

fn addresses() -> Addresses {
    let facts = |mac| InterfaceFacts { mac, ..InterfaceFacts::default() };
    plain_link(&facts(SOURCE.mac), &facts(LEFT.mac))
}

/// Creates a tester at the ends of two cables in memory.
fn in_memory(near: WireEnd, far: WireEnd, both: bool) -> Tester {
    let [near, far] = [(near, 0), (far, 1)]
        .map(|(wire, port)| OpenedQueue::in_memory(wire.into_queue(PortId(port))));
    Tester::in_memory(near, far, both)
}

/// Runs a trial with these addresses to its end.
fn trial(tester: &mut Tester, addresses: &Addresses, load: &Load) -> Outcome {
    tester.trial(addresses, load, &anywhere, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

/// Runs a trial in both directions at once.
fn trial_both(tester: &mut Tester, addresses: [&Addresses; 2], load: &Load) -> [Outcome; 2] {
    tester.trial_both(addresses, load, &anywhere, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

/// Runs a tester at a device in memory, which has these faults in the forward direction only.
fn at_device<R>(faults: Faults, both: bool, run: impl FnOnce(&mut Tester) -> R) -> R {
    let ((near, mut left), (mut right, far)) = (wire(1024, 2048), wire(1024, 2048));
    let mut tester = in_memory(near, far, both);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut faulty, mut sound) = (Device::new(faults), Device::new(NONE));
            let push = |end: &mut WireEnd, frame: &[u8]| {
                while !end.send(frame) && !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            };
            while !over.load(Ordering::Relaxed) {
                let mut taken = left
                    .receive_with(|frame| faulty.forward(frame, |frame| push(&mut right, frame)))
                    .is_some();
                taken |= right
                    .receive_with(|frame| sound.forward(frame, |frame| push(&mut left, frame)))
                    .is_some();
                if !taken {
                    std::thread::yield_now();
                }
            }
        });
        let result = run(&mut tester);
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn through_memory(faults: Faults, load: &Load) -> Outcome {
    at_device(faults, false, |tester| trial(tester, &addresses(), load))
}

/// Each direction has its own account: faults of one do not appear in the other.
#[test]
fn both_directions_are_distinguished() {
    let [forth, back] = at_device(SOME, true, |tester| {
        trial_both(tester, [&addresses(), &addresses()], &burst(20_000, 4))
    });
    check(&forth, 20_000);
    assert_eq!((back.sent_packets, back.received_packets), (20_000, 20_000), "{back:#?}");
    assert_eq!((back.lost_packets, back.duplicated_packets, back.reordered_packets), (0, 0, 0));
    assert_eq!((forth.stale_packets, back.stale_packets), (0, 0));
}

#[test]
fn both_directions_need_both_ends_open() {
    let (near, far) = wire(64, 2048);
    let mut tester = in_memory(near, far, false);
    let never = AtomicBool::new(false);
    let both = [&addresses(), &addresses()];
    let error = tester.trial_both(both, &burst(10, 1), &anywhere, &never, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("both interfaces"), "{error}");
}

fn burst(packets: u64, flows: u32) -> Load {
    Load {
        burst: Some(packets),
        duration: Duration::from_secs(60),
        flows,
        drain: Duration::from_millis(500),
        ..Load::default()
    }
}

#[track_caller]
fn check(outcome: &Outcome, packets: u64) {
    assert_eq!(outcome.sent_packets, packets, "{outcome:#?}");
    assert_eq!(outcome.receiver_overflow_packets, 0, "{outcome:#?}");
    // Five packets are lost, plus the two damaged ones.
    assert_eq!((outcome.lost_packets, outcome.corrupt_packets), (7, 2), "{outcome:#?}");
    assert_eq!(outcome.received_packets, packets - 7);
    assert_eq!(outcome.duplicated_packets, 3);
    assert_eq!(outcome.reordered_packets, 2);
    assert_eq!(outcome.unsent_packets, 0);
    let worst: u64 = outcome.worst_flows.iter().map(|flow| flow.lost_packets).sum();
    assert_eq!(worst, 7, "{:?}", outcome.worst_flows);
}

#[test]
fn known_faults_are_counted_exactly() {
    let outcome = through_memory(SOME, &burst(20_000, 4));
    check(&outcome, 20_000);
    // Held for eight packets of four flows, so two of its own flow passed it.
    assert_eq!(outcome.reordering_distance_max_packets, 3);
    assert_eq!(outcome.affected_flows, 4);
    assert!(outcome.latency.min_seconds.unwrap() > 0.0);
}

#[test]
fn device_without_faults_has_none() {
    let load = Load {
        rate_pps: 50_000.0,
        duration: Duration::from_millis(400),
        flows: 100,
        ..Load::default()
    };
    let outcome = through_memory(NONE, &load);
    let faults = [
        outcome.lost_packets,
        outcome.duplicated_packets,
        outcome.reordered_packets,
        outcome.corrupt_packets,
        outcome.stale_packets,
        outcome.foreign_packets,
        outcome.affected_flows,
    ];
    assert_eq!(faults, [0; 7], "{outcome:#?}");
    // Packets that are late on a busy machine are not sent; they are a shortfall, not a loss.
    assert_eq!(outcome.sent_packets + outcome.unsent_packets, 20_000);
    assert!(outcome.sent_packets > 0);
    assert!((outcome.frame_mean_bytes - 361.8).abs() < 0.1);
}

#[test]
fn trial_ends_when_the_device_goes_away() {
    let mut load = burst(5_000, 8);
    load.duration = Duration::from_secs(2);
    let (near, left) = wire(1024, 2048);
    let (right, far) = wire(16, 2048);
    let mut tester = in_memory(near, far, false);
    let outcome = trial(&mut tester, &addresses(), &load);
    // The cable is full, and nothing reads from it.
    assert_eq!((outcome.sent_packets, outcome.unsent_packets), (1024, 3976), "{outcome:#?}");
    assert_eq!((outcome.lost_packets, outcome.received_packets), (1024, 0));
    assert!(!outcome.is_sound());
    drop((left, right));
}

#[test]
fn stopping_early_loses_nothing() {
    let load = Load { rate_pps: 1_000.0, duration: Duration::from_secs(60), ..Load::default() };
    let ((near, left), never) = (wire(1024, 2048), AtomicBool::new(true));
    let mut tester = in_memory(near, left, false);
    let outcome = tester.trial(&addresses(), &load, &anywhere, &never, &mut |_| ()).unwrap();
    assert_eq!(outcome.lost_packets, 0, "{outcome:#?}");
    assert_eq!(outcome.sent_packets, outcome.received_packets);
    assert!(outcome.unsent_packets < 40, "undue packets are no shortfall: {outcome:#?}");
}

#[test]
fn one_lost_packet_in_ten_million_is_found() {
    const PACKETS: u64 = 10_000_000;
    const LOST: u64 = 7_654_321;
    let mut account = Account::new(1, &[(1_000, PACKETS)]).unwrap();
    for sequence in (0..PACKETS).filter(|sequence| *sequence != LOST) {
        account.take(Stamp { run: 1, stream: 0, sequence, nanos: 1 }, 60, 2);
    }
    assert_eq!((account.received, account.duplicated, account.reordered), (PACKETS - 1, 0, 0));
    let flow = &account.streams[0].flows[(LOST % 1_000) as usize];
    assert_eq!(flow.received, PACKETS / 1_000 - 1);
}

#[test]
fn impossible_loads_are_refused_with_all_errors() {
    let load = Load {
        rate_pps: 0.0,
        flows: 0,
        shape: Shape::Bursts { packets: 0, peak_pps: 1.0 },
        ..Load::default()
    };
    let problems = load.check(true, 2).unwrap_err();
    for word in ["rate", "flows", "IPv6", "bursts"] {
        assert!(problems.contains(word), "{problems}");
    }
    let endless = Load { rate_pps: 1e9, duration: Duration::from_secs(800_000), ..Load::default() };
    assert!(endless.check(false, 1).is_err());
}

/// A router's queue lends the kernel fewer chunks under load; a receiver must not.
#[test]
#[ignore = "a neighbour's load makes the veth itself drop: `make test-long`"]
fn receiver_that_pauses_after_high_load_loses_nothing() {
    const LOAD: u64 = 600_000;
    const MEANWHILE: u64 = 12_000;
    let test = "receiver_that_pauses_after_high_load_loses_nothing";
    if !can_build_namespaces(test) {
        return;
    }
    let [near, far] = ["near", "far"].map(|role| Namespace::create(role).unwrap());
    connect(&near, SOURCE, &far, SINK, 1500, 1).unwrap();
    let mut tx = near.enter(|| open(SOURCE.interface, 1, false).unwrap().0.remove(0)).unwrap();
    let mut rx = far.enter(|| open(SINK.interface, 1, true).unwrap().0.remove(0)).unwrap();
    let addresses = Addresses { destination_mac: SINK.mac, ..addresses() };
    let flows: Vec<_> = (0..4).map(|number| Flow::new(&addresses, number)).collect();
    let schedule = Schedule::burst(LOAD + MEANWHILE, Duration::from_secs(600));
    let mut account = Account::new(1, &[(flows.len(), LOAD + MEANWHILE)]).unwrap();
    let sizes = Sizes::fixed(64);
    let mut sender = Sender::new((1, 0), flows.into(), &sizes, schedule);
    sender.begin(monotonic_nanos());
    let mut read =
        |rx: &mut OpenedQueue| receiver::turn(&mut account, &mut rx.pool, &mut *rx.queue) > 0;
    while sender.sequence() < LOAD {
        sender.turn(&mut tx.pool, &mut *tx.queue);
        while read(&mut rx) {}
    }
    while sender.turn(&mut tx.pool, &mut *tx.queue) == Turn::Busy {}
    // The veth's other end may process the last frames later.
    for _ in 0..100 {
        while read(&mut rx) {}
        std::thread::sleep(Duration::from_millis(1));
    }
    rx.refresh();
    assert_eq!((account.received, rx.overflow()), (LOAD + MEANWHILE, 0));
}

/// Forwards frames from one interface to another with faults, by AF_XDP, until `stop` is set.
fn forward(
    device: &mut Device,
    left: &mut OpenedQueue,
    right: &mut OpenedQueue,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        let mut frames = [Frame::default(); BATCH_MAX];
        let count = left.queue.receive(&mut left.pool, &mut frames);
        for frame in &frames[..count] {
            let mut bytes = left.pool.frame_bytes(frame).to_vec();
            left.pool.free(frame.offset);
            bytes[..6].copy_from_slice(&SINK.mac);
            bytes[6..12].copy_from_slice(&RIGHT.mac);
            device.forward(&bytes, |bytes| {
                let chunk = loop {
                    right.queue.recycle(&mut right.pool);
                    if let Some(chunk) = right.pool.take_chunk() {
                        break chunk;
                    }
                };
                let offset = chunk + right.pool.headroom();
                let frame =
                    Frame { offset, length: bytes.len() as u16, port_in: PortId::default() };
                right.pool.frame_bytes(&frame).copy_from_slice(bytes);
                while right.queue.transmit(&mut right.pool, &[frame]) == 0 {
                    right.queue.recycle(&mut right.pool);
                }
                right.queue.flush(&mut right.pool);
            });
        }
        left.queue.recycle(&mut left.pool);
        right.queue.recycle(&mut right.pool);
        if count == 0 {
            left.wait(Duration::from_millis(1));
        }
    }
}

#[test]
fn known_faults_of_a_device_between_real_interfaces_are_counted_exactly() {
    let test = "known_faults_of_a_device_between_real_interfaces_are_counted_exactly";
    if !can_build_namespaces(test) {
        return;
    }
    let [source, router, sink] =
        ["source", "device", "sink"].map(|r| Namespace::create(r).unwrap());
    connect(&router, LEFT, &source, SOURCE, 1500, 1).unwrap();
    connect(&router, RIGHT, &sink, SINK, 1500, 1).unwrap();
    let mut queues = router
        .enter(|| [LEFT, RIGHT].map(|end| open(end.interface, 1, true).unwrap().0.remove(0)))
        .unwrap();
    let ends = [(&source, SOURCE), (&sink, SINK)]
        .map(|(namespace, end)| format!("{}/{}", namespace.name(), end.interface));
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    ALL_METHODS.into_iter().for_each(|methods| faults_are_counted(methods, from, to, &mut queues));
}

/// Checks the counts of a device between two interfaces that forwards by these queues.
fn faults_are_counted(methods: Methods, from: End<'_>, to: End<'_>, queues: &mut [OpenedQueue; 2]) {
    let mut tester = Tester::open(from, Some(to), 1, methods).unwrap();
    assert_eq!(tester.methods.live_frames, methods.send == SendBy::LiveFrames);
    assert_eq!(tester.methods.program, methods.receive == ReceiveBy::Program);
    assert_eq!((tester.from.mac, tester.to.mac), (SOURCE.mac, SINK.mac));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let [left, right] = queues;
        scope.spawn(|| forward(&mut Device::new(SOME), left, right, &over));
        // Slow enough for the test's device on a busy machine.
        let load = Load {
            rate_pps: 10_000.0,
            duration: Duration::from_millis(4_000),
            flows: 4,
            sizes: Sizes::imix(),
            drain: Duration::from_secs(1),
            ..Load::default()
        };
        let never = AtomicBool::new(false);
        let mut seen = Progress::default();
        let outcome =
            tester.trial(&addresses(), &load, &anywhere, &never, &mut |progress| seen = progress);
        over.store(true, Ordering::Relaxed);
        let outcome = outcome.unwrap();
        assert!(outcome.sent_packets > 1_000, "{outcome:#?}");
        assert_eq!(outcome.sent_packets + outcome.unsent_packets, 40_000);
        assert_eq!(seen.sent, outcome.sent_packets);
        assert_eq!((outcome.lost_packets, outcome.corrupt_packets), (7, 2), "{outcome:#?}");
        assert_eq!(outcome.duplicated_packets, 3);
        assert_eq!(outcome.reordered_packets, 2);
        assert!(outcome.latency.p50_seconds.unwrap() < 1.0);
    });
}

#[test]
fn several_queues_of_a_plain_link_account_for_every_packet() {
    let test = "several_queues_of_a_plain_link_account_for_every_packet";
    if !can_build_namespaces(test) {
        return;
    }
    let (_namespaces, ends) = plain_link_of(2);
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    ALL_METHODS.into_iter().for_each(|methods| account_for_every_packet(methods, from, to));
}

fn account_for_every_packet(methods: Methods, from: End<'_>, to: End<'_>) {
    let mut tester = Tester::open(from, Some(to), 2, methods).unwrap();
    let addresses = plain_link(&tester.from, &tester.to);
    for _ in 0..2 {
        let load = Load {
            rate_pps: 20_000.0,
            duration: Duration::from_millis(300),
            flows: 64,
            ..Load::default()
        };
        let outcome = trial(&mut tester, &addresses, &load);
        is_accounted_for(methods, &outcome);
    }
}

#[test]
fn vanishing_interface_ends_the_trial_with_a_complete_account() {
    let test = "vanishing_interface_ends_the_trial_with_a_complete_account";
    if !can_build_namespaces(test) {
        return;
    }
    for methods in [Methods::SOCKETS, XDP_METHODS] {
        an_interface_vanishes(methods);
    }
}

fn an_interface_vanishes(methods: Methods) {
    let (namespaces, ends) = plain_link_of(1);
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    let mut tester = Tester::open(from, Some(to), 1, methods).unwrap();
    let addresses = plain_link(&tester.from, &tester.to);
    let load = Load {
        rate_pps: 10_000.0,
        duration: Duration::from_secs(2),
        drain: Duration::from_millis(200),
        ..Load::default()
    };
    let never = AtomicBool::new(false);
    let mut gone = false;
    let outcome = tester
        .trial(&addresses, &load, &anywhere, &never, &mut |progress| {
            if progress.received > 2_000 && !gone {
                gone = true;
                namespaces[0].ip(&format!("link delete {}", SOURCE.interface)).unwrap();
            }
        })
        .unwrap();
    assert!(gone, "{outcome:#?}");
    assert!(outcome.received_packets > 2_000, "{outcome:#?}");
    // Packets that could no longer be sent are a shortfall, so the trial is not sound.
    assert_eq!(outcome.sent_packets + outcome.unsent_packets, 20_000, "{outcome:#?}");
    assert!(outcome.unsent_packets + outcome.lost_packets > 1_000, "{outcome:#?}");
    assert!(!outcome.is_sound() || outcome.lost_packets > 1_000, "{outcome:#?}");
}

#[test]
fn several_queues_send_both_ways_over_a_plain_link() {
    let test = "several_queues_send_both_ways_over_a_plain_link";
    if !can_build_namespaces(test) {
        return;
    }
    let (_namespaces, ends) = plain_link_of(2);
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    [Methods::SOCKETS, XDP_METHODS].into_iter().for_each(|methods| both_ways(methods, from, to));
}

/// Creates two namespaces with a plain link of `queues` queues; returns the ends in the form of the
/// command line.
fn plain_link_of(queues: u16) -> ([Namespace; 2], [String; 2]) {
    let namespaces = ["near", "far"].map(|role| Namespace::create(role).unwrap());
    let [near, far] = &namespaces;
    connect(near, SOURCE, far, SINK, 1500, queues).unwrap();
    let ends = [(near, SOURCE), (far, SINK)]
        .map(|(namespace, end)| format!("{}/{}", namespace.name(), end.interface));
    (namespaces, ends)
}

/// Checks that each of 6,000 packets was received in order, lost or not sent.
fn is_accounted_for(methods: Methods, outcome: &Outcome) {
    assert_eq!(outcome.sent_packets + outcome.unsent_packets, 6_000, "{outcome:#?}");
    let accounted =
        outcome.received_packets + outcome.lost_packets + outcome.receiver_overflow_packets;
    assert_eq!(accounted, outcome.sent_packets, "{outcome:#?}");
    assert!(outcome.received_packets > enough(methods, outcome), "{outcome:#?}");
    let wrong = outcome.duplicated_packets + outcome.corrupt_packets + outcome.stale_packets;
    assert_eq!((wrong, outcome.reordered_packets), (0, 0), "{outcome:#?}");
}

/// Returns the smallest number of 6,000 packets that must arrive. Several senders of live frames,
/// which spin, share two processors with other programs, so only half of their sent packets must
/// arrive.
fn enough(methods: Methods, outcome: &Outcome) -> u64 {
    match methods.send {
        SendBy::LiveFrames => outcome.sent_packets.max(200) / 2,
        _ => 3_000,
    }
}

fn both_ways(methods: Methods, from: End<'_>, to: End<'_>) {
    let mut tester = Tester::open_both(from, to, 2, methods).unwrap();
    let forth = plain_link(&tester.from, &tester.to);
    let back = plain_link(&tester.to, &tester.from);
    let load = Load {
        rate_pps: 20_000.0,
        duration: Duration::from_millis(300),
        flows: 64,
        ..Load::default()
    };
    for outcome in trial_both(&mut tester, [&forth, &back], &load) {
        is_accounted_for(methods, &outcome);
    }
}

#[test]
fn limits_of_the_generator_are_measured() {
    if !can_build_namespaces("limits_of_the_generator_are_measured") {
        return;
    }
    let load = Load { sizes: Sizes::fixed(64), ..Load::default() };
    for methods in [Methods::SOCKETS, XDP_METHODS] {
        let limits = limits::veth_limits(&load, 1, methods, &anywhere).unwrap();
        assert!(limits.flat_out_rate_pps > 10_000.0, "{limits:?}");
        assert!(limits.lossless_rate_pps <= limits.flat_out_rate_pps * 1.05, "{limits:?}");
        println!("{limits:#?}");
        assert!(limits.own.sender_seconds_per_packet > 0.0, "{limits:?}");
        assert!(limits.stall_rate_pps().is_none_or(|rate| rate > 0.0), "{limits:?}");
        assert_eq!(
            limits.lossless_rate_pps > 0.0,
            limits.latency.p50_seconds.is_some(),
            "{limits:?}"
        );
    }
}

#[test]
fn missing_ends_are_named() {
    let said = |end: &str| End::from(end).check().map_err(|error| error.to_string());
    assert_eq!(said("lo"), Ok(()));
    let interface = said("wl-nothing").unwrap_err();
    assert!(interface.contains("interface wl-nothing"), "{interface}");
    let namespace = said("wl-nowhere/lo").unwrap_err();
    assert!(
        namespace.contains("wl-nowhere") && namespace.contains("`ip netns list`"),
        "{namespace}"
    );
}

/// The kernel forwards, and nftables drops exactly one packet, at the highest rates at which this
/// machine loses no other.
#[test]
#[ignore = "a minute, and a neighbour's load makes the device itself drop: `make test-long`"]
fn one_packet_of_ten_million_dropped_by_nftables_is_found() {
    const PACKETS: u64 = 10_000_000;
    let test = "one_packet_of_ten_million_dropped_by_nftables_is_found";
    if !can_build_namespaces(test) {
        return;
    }
    if !command::installed("nft") {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "nft");
        return;
    }
    let options = topology::Options { static_neighbours: true, ..topology::Options::default() };
    let bed = topology::Topology::build(options).unwrap();
    for rule in [
        "add table netdev t",
        "add chain netdev t c { type filter hook ingress device left priority 0 ; }",
        "add rule netdev t c udp dport 9 numgen inc mod 100000000 == 7654321 counter drop",
    ] {
        let words: Vec<_> = rule.split(' ').collect();
        bed.router.run("nft", &words, command::LIMIT).unwrap();
    }
    let ends = [(&bed.source, SOURCE), (&bed.sink, SINK)]
        .map(|(namespace, end)| format!("{}/{}", namespace.name(), end.interface));
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    // A veth accepts live frames only while its peer runs NAPI.
    bed.router.run("ethtool", &["-K", LEFT.interface, "gro", "on"], command::LIMIT).unwrap();
    let mut tester = Tester::open(from, Some(to), 1, XDP_METHODS).unwrap();
    let addresses = Addresses {
        destination_mac: LEFT.mac,
        source: SOURCE.v4.into(),
        destination: SINK.v4.into(),
        ..plain_link(&tester.from, &tester.to)
    };
    let load = Load {
        sizes: Sizes::fixed(64),
        duration: Duration::from_secs(600),
        drain: Duration::from_secs(2),
        ..burst(PACKETS, 1_000)
    };
    let outcome = trial(&mut tester, &addresses, &load);
    println!(
        "{:.2} Mpps, p50 {:?} s, {:?} s of processor time a packet sent, device included",
        outcome.sent_rate_pps / 1e6,
        outcome.latency.p50_seconds,
        outcome.sender_cpu_seconds_per_packet
    );
    assert_eq!(outcome.sent_packets, PACKETS, "{outcome:#?}");
    assert_eq!(outcome.receiver_overflow_packets, 0, "{outcome:#?}");
    assert_eq!((outcome.lost_packets, outcome.received_packets), (1, PACKETS - 1), "{outcome:#?}");
    assert_eq!((outcome.duplicated_packets, outcome.reordered_packets), (0, 0));
    let [flow] = outcome.worst_flows.as_slice() else { panic!("{:?}", outcome.worst_flows) };
    assert_eq!((flow.flow, flow.lost_packets), (7_654_321 % 1_000, 1));
}

/// Live frames, created and accounted for in the kernel, on a plain link.
#[test]
#[ignore = "a figure of a machine: `make test-long`"]
fn live_frames_are_sent_faster_than_any_forwarder_here_forwards() {
    let test = "live_frames_are_sent_faster_than_any_forwarder_here_forwards";
    if !can_build_namespaces(test) {
        return;
    }
    let ([_near, far], ends) = plain_link_of(1);
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    let mut tester = Tester::open(from, Some(to), 1, XDP_METHODS).unwrap();
    let addresses = plain_link(&tester.from, &tester.to);
    let load = Load { sizes: Sizes::fixed(64), ..burst(5_000_000, 64) };
    let mut cost = |what: &str| {
        let outcome = trial(&mut tester, &addresses, &load);
        let cpu = outcome.sender_cpu_seconds_per_packet.unwrap();
        println!(
            "{what}: {:.2} Mpps, {:.0} ns of processor time a packet, {} of {} without room",
            outcome.sent_rate_pps / 1e6,
            cpu * 1e9,
            outcome.receiver_overflow_packets,
            outcome.sent_packets
        );
        assert_eq!((outcome.sent_packets, outcome.lost_packets), (5_000_000, 0), "{outcome:#?}");
        cpu
    };
    // The receiving program runs on the sender's processor, within its time.
    cost("both ends on one processor");
    // A kernel thread receives if it gets a processor; otherwise the ring of the veth is full,
    // which is the receiver's shortfall.
    let threaded = format!("echo 1 > /sys/class/net/{}/threaded", SINK.interface);
    far.run("sh", &["-c", &threaded], command::LIMIT).unwrap();
    let sender = cost("a kernel thread receives");
    // Compares processor time, since the rate depends on other programs.
    assert!(sender < 1.0 / 2.4e6, "{sender} s a packet sent");
}
