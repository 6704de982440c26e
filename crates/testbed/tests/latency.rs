//! The generator's latency compared with an independent measurement: tcpdump on both sides of a
//! device that delays packets, with the kernel's time stamps.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline_testbed::command::{self, LIMIT};
use wattline_testbed::leftovers::can_build_namespaces;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::packets::{
    Addresses, End, Load, Methods, Parsed, Shape, Sizes, Stamp, Tester, anywhere, plain_link,
};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology};
use wattline_traffic::capture::Reader;

const BURST: u64 = 60;
const BYTES: u16 = 1000;
/// Packets per second of the device: a burst takes 30 ms.
const DRAIN_PPS: f64 = 2_000.0;
/// Bytes of Ethernet, IPv4 and UDP before the stamp.
const HEADERS: usize = 14 + 20 + 8;
/// Tolerance for the generator: its own path, and time slices of other programs.
const OWN: f64 = 5e-3;

#[test]
fn latency_agrees_with_tcpdump_on_both_sides_of_the_device() {
    let test = "latency_agrees_with_tcpdump_on_both_sides_of_the_device";
    if !can_build_namespaces(test) {
        return;
    }
    if ["tcpdump", "tc"].iter().any(|tool| !command::installed(tool)) {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "tcpdump and tc");
        return;
    }
    let options = Options { static_neighbours: true, ..Options::default() };
    let topology = Topology::build(options).unwrap();
    // The device: a queue that drains at a fixed rate, so that the packets of a burst wait longer
    // and longer.
    let rate = format!("{:.0}bit", DRAIN_PPS * f64::from(BYTES - 4) * 8.0);
    let shape = ["qdisc", "add", "dev", RIGHT.interface, "root", "tbf", "rate", &rate];
    let limits = ["burst", "1600", "limit", "10000000"];
    topology.router.run("tc", &[&shape[..], &limits[..]].concat(), LIMIT).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.pcap", "after.pcap"].map(|name| folder.path().join(name));
    let dumps = [(LEFT.interface, "in", &before), (RIGHT.interface, "out", &after)]
        .map(|(interface, way, file)| tcpdump(&topology.router, interface, way, file));

    let ends = [&topology.source, &topology.sink]
        .map(|namespace| format!("{}/{}", namespace.name(), SOURCE.interface));
    assert_eq!(SOURCE.interface, SINK.interface);
    let [from, to] = ends.each_ref().map(|end| End::from(end.as_str()));
    let mut tester = Tester::open(from, Some(to), 1, Methods::SOCKETS).unwrap();
    let addresses = Addresses {
        destination_mac: LEFT.mac,
        source: SOURCE.v4.into(),
        destination: SINK.v4.into(),
        ..plain_link(&tester.from, &tester.to)
    };
    let load = Load {
        rate_pps: DRAIN_PPS / 2.0,
        duration: Duration::from_secs(3),
        shape: Shape::Bursts { packets: BURST, peak_pps: 50_000.0 },
        sizes: Sizes::fixed(BYTES),
        flows: 4,
        drain: Duration::from_secs(1),
        ..Load::default()
    };
    let never = AtomicBool::new(false);
    let outcome = tester.trial(&addresses, &load, &anywhere, &never, &mut |_| ()).unwrap();
    // tcpdump reads its packets from the kernel once a second.
    std::thread::sleep(Duration::from_secs(2));
    for mut dump in dumps {
        kill_process(Pid::from_child(&dump), Signal::INT).unwrap();
        assert!(command::wait(&mut dump, LIMIT).unwrap().is_some());
    }
    assert_eq!(outcome.lost_packets, 0, "{outcome:#?}");

    let arrived = times(&before);
    let mut residence: Vec<f64> = times(&after)
        .into_iter()
        .filter_map(|(packet, left)| Some(left.checked_sub(*arrived.get(&packet)?)?.as_secs_f64()))
        .collect();
    residence.sort_by(f64::total_cmp);
    let count = residence.len();
    assert!(count as u64 * 100 >= outcome.received_packets * 95, "tcpdump saw {count}");
    let at = |part: f64| residence[((count - 1) as f64 * part) as usize];
    let latency = outcome.latency;
    for (name, part, measured) in [
        ("p50", 0.5, latency.p50_seconds),
        ("p90", 0.9, latency.p90_seconds),
        ("p99", 0.99, latency.p99_seconds),
    ] {
        let (expected, measured) = (at(part), measured.unwrap());
        println!("{name}: {:.3} ms, tcpdump {:.3} ms", measured * 1e3, expected * 1e3);
        // A histogram of three digits, and percentiles of slightly different sets of packets.
        assert!(measured > expected * 0.98 - 0.2e-3, "{name}: {measured} s, tcpdump {expected} s");
        assert!(measured < expected * 1.02 + OWN, "{name}: {measured} s, tcpdump {expected} s");
    }
    // Without the delay, the comparison would say nothing.
    assert!(at(0.5) > 2.0 * OWN, "the device delays by {} s only", at(0.5));
}

/// Starts tcpdump and waits until it is ready.
fn tcpdump(namespace: &Namespace, interface: &str, way: &str, file: &Path) -> Child {
    let mut dump = namespace.command("tcpdump");
    dump.args([
        "-i",
        interface,
        "-Q",
        way,
        "-n",
        "-U",
        "--time-stamp-precision=nano",
        "-Z",
        "root",
    ])
    .arg("-w")
    .arg(file)
    .arg("udp");
    let mut child = command::spawn(dump.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    // tcpdump writes the file's header once it captures.
    for _ in 0..2_000 {
        if std::fs::metadata(file).is_ok_and(|file| file.len() >= 24) {
            return child;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = child.kill().and_then(|()| child.wait());
    panic!("tcpdump does not begin on {interface}: {ended:?}");
}

/// Returns the time at which each packet passed, by its number.
fn times(file: &Path) -> HashMap<u64, Duration> {
    let mut reader = Reader::open(file).unwrap();
    let mut times = HashMap::new();
    while let Some(record) = reader.next_record().unwrap() {
        let payload = record.data.get(HEADERS..).unwrap_or_default();
        if let Parsed::Stamp(stamp) = Stamp::parse(payload) {
            times.insert(stamp.sequence, record.timestamp);
        }
    }
    times
}
