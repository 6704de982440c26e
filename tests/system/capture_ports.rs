//! The differential test with capture files as Wattline's ports: no kernel takes part, so Wattline
//! makes the ICMP errors, too.
//!
//! Packets that only a kernel can answer are left out, since Wattline counts them as punted:
//! packets to the router itself, and packets with IPv4 options or IPv6 hop-by-hop options.

use crate::differential::{RATE_PPS, assert_equal, frames, multiset};
use crate::harness::{Bench, KERNEL, binary, privileged};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use wattline_testbed::command;
use wattline_testbed::forwarder::Totals;
use wattline_testbed::raw::Received;
use wattline_testbed::replay::{cross, is_transit};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, mac_text};
use wattline_traffic::capture::{LinkType, Reader, Resolution, Writer};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn capture_ports_agree_with_the_kernel() {
    let test = "capture_ports_agree_with_the_kernel";
    privileged(test, || {
        let options =
            Options { static_neighbours: true, unlimited_errors: true, ..Options::default() };
        let bench = Bench::start(options, KERNEL);
        let mut frames = frames(test);
        frames.retain(|frame| is_wattlines(frame));
        let crossing = cross(&bench.topology, &frames, RATE_PPS).unwrap();
        let reference = [multiset(&crossing.to_sink), multiset(&crossing.to_source)];
        let ours = through_captures(&frames).map(|frames| multiset(&frames));
        assert!(!reference[0].is_empty() && !reference[1].is_empty());
        assert_equal(&ours, &reference);
    });
}

/// Packets to forward, and expired ones.
pub fn is_wattlines(frame: &[u8]) -> bool {
    let ours = |address: &[u8]| {
        [LEFT, RIGHT].iter().any(|port| address == port.v4.octets() || address == port.v6.octets())
    };
    let mut alive = frame.to_vec();
    match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.len() >= 34 && !ours(&frame[30..34]) => alive[22] = 64,
        Some([0x86, 0xdd]) if frame.len() >= 54 && !ours(&frame[38..54]) => {
            alive[21] = 64;
            if frame[20] == 0 {
                return false;
            }
        }
        _ => return false,
    }
    frame.len() <= 1514 && is_transit(&alive)
}

/// Returns the frames that `wattline run` writes to the sink's and to the source's side.
fn through_captures(frames: &[Vec<u8>]) -> [Vec<Received>; 2] {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut input =
        Writer::create(path("in.pcap"), LinkType::ETHERNET, Resolution::Micros).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        input.write(Duration::from_millis(index as u64), frame).unwrap();
    }
    input.finish().unwrap();
    std::fs::write(path("router.toml"), configuration()).unwrap();
    let mut run = Command::new(binary());
    let text = command::run(run.arg("run").arg(path("router.toml")).arg("--json"), LIMIT).unwrap();
    let totals: Totals = serde_json::from_str(&text).unwrap();
    assert!(totals.balance(), "{totals:?}");
    assert_eq!(totals.received, frames.len() as u64);
    ["to_sink.pcap", "to_source.pcap"].map(|name| frames_of(&path(name)))
}

pub fn frames_of(path: &Path) -> Vec<Received> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        frames.push(Received { nanos: 0, frame: record.data.to_vec() });
    }
    frames
}

fn configuration() -> String {
    let mut text = String::new();
    let files = ["read = \"in.pcap\", write = \"to_source.pcap\"", "write = \"to_sink.pcap\""];
    for (port, files) in [LEFT, RIGHT].iter().zip(files) {
        let _ = write!(
            text,
            "[[port]]\nname = \"{}\"\ncapture = {{ {files} }}\nmac = \"{}\"\n\
             addresses = [\"{}/24\", \"{}/64\"]\n",
            port.interface,
            mac_text(port.mac),
            port.v4,
            port.v6
        );
    }
    for (prefix, via) in [("0.0.0.0/0", SINK.v4.to_string()), ("::/0", SINK.v6.to_string())] {
        let _ =
            write!(text, "[[route]]\nprefix = \"{prefix}\"\nvia = \"{via}\"\nport = \"right\"\n");
    }
    for (station, port) in [(SOURCE, "left"), (SINK, "right")] {
        for address in [station.v4.to_string(), station.v6.to_string()] {
            let _ = write!(
                text,
                "[[neighbour]]\naddress = \"{address}\"\nmac = \"{}\"\nport = \"{port}\"\n",
                mac_text(station.mac)
            );
        }
    }
    text
}
