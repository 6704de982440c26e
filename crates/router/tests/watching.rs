//! Captures, traces and cleared counters over the control socket of a router between captures:
//! without root.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wattline_daemon::socket::{Look, Request, SocketError, ask, listen};
use wattline_daemon::stream::Part;
use wattline_router::{Extensions, Router};
use wattline_traffic::capture::{LinkType, Reader, Resolution, Writer};

const CONFIG: &str = r#"
[router]
socket = "SOCKET"
[[port]]
name = "a"
capture = { read = "FOLDER/in.pcap", write = "FOLDER/a.pcap", paced = true }
mac = "02:00:00:00:00:01"
addresses = ["192.0.2.1/24"]
[[port]]
name = "b"
capture = { write = "FOLDER/b.pcap" }
mac = "02:00:00:00:00:11"
addresses = ["198.51.100.1/24"]
[[route]]
prefix = "0.0.0.0/0"
via = "198.51.100.2"
[[route]]
prefix = "10.66.0.0/16"
kind = "blackhole"
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:12"
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:09"
"#;
/// Packets of the capture, a hundred a second: more than any test waits for.
const PACKETS: u16 = 6_000;

/// Returns the packet of a number: in turn one that is forwarded, one to a blackhole, one that
/// expires.
fn frame(number: u16) -> Vec<u8> {
    let (to, ttl) = match number % 3 {
        0 => ([203, 0, 113, 5], 64),
        1 => ([10, 66, 0, 1], 64),
        _ => ([203, 0, 113, 5], 1),
    };
    let mut bytes = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
        .ipv4([192, 0, 2, 9], to, ttl)
        .udp(1000 + number, 2000)
        .write(&mut bytes, &[7; 32])
        .unwrap();
    bytes
}

/// A router in a thread of this process, stopped when dropped.
struct Running {
    folder: tempfile::TempDir,
    thread: Option<std::thread::JoinHandle<wattline_router::stats::Stats>>,
}

impl Running {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut writer =
            Writer::create(at("in.pcap"), LinkType::ETHERNET, Resolution::Nanos).unwrap();
        for number in 0..PACKETS {
            writer.write(Duration::from_millis(u64::from(number) * 10), &frame(number)).unwrap();
        }
        writer.finish().unwrap();
        let text = CONFIG.replace("SOCKET", &at("socket").to_string_lossy());
        let text = text.replace("FOLDER", &folder.path().to_string_lossy());
        let config = at("router.toml");
        std::fs::write(&config, text).unwrap();
        let thread = std::thread::spawn(move || {
            let extensions =
                Extensions { applications: &[], platforms: &[], policies: Default::default() };
            let router = Router::start(&config, extensions, Box::new(|_| {})).unwrap();
            router.run().0
        });
        let running = Self { folder, thread: Some(thread) };
        wattline_needs::until("an answer", || ask(&running.socket(), Request::Stats).is_ok());
        running
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns the parts of an answer, and its end.
    fn watch(&self, request: &Request) -> (Vec<Part>, Value) {
        let (_, mut inlet) = listen(&self.socket(), request).unwrap();
        let mut parts = Vec::new();
        loop {
            match inlet.part().unwrap() {
                Part::End(end) => return (parts, end),
                part => parts.push(part),
            }
        }
    }

    fn stop(mut self) -> wattline_router::stats::Stats {
        ask(&self.socket(), Request::Stop).unwrap();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = ask(&self.socket(), Request::Stop);
    }
}

fn look(filter: &str, most: Option<u64>) -> Look {
    Look { filter: filter.to_owned(), snap: u16::MAX, rate: 1_000_000, most }
}

fn file_of(parts: Vec<Part>) -> Vec<u8> {
    let bytes = parts.into_iter().map(|part| match part {
        Part::Bytes(bytes) => bytes,
        other => panic!("no bytes: {other:?}"),
    });
    bytes.flatten().collect()
}

/// Returns tshark's view of a file: interface, direction, source port, comment; none without it.
fn by_tshark(path: &Path) -> Option<Vec<String>> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(path).args(["-T", "fields", "-e", "frame.interface_name"]);
    tshark.args(["-e", "frame.packet_flags", "-e", "udp.srcport", "-e", "frame.comment"]);
    let Ok(output) = tshark.output() else {
        wattline_needs::tool("tshark");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn capture_has_received_and_sent_packets_with_their_fate() {
    let running = Running::start();
    let (parts, end) = running.watch(&Request::Capture(look("udp and not icmp", Some(12))));
    assert!(end["packets"].as_u64().unwrap() >= 12, "{end}");
    assert_eq!(end["missed"], 0, "{end}");
    let path = running.folder.path().join("out.pcapng");
    std::fs::write(&path, file_of(parts)).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut count = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let [high, low] = [record.data[34], record.data[35]];
        let number = u16::from_be_bytes([high, low]) - 1000;
        let mut expected = frame(number);
        if record.interface == 1 {
            assert_eq!(number % 3, 0, "only those are sent");
            // From another station, a hop further.
            expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x12, 2, 0, 0, 0, 0, 0x11]);
            expected[22] -= 1;
            expected[24] += 1;
        }
        assert_eq!(record.data, expected);
        count += 1;
    }
    assert_eq!(count, end["packets"]);
    let Some(lines) = by_tshark(&path) else { return };
    assert_eq!(lines.len() as u64, count);
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = fields[2].parse::<u16>().unwrap() - 1000;
        let expected = match (fields[0], number % 3) {
            ("a", 0) => ("0x00000001", ""),
            ("a", 1) => ("0x00000001", "dropped: blackhole"),
            ("a", _) => ("0x00000001", "dropped: ttl-expired"),
            _ => ("0x00000002", ""),
        };
        assert_eq!((fields[1], fields.get(3).copied().unwrap_or("")), expected, "{line}");
    }
    let tcpdump = Command::new("tcpdump").args(["-nr"]).arg(&path).output();
    match tcpdump {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(text.lines().count() as u64, count, "{text}");
        }
        Err(_) => wattline_needs::tool("tcpdump"),
    }
}

#[test]
fn trace_has_the_path_and_the_end_of_each_packet() {
    let running = Running::start();
    let (parts, _) = running.watch(&Request::Trace(look("host 192.0.2.9", Some(8))));
    let mut ends = std::collections::BTreeMap::new();
    for part in parts {
        let Part::Event(way) = part else { panic!("{part:?}") };
        let nodes = way["nodes"].as_array().unwrap();
        let last = nodes.last().and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = |key: &str| way[key].as_str().unwrap_or_default().to_owned();
        ends.insert((text("made_by"), text("end"), text("reason")), (last, text("port_out")));
    }
    for (by, end, reason, last, out) in [
        ("", "sent", "", "output", "b"),
        ("", "dropped", "blackhole", "drop", ""),
        ("", "dropped", "ttl-expired", "drop", ""),
        // The answer to the packet that expired.
        ("icmp4-error", "sent", "", "output", "a"),
    ] {
        let key = (by.to_owned(), end.to_owned(), reason.to_owned());
        assert_eq!(ends.get(&key), Some(&(last.to_owned(), out.to_owned())), "{key:?}: {ends:?}");
    }
}

#[test]
fn stopped_capture_gets_its_rest_and_frees_its_place() {
    let running = Running::start();
    let begin = || listen(&running.socket(), &Request::Capture(look("all", None)));
    // Four times as many as there are places, four at a time.
    for _ in 0..4 {
        let mut all: Vec<_> = (0..4).map(|_| begin().unwrap().1).collect();
        let Err(SocketError::Refused(why)) = begin() else { panic!("a fifth") };
        assert!(why.contains("4 captures and traces run already"), "{why}");
        all.iter().for_each(|inlet| inlet.stopper().unwrap().stop());
        for inlet in &mut all {
            while !matches!(inlet.part().unwrap(), Part::End(_)) {}
        }
        drop(all);
        // The place is freed right after the last message.
        wattline_needs::until("a free place", || begin().is_ok());
        std::thread::sleep(Duration::from_millis(500));
    }
    // A client that disconnects without a message.
    drop(begin().unwrap());
    for (filter, message) in [("interface c", "no such port"), ("tpc", "character 1")] {
        let refused = listen(&running.socket(), &Request::Trace(look(filter, None)));
        let Err(SocketError::Refused(why)) = refused else { panic!("{filter}") };
        assert!(why.contains(message), "{why}");
    }
    let stats = running.stop();
    let dropped: u64 = stats.dropped.values().sum();
    assert_eq!(stats.received + stats.generated, stats.forwarded + stats.punted + dropped);
}

#[test]
fn cleared_counters_restart_except_metrics_and_the_account() {
    let running = Running::start();
    let stats = || ask(&running.socket(), Request::Stats).unwrap();
    let received = |stats: &Value| stats["received"].as_u64().unwrap();
    wattline_needs::until("30 packets", || received(&stats()) >= 30);
    assert!(stats()["cleared_seconds_ago"].is_null());
    ask(&running.socket(), Request::ClearCounters).unwrap();
    let after = stats();
    assert!(received(&after) < 30 && after["cleared_seconds_ago"].is_f64(), "{after}");
    let metrics = ask(&running.socket(), Request::Metrics).unwrap();
    let line = metrics.as_str().unwrap().lines().find(|line| {
        line.starts_with("wattline_")
            && line.contains("direction=\"receive\"")
            && line.contains("\"a\"")
    });
    let line = line.unwrap_or_else(|| panic!("{metrics}"));
    let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 30.0, "{line}");
    assert!(running.stop().received >= 30);
}
