//! Several paths to one destination: flows spread over them by weight, each flow keeps its path,
//! and flows of a path that fails move to the other.
//!
//! ```text
//!   source ── router ══ sink   (two links; the sink answers for all prefixes beyond)
//! ```

use crate::crafted::set_checksum;
use crate::harness::{Bench, XDP, quiet};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::raw::{RawSocket, Received, Sniffer};
use wattline_testbed::topology::{LEFT, Options, SINK, SOURCE, Station, Topology, connect};

const LIMIT: Duration = Duration::from_secs(60);

/// The router's end of the second link.
pub const OTHER: Station = Station {
    interface: "other",
    mac: [0x02, 0x57, 0, 0, 0, 0x31],
    v4: Ipv4Addr::new(198, 19, 1, 1),
    v6: Ipv6Addr::new(0x2001, 2, 0, 3, 0, 0, 0, 1),
};
/// The sink's.
pub const SECOND: Station = Station {
    interface: "second",
    mac: [0x02, 0x57, 0, 0, 0, 0x32],
    v4: Ipv4Addr::new(198, 19, 1, 2),
    v6: Ipv6Addr::new(0x2001, 2, 0, 3, 0, 0, 0, 2),
};

/// Prefixes, an address in each, and the weights of the paths by the first link and by the second.
const PREFIXES: [(&str, IpAddr, [u32; 2]); 4] = [
    ("203.0.113.0/25", IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), [1, 1]),
    ("203.0.113.128/25", IpAddr::V4(Ipv4Addr::new(203, 0, 113, 129)), [3, 1]),
    ("2001:db8:7::/64", IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 1)), [1, 1]),
    ("2001:db8:7:1::/64", IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 7, 1, 0, 0, 0, 1)), [3, 1]),
];

/// Source ports of the flows to each prefix.
const FLOWS: Range<u16> = 20_000..20_200;
const PORT: u16 = 4242;
/// Number of frames in a burst, and time between bursts.
pub const BURST: usize = 8;
pub const PAUSE: Duration = Duration::from_millis(2);

quietly_with_every_kind_of_forwarder!(
    flows_spread_over_next_hops_by_weight_and_keep_to_one,
    only_flows_of_a_next_hop_whose_link_goes_down_move,
    icmp_errors_follow_the_flow_that_they_quote,
);

fn flows_spread_over_next_hops_by_weight_and_keep_to_one(forwarder: Forwarder) {
    let bench = start(forwarder);
    until_both_ways_are_used(&bench.topology);
    let traffic = Traffic::start(&bench.topology);
    traffic.rounds.go_on(5);
    let flows = traffic.finish();
    for (prefix, address, [one, other]) in PREFIXES {
        let mut counts = [0_u32; 2];
        for packets in FLOWS.map(|port| &flows[&(address, port)]) {
            let way = packets[0].way;
            assert!(packets.iter().all(|packet| packet.way == way), "{prefix}: {packets:?}");
            counts[way] += 1;
        }
        println!("{forwarder:?}, {prefix}: {counts:?} flows at weights {one} and {other}");
        // Binomial; six standard deviations either way.
        let all = FLOWS.len() as f64;
        let share = f64::from(one) / f64::from(one + other);
        let allowed = 6.0 * (all * share * (1.0 - share)).sqrt();
        assert!((f64::from(counts[0]) - all * share).abs() < allowed, "{prefix}: {counts:?}");
    }
    bench.finish();
}

/// First the router's own end is set down, then the far one, which takes the carrier away.
fn only_flows_of_a_next_hop_whose_link_goes_down_move(forwarder: Forwarder) {
    let bench = start(forwarder);
    let topology = &bench.topology;
    for (namespace, end) in [(&topology.router, OTHER), (&topology.sink, SECOND)] {
        until_both_ways_are_used(topology);
        let traffic = Traffic::start(topology);
        traffic.rounds.go_on(3);
        namespace.ip(&format!("link set {} down", end.interface)).unwrap();
        traffic.rounds.go_on(6);
        let rounds = traffic.rounds.count();
        let flows = traffic.finish();
        if let Some(wattline) = &bench.running.wattline {
            // Workers would redistribute the flows of the other link, and send some out of the
            // failed one.
            let log = wattline.log();
            assert!(!log.contains("one of several next hops"), "{log}");
        }
        namespace.ip(&format!("link set {} up", end.interface)).unwrap();
        for (prefix, address, _) in PREFIXES {
            let mut moved = 0;
            let mut lost = 0;
            for packets in FLOWS.map(|port| &flows[&(address, port)]) {
                let before = packets.iter().take_while(|packet| packet.way == 1).count();
                let after = &packets[before..];
                assert!(after.iter().all(|packet| packet.way == 0), "{prefix}: {packets:?}");
                let first = after.first().map(|packet| packet.sequence).unwrap_or_default();
                // Without a gap, but for the moment of moving, to the last packet that was sent.
                let whole = |packets: &[Packet], numbers: Range<u32>| {
                    packets.iter().map(|packet| packet.sequence).eq(numbers)
                };
                let started = u32::try_from(before).unwrap();
                assert!(whole(&packets[..before], 0..started), "{prefix}: {packets:?}");
                assert!(whole(after, first..first + after.len() as u32), "{prefix}: {packets:?}");
                assert!(first + after.len() as u32 >= rounds, "{prefix}: {packets:?}");
                moved += u32::from(before > 0);
                lost += first - started;
                assert!(before > 0 || first == 0, "{prefix}: {packets:?}");
            }
            println!("{forwarder:?}, {prefix}: {moved} flows moved and lost {lost} packets");
            assert!(moved > 0, "{prefix}: nothing went by the second link");
        }
    }
    until_both_ways_are_used(topology);
    bench.finish();
}

/// Servers behind several next hops share one address: an error about a packet has to reach the
/// server that sent it.
fn icmp_errors_follow_the_flow_that_they_quote(forwarder: Forwarder) {
    let bench = start(forwarder);
    let topology = &bench.topology;
    until_both_ways_are_used(topology);
    let settings =
        [("ipv4/fib_multipath_hash_policy", "0"), ("ipv6/fib_multipath_hash_policy", "0")];
    topology.router.sysctl(&settings).unwrap();
    let ways = [SINK.interface, SECOND.interface].map(|interface| {
        let arrives =
            |frame: &[u8]| [SINK.mac, SECOND.mac].iter().any(|mac| frame.starts_with(mac));
        let is_ours = move |frame: &[u8]| arrives(frame) && client_of(frame).is_some();
        Sniffer::start(&topology.sink, interface, is_ours).unwrap()
    });
    let socket = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
    for client in 0..CLIENTS {
        for frame in flow_and_errors(client) {
            while !socket.send(&frame).unwrap() {}
            std::thread::sleep(PAUSE);
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut seen = BTreeMap::<(bool, u8), Vec<usize>>::new();
    for (way, sniffer) in ways.into_iter().enumerate() {
        for received in sniffer.finish() {
            seen.entry(client_of(&received.frame).unwrap()).or_default().push(way);
        }
    }
    let frames = flow_and_errors(0).len() / 2;
    for ipv6 in [false, true] {
        let mut used = [0; 2];
        for client in 0..CLIENTS {
            let ways = seen.remove(&(ipv6, client)).unwrap_or_default();
            assert_eq!(ways, vec![*ways.first().unwrap(); frames], "IPv6 {ipv6}, client {client}");
            used[ways[0]] += 1;
        }
        println!("{forwarder:?}, IPv6 {ipv6}: {used:?} flows with their errors");
        assert!(used.iter().all(|count| *count > 0), "{used:?}");
    }
    bench.finish();
}

/// Clients of a server behind both paths.
const CLIENTS: u8 = 24;

fn client4(client: u8) -> [u8; 4] {
    [10, 9, client, 1]
}

fn client6(client: u8) -> [u8; 16] {
    Ipv6Addr::new(0x2001, 0xdb8, 0x99, 0, 0, 0, client.into(), 1).octets()
}

/// Frames of a client to its server, and of routers that report on the server's packets to it.
fn flow_and_errors(client: u8) -> Vec<Vec<u8>> {
    let (IpAddr::V4(server4), IpAddr::V6(server6)) = (PREFIXES[0].1, PREFIXES[2].1) else {
        unreachable!("one prefix of each family")
    };
    let (server4, server6) = (server4.octets(), server6.octets());
    let (from, port) = (10_000 + u16::from(client), PORT);
    let ethernet = || etherparse::PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac);
    let mut frames = vec![Vec::new(); 6];
    let (mut answer4, mut answer6) = (Vec::new(), Vec::new());
    let payload = [0; 64];
    let (other4, other6) = (client4(client), client6(client));
    ethernet().ipv4(other4, server4, 64).udp(from, port).write(&mut frames[0], &payload).unwrap();
    ethernet().ipv6(other6, server6, 64).udp(from, port).write(&mut frames[1], &payload).unwrap();
    let answer = etherparse::PacketBuilder::ipv4(server4, other4, 7);
    answer.udp(port, from).write(&mut answer4, &payload).unwrap();
    let answer = etherparse::PacketBuilder::ipv6(server6, other6, 7);
    answer.udp(port, from).write(&mut answer6, &payload).unwrap();
    let router4 = [10, 200, client, 7];
    let router6 = Ipv6Addr::new(0x2001, 0xdb8, 0x200, client.into(), 0, 0, 0, 7).octets();
    // Fragmentation needed or packet too big, and time exceeded.
    for (frame, kind, code) in [(2, 3, 4), (4, 11, 0)] {
        let error = ethernet().ipv4(router4, server4, 64).icmpv4_raw(kind, code, [0, 0, 5, 0]);
        error.write(&mut frames[frame], &answer4).unwrap();
    }
    for (frame, kind) in [(3, 2), (5, 3)] {
        let error = ethernet().ipv6(router6, server6, 64).icmpv6_raw(kind, 0, [0, 0, 5, 0]);
        error.write(&mut frames[frame], &answer6).unwrap();
    }
    frames
}

/// Returns the client that a frame of [`flow_and_errors`] concerns, with true for IPv6.
fn client_of(frame: &[u8]) -> Option<(bool, u8)> {
    // Its source, or the destination of the packet that an error quotes.
    let at = |places: [usize; 2], bytes: &[u8]| {
        places.iter().any(|place| frame.get(*place..).is_some_and(|it| it.starts_with(bytes)))
    };
    let is_of4 = |client: &u8| at([26, 58], &client4(*client));
    let is_of6 = |client: &u8| at([22, 86], &client6(*client));
    match frame.get(12..14)? {
        [0x08, 0x00] => (0..CLIENTS).find(is_of4).map(|client| (false, client)),
        [0x86, 0xdd] => (0..CLIENTS).find(is_of6).map(|client| (true, client)),
        _ => None,
    }
}

/// A capture begins and ends while flows run: each flow keeps its next hop and loses nothing, XDP
/// programs forward all packets, and the capture has the frames that source and sink saw.
#[test]
fn capture_changes_no_next_hop() {
    let test = "capture_changes_no_next_hop";
    quiet(test, || {
        let bench = start(XDP);
        let topology = &bench.topology;
        until_both_ways_are_used(topology);
        let wattline = bench.router();
        let by_workers = |stats: &serde_json::Value| {
            let forwarded = |key: &str| stats[key].as_u64().unwrap();
            forwarded("forwarded") - forwarded("xdp_forwarded")
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flows.pcapng");
        let text = file.to_string_lossy().into_owned();
        let heard = [SINK.interface, SECOND.interface].map(|interface| {
            Sniffer::start(&topology.sink, interface, |frame| parse(frame).is_some()).unwrap()
        });
        let before = wattline.stats().unwrap();
        let traffic = Traffic::start(topology);
        traffic.rounds.go_on(3);
        let filter = format!("udp and dst port {PORT}");
        let arguments = ["capture", "--rate", "1000000", "-w", &text, &filter];
        let mut capture = crate::watching::wattline(&bench.running, &arguments);
        // The round that runs now began before the capture.
        let first = traffic.rounds.count() + 1;
        traffic.rounds.go_on(6);
        let last = traffic.rounds.count();
        crate::watching::end(&mut capture);
        traffic.rounds.go_on(3);
        let rounds = traffic.rounds.count();
        let flows = traffic.finish();
        let after = wattline.stats().unwrap();

        for (flow, packets) in &flows {
            let way = packets[0].way;
            assert!(packets.iter().all(|packet| packet.way == way), "{flow:?}: {packets:?}");
            let numbers = packets.iter().map(|packet| packet.sequence);
            assert!(numbers.eq(0..packets.len() as u32), "{flow:?}: {packets:?}");
            assert!(packets.len() >= rounds as usize, "{flow:?}: {packets:?}");
        }
        assert_eq!(flows.len(), PREFIXES.len() * FLOWS.len());
        assert_eq!(by_workers(&before), by_workers(&after), "{before} {after}");
        let xdp = |stats: &serde_json::Value| stats["xdp_forwarded"].as_u64().unwrap();
        let packets: usize = flows.values().map(Vec::len).sum();
        assert!(xdp(&after) - xdp(&before) >= packets as u64, "{before} {after}");
        holds_what_was_sent(&file, heard, first..last);
        bench.finish();
    });
}

/// Checks that a capture has the frames of these rounds as the source sent them and as the sink
/// received them, once each, and no others.
fn holds_what_was_sent(file: &std::path::Path, heard: [Sniffer; 2], rounds: Range<u32>) {
    let mut there = BTreeMap::<(u32, Vec<u8>), u32>::new();
    for (port, sniffer) in (1..).zip(heard) {
        for Received { frame, .. } in sniffer.finish() {
            *there.entry((0, as_sent_by_source(&frame))).or_default() += 1;
            *there.entry((port, frame)).or_default() += 1;
        }
    }
    let mut captured = BTreeMap::<(u32, Vec<u8>), u32>::new();
    let mut reader = wattline_traffic::capture::Reader::open(file).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        *captured.entry((record.interface, record.data.to_vec())).or_default() += 1;
    }
    for (frame, count) in &captured {
        assert_eq!((there.get(frame), count), (Some(&1), &1), "{frame:?}");
    }
    let mut expected = 0;
    for frame in there.keys() {
        if rounds.contains(&parse(&frame.1).unwrap().1) {
            assert!(captured.contains_key(frame), "{frame:?}");
            expected += 1;
        }
    }
    println!("{} frames captured, {expected} of rounds {rounds:?}", captured.len());
    assert!(expected > PREFIXES.len() * FLOWS.len(), "{expected}");
}

/// A frame of the sink as the source had sent it to the router.
fn as_sent_by_source(frame: &[u8]) -> Vec<u8> {
    let mut sent = [&LEFT.mac[..], &SOURCE.mac, &frame[12..]].concat();
    if frame[12] == 8 {
        sent[22] += 1;
        set_checksum(&mut sent[14..34]);
    } else {
        sent[21] += 1;
    }
    sent
}

/// XDP programs forward nothing while one of several next hops is behind a port that does not take
/// their frames: workers would redistribute its share among all.
#[test]
fn next_hops_that_xdp_programs_cannot_all_reach_are_left_to_workers() {
    let test = "next_hops_that_xdp_programs_cannot_all_reach_are_left_to_workers";
    quiet(test, || {
        let bench = start(XDP);
        until_both_ways_are_used(&bench.topology);
        let xdp = || {
            let stats = bench.stats();
            stats["xdp_forwarded"].as_u64().unwrap()
        };
        let round = || {
            let traffic = Traffic::start(&bench.topology);
            traffic.rounds.go_on(3);
            traffic.finish();
        };
        round();
        assert!(xdp() > 0);
        let off = ["-K", "second", "gro", "off"];
        bench.topology.sink.run("ethtool", &off, LIMIT).unwrap();
        wattline_needs::until("XDP programs stop", || {
            let before = xdp();
            round();
            xdp() == before
        });
        bench.finish();
    });
}

/// A topology with both paths, which also takes frames from XDP programs, if they forward.
fn start(forwarder: Forwarder) -> Bench {
    let topology = with_both_ways();
    if forwarder == XDP {
        // The other ends run NAPI by then.
        topology.sink.run("ethtool", &["-K", "second", "gro", "on"], LIMIT).unwrap();
    }
    Bench::start_in(topology, forwarder, PORT_OTHER)
}

/// Wattline's second port towards the sink.
pub const PORT_OTHER: &str = "\n[[port]]\nname = \"other\"\ninterface = \"other\"\n";

/// A topology with both paths, whose kernel hashes ports.
pub fn with_both_ways() -> Topology {
    let topology = Topology::build(Options::default()).unwrap();
    let (router, sink) = (&topology.router, &topology.sink);
    connect(router, OTHER, sink, SECOND, 1500, 1).unwrap();
    // As Wattline does: by ports too, and never out of a link without carrier. IPv6 addresses
    // would not come back by themselves.
    let mut settings = vec![
        ("ipv4/fib_multipath_hash_policy".to_owned(), "1"),
        ("ipv6/fib_multipath_hash_policy".to_owned(), "1"),
    ];
    for interface in ["all", "right", "other"] {
        for family in ["ipv4", "ipv6"] {
            let key = format!("{family}/conf/{interface}/ignore_routes_with_linkdown");
            settings.push((key, "1"));
        }
    }
    settings.push(("ipv6/conf/other/keep_addr_on_down".to_owned(), "1"));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    router.sysctl(&settings).unwrap();
    sink.sysctl(&[("ipv6/conf/second/keep_addr_on_down", "1")]).unwrap();
    for (prefix, address, [one, other]) in PREFIXES {
        let [first, second] = if address.is_ipv4() {
            [SINK.v4.to_string(), SECOND.v4.to_string()]
        } else {
            [SINK.v6.to_string(), SECOND.v6.to_string()]
        };
        sink.ip(&format!("route add local {prefix} dev lo")).unwrap();
        let ways = format!(
            "nexthop via {first} dev right weight {one} nexthop via {second} dev other weight {other}"
        );
        router.ip(&format!("route add {prefix} {ways}")).unwrap();
    }
    topology
}

/// Routes take a moment to arrive, and so do neighbours.
fn until_both_ways_are_used(topology: &Topology) {
    wattline_needs::until("all flows arrive, by both ways", || {
        let traffic = Traffic::start(topology);
        traffic.rounds.go_on(2);
        let rounds = traffic.rounds.count();
        let flows = traffic.finish();
        PREFIXES.iter().all(|(_, address, _)| {
            let to = || FLOWS.map(|port| flows.get(&(*address, port)));
            let all = to().all(|packets| packets.is_some_and(|it| it.len() >= rounds as usize));
            all && (0..2).all(|way| to().flatten().any(|packets| packets[0].way == way))
        })
    });
}

/// A destination and a source port.
type Flow = (IpAddr, u16);

#[derive(Debug, Clone, Copy)]
struct Packet {
    sequence: u32,
    /// Link by which it arrived: 0 or 1.
    way: usize,
}

/// Rounds of frames, sent on a thread of their own and heard on both links.
pub struct Rounds {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU32>,
    sender: JoinHandle<()>,
    ways: [Sniffer; 2],
}

impl Rounds {
    /// Sends rounds by `send`, which gets their numbers, and listens for frames that satisfy `wanted`.
    pub fn start(
        topology: &Topology,
        wanted: impl Fn(&[u8]) -> bool + Clone + Send + 'static,
        mut send: impl FnMut(u32) + Send + 'static,
    ) -> Self {
        let ways = [SINK.interface, SECOND.interface]
            .map(|interface| Sniffer::start(&topology.sink, interface, wanted.clone()).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU32::new(0));
        let (stopping, sent) = (Arc::clone(&stop), Arc::clone(&rounds));
        let sender = std::thread::spawn(move || {
            while !stopping.load(Ordering::Acquire) {
                send(sent.load(Ordering::Relaxed));
                sent.fetch_add(1, Ordering::Release);
            }
        });
        Self { stop, rounds, sender, ways }
    }

    pub fn count(&self) -> u32 {
        self.rounds.load(Ordering::Acquire)
    }

    /// Waits until so many more rounds were sent.
    pub fn go_on(&self, rounds: u32) {
        let until = self.count() + rounds;
        wattline_needs::until("the sender stands still", || {
            self.count() >= until || self.sender.is_finished()
        });
    }

    /// Returns the frames that arrived, in order, each with the link by which it came: 0 or 1.
    pub fn finish(self) -> Vec<(usize, Received)> {
        self.stop.store(true, Ordering::Release);
        self.sender.join().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let mut arrived = Vec::new();
        for (way, sniffer) in self.ways.into_iter().enumerate() {
            arrived.extend(sniffer.finish().into_iter().map(|received| (way, received)));
        }
        arrived.sort_by_key(|(_, received)| received.nanos);
        arrived
    }
}

/// A packet of every flow each round, heard on both links.
struct Traffic {
    rounds: Rounds,
    /// Receives all datagrams, so that the sink does not send port-unreachable errors.
    _listener: UdpSocket,
}

impl Traffic {
    fn start(topology: &Topology) -> Self {
        let listen = || bound(Ipv6Addr::UNSPECIFIED.into(), PORT);
        let listener = topology.sink.enter(listen).unwrap();
        let bind = |own: IpAddr| FLOWS.map(move |port| bound(own, port));
        let sockets = topology.source.enter(|| {
            [SOURCE.v4.into(), SOURCE.v6.into()].map(|own| bind(own).collect::<Vec<_>>())
        });
        let [v4, v6] = sockets.unwrap();
        let send = move |round: u32| {
            for (_, address, _) in PREFIXES {
                let sockets = if address.is_ipv4() { &v4 } else { &v6 };
                for (number, socket) in sockets.iter().enumerate() {
                    socket.send_to(&round.to_be_bytes(), (address, PORT)).unwrap();
                    if number % BURST == 0 {
                        std::thread::sleep(PAUSE);
                    }
                }
            }
        };
        let rounds = Rounds::start(topology, |frame| parse(frame).is_some(), send);
        Self { rounds, _listener: listener }
    }

    /// Returns the packets of each flow that arrived, in order.
    fn finish(self) -> BTreeMap<Flow, Vec<Packet>> {
        let mut flows = BTreeMap::<Flow, Vec<Packet>>::new();
        for (way, received) in self.rounds.finish() {
            let (flow, sequence) = parse(&received.frame).unwrap();
            flows.entry(flow).or_default().push(Packet { sequence, way });
        }
        flows
    }
}

/// Returns a socket with this port. A test beside this one that starts a program holds copies of all sockets
/// until the program runs, so the port of an earlier round may be in use for a moment.
fn bound(own: IpAddr, port: u16) -> UdpSocket {
    let deadline = Instant::now() + LIMIT;
    loop {
        match UdpSocket::bind((own, port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome.unwrap(),
        }
    }
}

/// Returns the flow and the sequence number of a packet of this test.
fn parse(frame: &[u8]) -> Option<(Flow, u32)> {
    let packet = etherparse::SlicedPacket::from_ethernet(frame).ok()?;
    let destination: IpAddr = match packet.net? {
        etherparse::NetSlice::Ipv4(ip) => ip.header().destination_addr().into(),
        etherparse::NetSlice::Ipv6(ip) => ip.header().destination_addr().into(),
        etherparse::NetSlice::Arp(_) => return None,
    };
    let Some(etherparse::TransportSlice::Udp(udp)) = packet.transport else { return None };
    let sequence = u32::from_be_bytes(*udp.payload().first_chunk()?);
    (udp.destination_port() == PORT).then_some(((destination, udp.source_port()), sequence))
}
