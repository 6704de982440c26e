//! Captures and traces of a running router, beside tcpdump, and read by tcpdump and tshark.

use crate::crafted::set_checksum;
use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, has, privileged_with, quiet, quiet_with};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wattline_testbed::command;
use wattline_testbed::forwarder::{Forwarder, Running};
use wattline_testbed::raw::RawSocket;
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE};

const LIMIT: Duration = Duration::from_secs(60);
/// Destination port of the captured datagrams.
const PORT: u16 = 5999;

/// A datagram from source to sink.
fn datagram(number: u8, ttl: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    etherparse::PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac)
        .ipv4(SOURCE.v4.octets(), SINK.v4.octets(), ttl)
        .udp(4000 + u16::from(number), PORT)
        .write(&mut bytes, &[number; 40])
        .unwrap();
    bytes
}

/// `wattline capture` or `trace`, after its first line of output: it captures from then on.
pub fn wattline(running: &Running, arguments: &[&str]) -> Child {
    let mut command = running.wattline.as_ref().unwrap().command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command::spawn(&mut command).unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.starts_with("not seen"), "{line}");
    // The rest is let through, so that nothing waits for a full pipe.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
    child
}

pub fn end(child: &mut Child) {
    crate::harness::terminate(child, rustix::process::Signal::INT);
    let status = command::wait(child, LIMIT).unwrap().expect("it ends");
    assert!(status.success(), "{status}");
}

/// Interface, TTL, source port and bytes of the payload of each datagram, by tshark.
fn read(file: &Path) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file).args(["-Y", &format!("udp.dstport == {PORT} && !icmp")]);
    tshark.args(["-T", "fields", "-e", "frame.interface_name", "-e", "eth.src", "-e", "eth.dst"]);
    tshark.args(["-e", "ip.ttl", "-e", "ip.checksum", "-e", "udp.srcport", "-e", "data"]);
    let text = command::run(&mut tshark, LIMIT).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Sends ten datagrams once the sink can be reached; waits until all have come there.
fn traffic(bench: &Bench) {
    let socket = RawSocket::open(&bench.topology.source, SOURCE.interface).unwrap();
    for number in 0..10 {
        assert!(socket.send(&datagram(number, 64)).unwrap());
    }
}

/// Compares the frames that tcpdump captures on the router's interfaces while the kernel forwards
/// with those of `wattline capture` while Wattline does.
#[test]
fn a_capture_has_what_tcpdump_has_on_the_kernels_way() {
    let test = "a_capture_has_what_tcpdump_has_on_the_kernels_way";
    quiet(test, || {
        if !["tcpdump", "tshark", "ping"].iter().all(|program| has(program, test)) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let filter = format!("udp and dst port {PORT}");
        let mut expected = Vec::new();
        {
            let bench = Bench::start(Options::default(), KERNEL);
            assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
            let mut dumps: Vec<(Child, std::path::PathBuf)> = [LEFT, RIGHT]
                .map(|port| {
                    let file = folder.path().join(format!("{}.pcap", port.interface));
                    let mut dump = bench.topology.router.command("tcpdump");
                    dump.args(["-U", "-i", port.interface, "-w"]).arg(&file);
                    dump.arg(&filter).stderr(Stdio::null());
                    (command::spawn(&mut dump).unwrap(), file)
                })
                .into();
            // It looks once it has written the header of its file.
            wattline_needs::until("tcpdump begins", || {
                dumps.iter().all(|(_, file)| file.metadata().is_ok_and(|it| it.len() >= 24))
            });
            traffic(&bench);
            let seen = |file: &Path| read(file).len();
            wattline_needs::until("tcpdump sees ten packets", || {
                dumps.iter().all(|(_, file)| seen(file) >= 10)
            });
            for ((dump, file), port) in dumps.iter_mut().zip([LEFT, RIGHT]) {
                end(dump);
                // A pcap file has no name of its interface.
                let named = |line: String| {
                    let (_, rest) = line.split_once('\t').unwrap();
                    format!("{}\t{rest}", port.interface)
                };
                expected.extend(read(file).into_iter().map(named));
            }
        }
        expected.sort();
        assert_eq!(expected.len(), 20, "{expected:?}");
        for forwarder in [ADAPTIVE, XDP] {
            let bench = Bench::start(Options::default(), forwarder);
            assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
            let before = by_xdp(&bench);
            let file = folder.path().join("wattline.pcapng");
            let text = file.to_string_lossy();
            let mut capture =
                wattline(&bench.running, &["capture", &filter, "-w", &text, "--overwrite"]);
            traffic(&bench);
            wattline_needs::until_or(
                || file.exists() && read(&file).len() >= 20,
                || format!("{:?}", read(&file)),
            );
            end(&mut capture);
            assert_eq!(read(&file), expected, "{forwarder:?}");
            // tcpdump reads it as well.
            let mut dump = Command::new("tcpdump");
            let dumped = command::run(dump.args(["-nr"]).arg(&file), LIMIT).unwrap();
            assert_eq!(dumped.lines().count(), 20, "{dumped}");
            // Forwarding goes on.
            assert_eq!(by_xdp(&bench) - before >= 10, forwarder == XDP, "{forwarder:?}");
            bench.finish();
        }
    });
}

/// Packets that XDP programs have forwarded.
fn by_xdp(bench: &Bench) -> u64 {
    bench.stats()["xdp_forwarded"].as_u64().unwrap()
}

/// A trace names the decision of an XDP program. A router that ends meanwhile ends the trace, and
/// the next router forwards as before.
#[test]
fn trace_of_xdp_programs_has_next_hop_and_ends_with_the_router() {
    let test = "trace_of_xdp_programs_has_next_hop_and_ends_with_the_router";
    quiet_with(&["ping"], test, || {
        let mut bench = Bench::start(Options::default(), XDP);
        assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
        let filter = format!("udp and dst port {PORT}");
        let trace = wattline(&bench.running, &["trace", "-c", "10", "--json", &filter]);
        let endless = wattline(&bench.running, &["trace", "--json", &filter]);
        traffic(&bench);
        let output = trace.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 11, "{text}");
        for way in &lines[..10] {
            assert_eq!(way["nodes"].to_string(), r#"["xdp-forward"]"#, "{way}");
            let ends = ["end", "port", "port_out", "next_hop"].map(|key| way[key].as_str());
            let next_hop = SINK.v4.to_string();
            assert_eq!(ends, [Some("sent"), Some("left"), Some("right"), Some(&*next_hop)]);
        }
        let end = &lines[10];
        assert_eq!((&end["matched"], &end["missed"]), (&10.into(), &0.into()), "{end}");
        bench = bench.restarted();
        let output = endless.wait_with_output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert!(lines.lines().count() >= 10, "{lines}");
        assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
        assert!(by_xdp(&bench) > 0);
        bench.finish();
    });
}

#[test]
fn drops_have_their_reason_in_captures_and_traces() {
    quiet_with(&["tshark", "ping"], "drops_have_their_reason_in_captures_and_traces", || {
        for forwarder in [ADAPTIVE, XDP] {
            let bench = Bench::start(Options::default(), forwarder);
            assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
            bench.topology.router.ip("route add blackhole 203.0.113.0/24").unwrap();
            let is_discarded = || bench.ask(&["show", "fib", "203.0.113.9"]).contains("discard");
            wattline_needs::until_or(is_discarded, || bench.log());
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("a.pcapng");
            let text = file.to_string_lossy().into_owned();
            let filter = "dst net 203.0.113.0/24 and interface left";
            let mut capture =
                wattline(&bench.running, &["capture", "-c", "1", filter, "-w", &text]);
            let trace = wattline(&bench.running, &["trace", "-c", "1", "--json", filter]);
            let mut bytes = datagram(0, 64);
            bytes[30..34].copy_from_slice(&[203, 0, 113, 9]);
            set_checksum(&mut bytes[14..34]);
            RawSocket::open(&bench.topology.source, SOURCE.interface)
                .unwrap()
                .send(&bytes)
                .unwrap();
            // Both end by themselves.
            let status = command::wait(&mut capture, LIMIT).unwrap().expect("it ends");
            assert!(status.success(), "{status}");
            let output = trace.wait_with_output().unwrap();
            assert!(output.status.success());
            let way = String::from_utf8(output.stdout).unwrap();
            let way: Value = serde_json::from_str(way.lines().next().unwrap()).unwrap();
            assert_eq!((&way["end"], &way["reason"]), (&"dropped".into(), &"blackhole".into()));
            let nodes = way["nodes"].to_string();
            assert_eq!(nodes, r#"["ethernet-input","ip4-input","ip4-lookup","drop"]"#);
            assert_eq!(way["port"], "left");
            let mut tshark = Command::new("tshark");
            tshark.arg("-r").arg(&file);
            tshark.args(["-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags"]);
            let read = command::run(tshark.args(["-e", "frame.comment"]), LIMIT).unwrap();
            assert_eq!(read.trim(), "left\t0x00000001\tdropped: blackhole", "{read}");

            // The shown counters start again; the account at the end does not (`finish`).
            bench.ask(&["clear", "counters"]);
            let stats = bench.stats();
            assert!(stats["dropped"]["blackhole"].is_null(), "{stats}");
            assert!(stats["cleared_seconds_ago"].as_f64().is_some(), "{stats}");
            bench.finish();
        }
    });
}

/// A capture of all packets at full speed is sampled, missing packets are counted, and traffic goes
/// on, also if the output is not read.
#[test]
fn a_capture_of_everything_is_bounded_and_says_what_it_missed() {
    let test = "a_capture_of_everything_is_bounded_and_says_what_it_missed";
    privileged_with(&["iperf3", "ping"], test, || {
        [ADAPTIVE, XDP].into_iter().for_each(flooded);
    });
}

fn flooded(forwarder: Forwarder) {
    let bench = Bench::start(Options::default(), forwarder);
    assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcapng").to_string_lossy().into_owned();
    let arguments = ["capture", "--json", "--rate", "100", "-w", &file];
    let capture = wattline(&bench.running, &arguments);
    // Their output is a pipe that is not read while traffic flows.
    let mut lazy: Vec<Child> = (0..3)
        .map(|_| wattline(&bench.running, &["capture", "--rate", "1000000", "-w", "-"]))
        .collect();
    let refused = bench.router().ask(&["trace"]).unwrap_err().to_string();
    assert!(refused.contains("4 captures and traces run already"), "{refused}");
    crate::throughput::tcp(
        &bench.topology,
        &SINK.v4.to_string(),
        crate::throughput::PORT,
        Duration::from_secs(2),
    );
    crate::harness::terminate(&capture, rustix::process::Signal::INT);
    let output = capture.wait_with_output().unwrap();
    let end: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [packets, matched, missed] =
        ["packets", "matched", "missed"].map(|key| end[key].as_u64().unwrap());
    assert!(missed > 0 && matched > missed && packets > 0, "{end}");
    // Each sampled packet was captured on arrival, on departure, or both.
    assert!((matched - missed..=2 * (matched - missed)).contains(&packets), "{end}");
    for capture in &mut lazy {
        capture.kill().unwrap();
        capture.wait().unwrap();
    }
    bench.finish();
}
