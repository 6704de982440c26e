//! A router between capture files that records flows.

use crate::program::{document, errors, wattline};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline_packet::ipv4::Ipv4Packet;
use wattline_packet::ipv6::Ipv6Header;
use wattline_packet::{FromBytes, protocol};
use wattline_traffic::capture::{LinkType, Resolution, Writer};

pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

const CONFIG: &str = r#"
[router]
socket = "SOCKET"
[[port]]
name = "a"
capture = { read = "in.pcap" }
addresses = ["192.0.2.1/24", "2001:db8:1::1/64"]
promiscuous = true
[[port]]
name = "b"
capture = { write = "out.pcap" }
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
mtu = 9000
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:12"
[[neighbour]]
address = "2001:db8:2::2"
mac = "02:00:00:00:00:12"
[[route]]
prefix = "::/0"
via = "2001:db8:2::2"
[[route]]
prefix = "203.0.113.0/25"
via = "198.51.100.2"
ROUTES
[flow_records]
"#;

/// Routes to everything but 100.64.0.0/10, without a default route, which would include it.
const ROUTES: [&str; 10] = [
    "0.0.0.0/2",
    "64.0.0.0/3",
    "96.0.0.0/6",
    "100.0.0.0/10",
    "100.128.0.0/9",
    "101.0.0.0/8",
    "102.0.0.0/7",
    "104.0.0.0/5",
    "112.0.0.0/4",
    "128.0.0.0/1",
];

/// A router and its files.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes a router that receives these frames.
    pub fn new(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        write(&folder.path("in.pcap"), frames);
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs it to the end; returns its account.
    pub fn run(&self, flow_records: &str) -> Value {
        self.run_with_log(flow_records).0
    }

    /// The same with its log.
    pub fn run_with_log(&self, flow_records: &str) -> (Value, String) {
        let socket = self.path("socket").display().to_string();
        let routes: String = ROUTES
            .iter()
            .map(|prefix| format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"198.51.100.2\"\n"))
            .collect();
        let config = CONFIG.replace("SOCKET", &socket).replace("ROUTES", &routes) + flow_records;
        std::fs::write(self.path("router.toml"), config).unwrap();
        let output = wattline(&["run", self.path("router.toml").to_str().unwrap(), "--json"]);
        (document(&output), errors(&output))
    }
}

/// Writes a capture.
pub fn write(path: &Path, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut writer = Writer::create(path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for (number, frame) in frames.into_iter().enumerate() {
        // Recently, so that no exporter takes the times for an error.
        let time = Duration::from_secs(1_700_000_000) + Duration::from_micros(number as u64);
        writer.write(time, &frame).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns true if this router forwards the frame: a whole, valid packet that is addressed neither
/// to the router nor to a group. Packets that a card merged before the capture are longer than a
/// frame.
pub fn is_forwarded(frame: &[u8]) -> bool {
    let packet = frame.get(14..).unwrap_or_default();
    let here = [[192, 0, 2], [198, 51, 100]];
    let sound = match packet.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4Packet::parse(packet).is_ok_and(|parsed| {
            let destination = parsed.header.destination.get().to_be_bytes();
            let unrouted = destination[0] == 100 && destination[1] & 0xc0 == 64;
            !parsed.header.is_fragment()
                && !here.contains(&[destination[0], destination[1], destination[2]])
                && !unrouted
        }),
        Some(6) => Ipv6Header::ref_from_prefix(packet).is_ok_and(|(header, _)| {
            header.total_length() <= packet.len() && header.next_header != protocol::HOP_BY_HOP
        }),
        _ => false,
    };
    sound && frame.len() <= 1514 && wattline_testbed::replay::is_transit(frame)
}

/// The frame up to the end of its IP packet: softflowd counts padding too, where Wattline and
/// nfpcapd count the packet.
pub fn without_padding(mut frame: Vec<u8>) -> Vec<u8> {
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let length = if frame[14] >> 4 == 4 { word(16) } else { 40 + word(18) };
    frame.truncate(14 + length);
    frame
}

/// Sets the IPv4 header's checksum.
pub fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    use wattline_packet::ipv4::Ipv4Header;
    if frame[14] >> 4 == 4 {
        let (header, _) = Ipv4Header::mut_from_prefix(&mut frame[14..]).unwrap();
        header.fill_checksum();
    }
    frame
}
