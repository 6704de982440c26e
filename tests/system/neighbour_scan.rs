//! A scan of connected prefixes (RFC 6583): other neighbours are resolved as fast as by the kernel,
//! which is measured in the same run.

use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, privileged};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline_needs::StopOnDrop;
use wattline_testbed::forwarder::{Forwarder, Totals};
use wattline_testbed::raw::{RawSocket, Sniffer};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology};

/// Scanned: prefixes on each of two links.
const PREFIXES4: [[u8; 2]; 3] = [[10, 8], [10, 9], [10, 7]];
const PREFIXES6: [u16; 3] = [8, 9, 7];
/// Neighbours that come up during a scan, all in the first prefix.
const NEIGHBOURS: u16 = 5;
/// A neighbour that goes and comes back.
const RETURNING: u16 = NEIGHBOURS;
/// Time after which a neighbour counts as never resolved.
const NEVER: Duration = Duration::from_secs(4);
/// Time between two solicitations of the kernel (`retrans_time_ms`): a neighbour that returns
/// between two of them waits for the next one with every forwarder.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Delay that a busy machine may cause.
const NOISE: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn neighbour(self, number: u16) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 8, 200, 1 + number as u8).into(),
            Self::V6 => Ipv6Addr::new(0x2001, 0xdb8, 8, 0, 0xc8, 0, 0, 1 + number).into(),
        }
    }

    /// An address without a station, in one of the prefixes.
    fn silent(self, number: u32) -> IpAddr {
        let prefix = (number % 3) as usize;
        // An odd factor: addresses hardly repeat.
        let host = (number / 3).wrapping_mul(40_503).wrapping_add(12_345) as u16;
        match self {
            Self::V4 => {
                let [a, b] = PREFIXES4[prefix];
                // Clear of the neighbours, the router and the broadcast address.
                Ipv4Addr::new(a, b, (host >> 8) as u8 & 127, host as u8 | 2).into()
            }
            Self::V6 => {
                let (high, low) = ((number >> 16) as u16, number as u16);
                Ipv6Addr::new(0x2001, 0xdb8, PREFIXES6[prefix], 0, 0x77, host, high, low).into()
            }
        }
    }
}

/// A UDP datagram from the source to an address, as a frame for the router.
fn frame(to: IpAddr, mark: [u8; 4]) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac);
    let builder = match to {
        IpAddr::V4(to) => builder.ipv4(SOURCE.v4.octets(), to.octets(), 64),
        IpAddr::V6(to) => builder.ipv6(SOURCE.v6.octets(), to.octets(), 64),
    };
    let mut bytes = Vec::new();
    builder.udp(4000, 4000).write(&mut bytes, &mark).unwrap();
    bytes
}

/// A topology with connected prefixes that are scanned, and a sink that answers for its addresses.
fn topology() -> Topology {
    let topology = Topology::build(Options { static_neighbours: true, ..Options::default() });
    let topology = topology.unwrap();
    let mut router = String::new();
    for ([a, b], prefix) in PREFIXES4.iter().zip(PREFIXES6) {
        let link = if prefix == PREFIXES6[2] { LEFT.interface } else { RIGHT.interface };
        router += &format!(
            "address add {a}.{b}.0.1/16 dev {link}\n\
             address add 2001:db8:{prefix}::1/64 dev {link} nodad\n"
        );
    }
    topology.router.ip(&router).unwrap();
    // The sink has to answer although the kernel's table, which all namespaces share, is full.
    let [_, _, _, d, e, f] = RIGHT.mac;
    let mac = wattline_testbed::topology::mac_text(RIGHT.mac);
    let link_local = format!("fe80::57:ff:fe{d:02x}:{e:02x}{f:02x}");
    let routers = ["10.8.0.1", "2001:db8:8::1", &link_local];
    let lines = routers.map(|address| {
        format!("neighbour replace {address} lladdr {mac} nud permanent dev {}\n", SINK.interface)
    });
    topology.sink.ip(&lines.concat()).unwrap();
    topology.sink.ip(&format!("route add 10.8.0.1 dev {}", SINK.interface)).unwrap();
    for number in 0..=RETURNING {
        set_address(&topology, "add", number);
    }
    topology
}

/// Adds an address of a neighbour to the sink, or removes it.
fn set_address(topology: &Topology, verb: &str, number: u16) {
    let (v4, v6) = (Family::V4.neighbour(number), Family::V6.neighbour(number));
    let nodad = if verb == "add" { " nodad" } else { "" };
    let device = SINK.interface;
    let lines =
        format!("address {verb} {v4}/32 dev {device}\naddress {verb} {v6}/128 dev {device}{nodad}");
    topology.sink.ip(&lines).unwrap();
}

/// Sends packets to silent addresses at a rate until told to stop; returns their number.
fn scan(topology: &Topology, family: Family, rate: u32, stop: &AtomicBool) -> u32 {
    let socket = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
    let (begun, mut sent) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * f64::from(rate)) as u32;
        while sent < due {
            socket.send(&frame(family.silent(sent), *b"scan")).unwrap();
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Time until a packet to a neighbour arrives; one is sent every 50 ms.
fn time_to_reach(topology: &Topology, to: IpAddr) -> Duration {
    let socket = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
    let bytes = frame(to, *b"late");
    let wanted = bytes[14..].to_vec();
    let at = if to.is_ipv4() { 16 } else { 24 };
    // The destination and what follows; the TTL and the checksum of the header are others.
    let sniffer = Sniffer::start(&topology.sink, SINK.interface, move |frame| {
        frame.get(14 + at..14 + wanted.len()).is_some_and(|end| end == &wanted[at..])
    });
    let sniffer = sniffer.unwrap();
    let begun = wattline_testbed::clock::monotonic_nanos();
    let started = Instant::now();
    while started.elapsed() < NEVER && sniffer.count() == 0 {
        socket.send(&bytes).unwrap();
        for _ in 0..25 {
            if sniffer.count() == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    let first = sniffer.finish().first().map(|received| received.nanos - begun);
    first.map_or(NEVER, Duration::from_nanos)
}

/// Median of times.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

struct Outcome {
    /// Time until a new neighbour is reached: median of several.
    new: Duration,
    /// The same for a neighbour that has come back.
    returned: Duration,
}

/// Measures during a scan.
fn measure(forwarder: Forwarder, family: Family, rate: u32) -> Outcome {
    let topology = topology();
    let bench = Bench::start_in(topology, forwarder, "");
    let stop = AtomicBool::new(false);
    let topology = &bench.topology;
    let returning = family.neighbour(RETURNING);
    assert!(time_to_reach(topology, returning) < NEVER, "{forwarder:?}: without a scan");
    let outcome = std::thread::scope(|scope| {
        let scanner = scope.spawn(|| scan(topology, family, rate, &stop));
        let stop = StopOnDrop(&stop);
        set_address(topology, "del", RETURNING);
        let flush = ["neighbour", "flush", "to", &returning.to_string(), "dev", RIGHT.interface];
        topology.router.run("ip", &flush, LIMIT).unwrap();
        let socket = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1500) {
            // The kernel's solicitations get no answer.
            socket.send(&frame(returning, *b"away")).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        let new = (0..NEIGHBOURS).map(|number| time_to_reach(topology, family.neighbour(number)));
        let new = median(new.collect());
        set_address(topology, "add", RETURNING);
        let returned = time_to_reach(topology, returning);
        drop(stop);
        let sent = scanner.join().unwrap();
        println!(
            "{forwarder:?} {family:?} {rate}/s ({sent} sent): new {new:?}, returned {returned:?}"
        );
        Outcome { new, returned }
    });
    finish(bench);
    outcome
}

/// Stops the router. XDP programs need not have forwarded anything: workers forward the held
/// packets.
fn finish(bench: Bench) {
    let Bench { running, .. } = bench;
    let totals = running.stop().unwrap_or_else(|error| panic!("{error}"));
    assert!(totals.as_ref().is_none_or(Totals::balance), "{totals:?}");
}

fn compare(test: &str, family: Family, rate: u32) {
    privileged(test, || {
        let kernel = measure(KERNEL, family, rate);
        for forwarder in [ADAPTIVE, XDP] {
            let ours = measure(forwarder, family, rate);
            assert!(ours.new <= kernel.new + NOISE, "{forwarder:?}: new neighbours");
            let returned = kernel.returned + PROBE_INTERVAL + NOISE;
            assert!(ours.returned <= returned, "{forwarder:?}: returning neighbour");
        }
    });
}

/// The kernel's table has room.
#[test]
#[ignore = "measures for half a minute and more: make test-long"]
fn slow_ipv4_scan_delays_neighbours_no_longer_than_in_the_kernel() {
    let test = "slow_ipv4_scan_delays_neighbours_no_longer_than_in_the_kernel";
    compare(test, Family::V4, 250);
}

#[test]
#[ignore = "measures for half a minute and more: make test-long"]
fn slow_ipv6_scan_delays_neighbours_no_longer_than_in_the_kernel() {
    let test = "slow_ipv6_scan_delays_neighbours_no_longer_than_in_the_kernel";
    compare(test, Family::V6, 250);
}

/// The kernel's table overflows, unless `gc_thresh3` was raised.
#[test]
#[ignore = "measures for half a minute and more: make test-long"]
fn fast_ipv4_scan_delays_neighbours_no_longer_than_in_the_kernel() {
    let test = "fast_ipv4_scan_delays_neighbours_no_longer_than_in_the_kernel";
    compare(test, Family::V4, 5_000);
}

#[test]
#[ignore = "measures for half a minute and more: make test-long"]
fn fast_ipv6_scan_delays_neighbours_no_longer_than_in_the_kernel() {
    let test = "fast_ipv6_scan_delays_neighbours_no_longer_than_in_the_kernel";
    compare(test, Family::V6, 5_000);
}

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "takes 40 s"]
fn memory_is_bounded_during_a_scan() {
    privileged("memory_is_bounded_during_a_scan", || {
        let bench = Bench::start_in(topology(), ADAPTIVE, "");
        let pid = bench.router().pid();
        let stop = AtomicBool::new(false);
        let (early, late) = std::thread::scope(|scope| {
            scope.spawn(|| scan(&bench.topology, Family::V6, 20_000, &stop));
            let _stop = StopOnDrop(&stop);
            std::thread::sleep(Duration::from_secs(10));
            let early = resident(pid);
            std::thread::sleep(Duration::from_secs(25));
            (early, resident(pid))
        });
        println!("{early} KiB after 10 s, {late} KiB after 35 s");
        assert!(late < early + 4_096, "{early} KiB after 10 s, {late} KiB after 35 s");
        finish(bench);
    });
}
