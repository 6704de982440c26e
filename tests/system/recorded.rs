//! Flows as sent, and as a router exports them to nfcapd.

use crate::harness::terminate;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_needs::KillOnDrop;
use wattline_testbed::command;
use wattline_testbed::namespace::Namespace;

const LIMIT: Duration = Duration::from_secs(60);
/// Port of a [`Collector`], on the loopback interface of its namespace.
pub const PORT: u16 = 4739;

/// Protocol, source and destination; the ports are 0 if the protocol has none.
pub type Flow = (u8, IpAddr, u16, IpAddr, u16);
/// Packets and bytes by flow.
pub type Flows = BTreeMap<Flow, [u64; 2]>;

/// Returns the flows that a recorder has to find in frames.
pub fn flows(frames: &[Vec<u8>]) -> Flows {
    let mut flows = Flows::new();
    for frame in frames {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let (protocol, source, destination, bytes): (u8, IpAddr, IpAddr, u64) = match packet.net {
            Some(NetSlice::Ipv4(ip)) => {
                let header = ip.header();
                let (from, to) = (header.source_addr(), header.destination_addr());
                (header.protocol().0, from.into(), to.into(), header.total_len().into())
            }
            Some(NetSlice::Ipv6(ip)) => {
                let header = ip.header();
                let (from, to) = (header.source_addr(), header.destination_addr());
                let bytes = 40 + u64::from(header.payload_length());
                (header.next_header().0, from.into(), to.into(), bytes)
            }
            _ => panic!("no IP: {frame:02x?}"),
        };
        let [from, to] = match packet.transport {
            Some(TransportSlice::Tcp(tcp)) => [tcp.source_port(), tcp.destination_port()],
            Some(TransportSlice::Udp(udp)) => [udp.source_port(), udp.destination_port()],
            _ => [0, 0],
        };
        let counts = flows.entry((protocol, source, from, destination, to)).or_default();
        counts[0] += 1;
        counts[1] += bytes;
    }
    flows
}

/// An nfcapd process in a namespace; killed when it goes out of scope.
pub struct Collector {
    child: KillOnDrop,
    folder: tempfile::TempDir,
}

impl Collector {
    pub fn start(namespace: &Namespace) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut nfcapd = namespace.command("nfcapd");
        nfcapd.args(["-b", "127.0.0.1", "-p", &PORT.to_string(), "-B", "4000000", "-w"]);
        nfcapd.arg(folder.path());
        nfcapd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let collector = Self { child: KillOnDrop(command::spawn(&mut nfcapd).unwrap()), folder };
        let listening = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            namespace.run("ss", &["-Hlun"], LIMIT).unwrap().contains(&format!(":{PORT}"))
        });
        assert!(listening, "nfcapd does not listen");
        collector
    }

    /// Waits for the last records, and returns the exported flows.
    pub fn stop(mut self) -> Flows {
        std::thread::sleep(Duration::from_millis(500));
        terminate(&self.child, Signal::TERM);
        self.child.wait().unwrap();
        let mut nfdump = Command::new("nfdump");
        nfdump.arg("-R").arg(self.folder.path());
        nfdump.args(["-q", "-6", "-N", "-o", "fmt:%pr,%sa,%sp,%da,%dp,%pkt,%byt"]);
        let text = command::run(&mut nfdump, LIMIT).unwrap();
        let mut flows = Flows::new();
        for line in text.lines().filter(|line| line.contains(',')) {
            let words: Vec<_> = line.split(',').map(str::trim).collect();
            let [protocol, source, from, destination, to, packets, bytes] = words[..] else {
                panic!("{line}")
            };
            let protocol = protocol.parse().unwrap();
            // For ICMP, the fields of the ports hold type and code.
            let port = |text: &str| match protocol {
                6 | 17 => text.parse().unwrap(),
                _ => 0,
            };
            let address = |text: &str| text.parse::<IpAddr>().unwrap();
            let flow = (protocol, address(source), port(from), address(destination), port(to));
            let counts = flows.entry(flow).or_default();
            counts[0] += packets.parse::<u64>().unwrap();
            counts[1] += bytes.parse::<u64>().unwrap();
        }
        flows
    }
}
