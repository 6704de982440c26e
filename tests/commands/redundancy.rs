//! Captures through an encoder and a decoder, as two runs of `wattline`: the output is the same as
//! of two routers that only forward. No root is needed.

use crate::captures::read_capture;
use crate::program::json;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline_traffic::capture::{LinkType, Reader, Resolution, Writer};

const ROUTER: &str = r#"
[router]
socket = "SOCKET"
[[port]]
name = "a"
capture = { read = "READ" }
addresses = ["192.0.2.1/24", "2001:db8:a::1/64"]
promiscuous = true
[[port]]
name = "b"
capture = { write = "WRITE" }
addresses = ["198.51.100.1/24", "2001:db8:b::1/64"]
[[route]]
prefix = "0.0.0.0/0"
via = "198.51.100.2"
[[route]]
prefix = "::/0"
via = "2001:db8:b::2"
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:12"
[[neighbour]]
address = "2001:db8:b::2"
mac = "02:00:00:00:00:12"
"#;

/// Runs a router with an additional section from one capture to another; returns its account.
fn route(folder: &Path, from: &Path, to: &str, section: &str) -> Value {
    let path = |name: &str| folder.join(name).display().to_string();
    let config = ROUTER
        .replace("SOCKET", &path("socket"))
        .replace("READ", &from.display().to_string())
        .replace("WRITE", &path(to));
    std::fs::write(path("router.toml"), config + section).unwrap();
    json(&["run", "--json", &path("router.toml")])
}

/// Through encoder and decoder and through two plain routers; bytes before and after encoding.
fn compare(capture: &Path, selection: &str) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let common = "feedback = false\nsecret = \"test\"\n";
    let encode = format!(
        "[[redundancy]]\nrole = \"encode\"\nport = \"b\"\nselection = \"{selection}\"\n{common}"
    );
    let decode = format!("[[redundancy]]\nrole = \"decode\"\nport = \"a\"\n{common}");
    route(folder, capture, "plain-1.pcap", "");
    route(folder, &folder.join("plain-1.pcap"), "plain-2.pcap", "");
    let encoder = route(folder, capture, "encoded.pcap", &encode);
    let decoder = route(folder, &folder.join("encoded.pcap"), "decoded.pcap", &decode);
    let (expected, found) =
        (read_capture(&folder.join("plain-2.pcap")), read_capture(&folder.join("decoded.pcap")));
    assert_eq!(found.len(), expected.len(), "{capture:?}: {decoder}");
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{capture:?}: packet {number}");
    }
    let encoder = &encoder["applications"]["redundancy_encode"][0];
    let decoder = &decoder["applications"]["redundancy_decode"][0];
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap();
    assert_eq!(number(decoder, "decoded_packets"), number(encoder, "encoded_packets"));
    for zero in ["missed_packets", "integrity_failures", "malformed_packets", "waited_packets"] {
        assert_eq!(number(decoder, zero), 0, "{capture:?}: {decoder}");
    }
    (number(encoder, "in_bytes"), number(encoder, "out_bytes"))
}

/// Captures taken behind offloads have frames that no link carries; the number of ICMP errors for
/// them depends on time.
fn without_long_frames(from: &Path, to: &Path) {
    let mut reader = Reader::open(from).unwrap();
    let mut writer = None;
    while let Some(record) = reader.next_record().unwrap() {
        if record.data.len() <= 1514 {
            let writer = writer.get_or_insert_with(|| {
                Writer::create(to, record.link_type, Resolution::Nanos).unwrap()
            });
            writer.write(Duration::ZERO, record.data).unwrap();
        }
    }
    writer.unwrap().finish().unwrap();
}

#[test]
fn captures_come_out_as_from_plain_routers() {
    let data = std::env::var_os("WATTLINE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let Ok(entries) = std::fs::read_dir(data.join("captures")) else {
        wattline_needs::data("captures");
        return;
    };
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let saved_of = |(number, path): (usize, &PathBuf)| {
        let folder = tempfile::tempdir().unwrap();
        let short = folder.path().join("short.pcap");
        without_long_frames(path, &short);
        let selection = ["samplebyte", "maxp", "modp"][number % 3];
        let (before, after) = compare(&short, selection);
        let percent = 100.0 * (before - after) as f64 / before.max(1) as f64;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}, {selection}: {before} bytes, {percent:.2} % saved");
        before - after
    };
    let saved_of_all = |paths: &[PathBuf]| paths.iter().enumerate().map(saved_of).sum::<u64>();
    // Two at a time.
    let (one, other) = paths.split_at(paths.len() / 2);
    let saved = std::thread::scope(|scope| {
        let one = scope.spawn(|| saved_of_all(one));
        saved_of_all(other) + one.join().unwrap()
    });
    assert!(saved > 0, "nothing was encoded in any capture");
}

#[test]
fn content_that_comes_again_is_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    let mut writer = Writer::create(&path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    let mut state = 1u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(|_| byte()).collect()
    };
    let contents: Vec<Vec<u8>> = (0..20).map(|_| noise(1300)).collect();
    for number in 0..400u16 {
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
            .ipv4([192, 0, 2, 9], [203, 0, 113, 5], 64)
            .udp(1000 + number, 2000);
        let payload = [noise(20), contents[usize::from(number) % 20].clone()].concat();
        let mut frame = Vec::new();
        builder.write(&mut frame, &payload).unwrap();
        writer.write(Duration::from_micros(number.into()), &frame).unwrap();
    }
    writer.finish().unwrap();
    for selection in ["modp", "maxp", "samplebyte"] {
        let (before, after) = compare(&path, selection);
        let percent = 100 * (before - after) / before;
        println!("{selection}: {percent} % saved, of 92 that come again");
        assert!((85..92).contains(&percent), "{selection}: {percent} %");
    }
}

/// A port with an access list and a source check: both see the packets as before encoding.
#[test]
fn decoded_packets_are_judged_like_packets_that_were_never_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = folder.join("in.pcap");
    let mut writer = Writer::create(&path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    let content: Vec<u8> = (0..1300u32).map(|at| (at * at / 7 + at) as u8).collect();
    let mut frames = Vec::new();
    for number in 0..12u8 {
        // The last sources have no route back to the port.
        let source = if number < 9 { [192, 0, 2, 9] } else { [10, 0, 0, 9] };
        let mut source6 = [0; 16];
        source6[..6].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0x0a]);
        (source6[5], source6[15]) = if number < 9 { (0x0a, 9) } else { (0xff, 9) };
        let link = || etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1]);
        let mut destination6 = source6;
        destination6[5] = 0x99;
        let four = || link().ipv4(source, [203, 0, 113, 5], 64);
        let six = || link().ipv6(source6, destination6, 64);
        // In turn: UDP, telnet, another protocol.
        let mut write = |is_six: bool| {
            let mut frame = Vec::new();
            let payload = [&[number; 20][..], &content].concat();
            match (number % 3, is_six) {
                (0, false) => four().udp(4000, 5000).write(&mut frame, &payload).unwrap(),
                (0, true) => six().udp(4000, 5000).write(&mut frame, &payload).unwrap(),
                (1, false) => {
                    let seq = u32::from(number) * 2000;
                    four().tcp(4001, 23, seq, 1000).write(&mut frame, &payload).unwrap();
                }
                (1, true) => {
                    let seq = u32::from(number) * 2000;
                    six().tcp(4001, 23, seq, 1000).write(&mut frame, &payload).unwrap();
                }
                (_, false) => four().write(&mut frame, etherparse::IpNumber(99), &payload).unwrap(),
                (_, true) => six().write(&mut frame, etherparse::IpNumber(99), &payload).unwrap(),
            }
            frames.push(frame);
        };
        write(false);
        write(true);
    }
    for (number, frame) in frames.iter().enumerate() {
        writer.write(Duration::from_micros(number as u64), frame).unwrap();
    }
    writer.finish().unwrap();
    let filter = "[[acl]]\nname = \"no-telnet\"\non = [\"a\"]\naction = \"deny\"\nprotocol = \"tcp\"\n\
        destination_ports = 23\n[[acl]]\nname = \"udp\"\non = [\"a\"]\naction = \"permit\"\n\
        protocol = \"udp\"\n[urpf]\nstrict = [\"a\"]\n";
    let common = "feedback = false\nsecret = \"test\"\n";
    let encode = format!("[[redundancy]]\nrole = \"encode\"\nport = \"b\"\n{common}");
    let decode = format!("[[redundancy]]\nrole = \"decode\"\nport = \"a\"\n{common}{filter}");
    route(folder, &path, "plain-1.pcap", "");
    let plain = route(folder, &folder.join("plain-1.pcap"), "plain-2.pcap", filter);
    let encoder = route(folder, &path, "encoded.pcap", &encode);
    assert_eq!(encoder["applications"]["redundancy_encode"][0]["encoded_packets"], 23, "{encoder}");
    let decoder = route(folder, &folder.join("encoded.pcap"), "decoded.pcap", &decode);
    let (expected, found) =
        (read_capture(&folder.join("plain-2.pcap")), read_capture(&folder.join("decoded.pcap")));
    assert_eq!(expected.len(), 6, "UDP from the port's own side: {plain}");
    assert_eq!(found, expected, "{decoder}");
    assert_eq!(decoder["dropped"], plain["dropped"]);
}
