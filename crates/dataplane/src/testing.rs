//! Test helpers for nodes, here and in the crates of applications: frames, a bench for single
//! nodes, a port, a router.
#![allow(missing_docs, clippy::new_without_default, reason = "for tests alone")]

use crate::counters::{Snapshot, WorkerCounters};
use crate::feature::Feature;
use crate::forwarding::{PortConfig, VlanConfig};
use crate::frame::{Frame, FramePool};
use crate::graph::{Context, Edge, Node};
use crate::next_hop::{Adjacency, NextHop};
use crate::nodes::{NeighbourRequest, RouterParts};
use crate::packet::Packet;
use crate::port::{PortCounters, PortId, PortQueue};
use crate::punt::Discard;
use crate::routes::Routes;
use crate::source_addresses::SourceAddress;
use crate::worker::{Worker, WorkerParts};
use ipnet::IpNet;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use wattline_packet::mss::Limit;
use wattline_units::{Span, Time};

pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const MAC_NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 1, 2];
const MAC_SENDER: [u8; 6] = [2, 0, 0, 0, 1, 1];
const UDP: u8 = 17;
const CHUNK: u32 = 2048;
const CHUNKS: u32 = 64;

pub fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Returns a frame from 192.0.2.9 to 203.0.113.5; the first bytes of the payload are the UDP ports.
pub fn frame4(to: [u8; 6], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0, 0, ttl, UDP, 0, 0, 192, 0, 2, 9, 203, 0, 113, 5];
    let mut bytes = [&to[..], &MAC_SENDER, &[8, 0], &header, payload].concat();
    fix_checksum(&mut bytes);
    bytes
}

/// [`frame4`] with a VLAN tag.
pub fn frame4_vlan(to: [u8; 6], vlan: u8) -> Vec<u8> {
    let mut bytes = frame4(to, 64, b"payload");
    bytes.splice(12..12, [0x81, 0, 0, vlan]);
    bytes
}

/// Returns a frame from 2001:db8:1::9 to 2001:db8:3::5.
pub fn frame6(to: [u8; 6], hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let header = [0x60, 0, 0, 0, high, low, UDP, hop_limit];
    let (from, at) = (address("2001:db8:1::9"), address("2001:db8:3::5"));
    [&to[..], &MAC_SENDER, &[0x86, 0xdd], &header, &from, &at, payload].concat()
}

/// Returns an untagged IPv4 frame with an option of four bytes.
pub fn with_option(mut frame: Vec<u8>, option: [u8; 4]) -> Vec<u8> {
    frame[14] = 0x46;
    frame.splice(34..34, option);
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    fix_checksum(&mut frame);
    frame
}

/// Corrects the checksum of an untagged IPv4 frame, or of one of [`with_option`]. It sums the words
/// itself, so that the data plane's checksum is tested against another.
pub fn fix_checksum(frame: &mut [u8]) {
    let end = if frame[14] == 0x46 { 38 } else { 34 };
    let words = frame[14..24].chunks(2).chain(frame[26..end].chunks(2));
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

pub fn ports() -> Vec<PortConfig> {
    vec![
        PortConfig {
            mac: MAC_A,
            promiscuous: false,
            is_virtual: false,
            addresses: vec![net("192.0.2.1/24"), net("2001:db8:1::1/64")],
            vlans: vec![VlanConfig { id: 7, addresses: vec![net("192.0.7.1/24")] }],
            segments: None,
        },
        PortConfig {
            mac: MAC_B,
            promiscuous: false,
            is_virtual: false,
            addresses: vec![net("198.51.100.1/24"), net("2001:db8:2::1/64")],
            vlans: vec![],
            segments: Some(Limit { mtu: 1400, ..Limit::NONE }),
        },
    ]
}

pub fn pool() -> FramePool {
    FramePool::zeroed(CHUNKS, CHUNK, 128)
}

/// Returns the routes for two ports: 203.0.113.0/24 and 2001:db8:3::/48 through port 1, the sources
/// through port 0.
pub fn routes() -> Routes {
    let mut routes = Routes::new(ports());
    for prefix in ["203.0.113.0/24", "2001:db8:3::/48"] {
        routes.route(net(prefix), &Bench::forward(1)).unwrap();
    }
    for prefix in ["192.0.2.0/24", "2001:db8:1::/64"] {
        routes.route(net(prefix), &Bench::forward(0)).unwrap();
    }
    routes.set_source_addresses(sources());
    routes.publish().unwrap();
    routes
}

/// Returns the addresses of the ports and of their VLANs.
fn sources() -> Vec<SourceAddress> {
    let on = |port: usize, vlan, addresses: &[IpNet]| {
        let interface = Some((PortId(port as u16), vlan));
        let own =
            |address: &IpNet| SourceAddress { address: *address, interface, deprecated: false };
        addresses.iter().map(own).collect::<Vec<_>>()
    };
    let of_port = |(port, config): (usize, &PortConfig)| {
        let vlans = config.vlans.iter().flat_map(|vlan| on(port, vlan.id, &vlan.addresses));
        on(port, 0, &config.addresses).into_iter().chain(vlans).collect::<Vec<_>>()
    };
    ports().iter().enumerate().flat_map(of_port).collect()
}

/// The environment of a single node.
pub struct Bench {
    pub routes: Routes,
    pub context: Context,
}

impl Bench {
    pub fn new() -> Self {
        let routes = routes();
        let counters = Arc::new(WorkerCounters::new(vec!["test"], 2));
        let context = Context::new(pool(), routes.reader(), counters, 2);
        Self { routes, context }
    }

    pub fn promiscuous(&mut self) {
        let mut ports = ports();
        ports[0].promiscuous = true;
        self.routes.set_ports(ports);
        self.routes.publish().unwrap();
    }

    pub fn forward(port: u16) -> NextHop {
        Self::forward_mtu(port, 1500)
    }

    pub fn forward_mtu(port: u16, mtu: u16) -> NextHop {
        NextHop::Forward(Adjacency {
            port: PortId(port),
            mtu,
            link_mtu: mtu,
            destination_mac: MAC_NEIGHBOUR,
            source_mac: [MAC_A, MAC_B][usize::from(port)],
            vlan: None,
            gateway: None,
            source: None,
        })
    }

    pub fn forward_vlan(port: u16, vlan: u16) -> NextHop {
        let NextHop::Forward(mut adjacency) = Self::forward(port) else { unreachable!() };
        adjacency.vlan = Some(vlan);
        NextHop::Forward(adjacency)
    }

    /// Returns a packet as received on port 0.
    pub fn packet(&mut self, bytes: &[u8]) -> Packet {
        let frame = fill(&mut self.context.pool, bytes, PortId(0)).unwrap();
        Packet::new(frame)
    }

    /// Returns a packet with a next hop.
    pub fn packet_via(&mut self, bytes: &[u8], next_hop: &NextHop) -> Packet {
        let id = self.routes.acquire(next_hop).unwrap();
        self.routes.publish().unwrap();
        Packet { next_hop: id, ..self.packet(bytes) }
    }

    pub fn process(&mut self, node: &mut dyn Node, packet: Packet) -> (Edge, Packet) {
        let mut packets = [packet];
        let mut edges = [0];
        node.process(&mut self.context, &mut packets, &mut edges);
        (edges[0], packets[0])
    }

    pub fn spawned(&mut self) -> Vec<(Edge, Packet)> {
        self.context.take_spawned()
    }

    pub fn bytes(&mut self, packet: &Packet) -> Vec<u8> {
        self.context.pool.frame_bytes(&packet.frame).to_vec()
    }
}

fn fill(pool: &mut FramePool, bytes: &[u8], port_in: PortId) -> Option<Frame> {
    let offset = pool.take_chunk()? + pool.headroom();
    let frame = Frame { offset, length: bytes.len() as u16, port_in };
    pool.frame_bytes(&frame).copy_from_slice(bytes);
    Some(frame)
}

/// A port with input and output frames of the test.
#[derive(Clone, Default)]
pub struct TestPort {
    pub number: PortId,
    pub input: Arc<Mutex<VecDeque<Vec<u8>>>>,
    pub output: Arc<Mutex<Vec<Vec<u8>>>>,
    pub limit: Option<usize>,
    pub counters: PortCounters,
}

impl TestPort {
    pub fn new(number: u16) -> Self {
        Self { number: PortId(number), ..Self::default() }
    }

    pub fn send(&self, frame: &[u8]) {
        self.input.lock().unwrap().push_back(frame.to_vec());
    }

    pub fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.output.lock().unwrap())
    }
}

impl PortQueue for TestPort {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let mut input = self.input.lock().unwrap();
        let mut count = 0;
        while count < frames.len() && pool.free_chunks() > 0 {
            let Some(bytes) = input.pop_front() else { break };
            frames[count] = fill(pool, &bytes, self.number).unwrap();
            self.counters.received_packets += 1;
            self.counters.received_bytes += bytes.len() as u64;
            count += 1;
        }
        count
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        let count = frames.len().min(self.limit.unwrap_or(usize::MAX));
        for frame in &frames[..count] {
            self.output.lock().unwrap().push(pool.frame_bytes(frame).to_vec());
            self.counters.transmitted_packets += 1;
            self.counters.transmitted_bytes += u64::from(frame.length);
            pool.free(frame.offset);
        }
        count
    }

    fn flush(&mut self, _pool: &mut FramePool) {}

    fn recycle(&mut self, _pool: &mut FramePool) {}

    fn pending(&mut self) -> usize {
        self.input.lock().unwrap().len()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// The whole router between two test ports.
pub struct Router {
    pub worker: Worker,
    pub ports: [TestPort; 2],
    pub routes: Routes,
    pub requests: Receiver<NeighbourRequest>,
    pub now: Time,
    pub chunks: usize,
}

impl Router {
    pub fn new() -> Self {
        Self::with_transmit_limit(None)
    }

    pub fn with_transmit_limit(limit: Option<usize>) -> Self {
        Self::build(limit, Vec::new())
    }

    pub fn with_features(features: Vec<Feature>) -> Self {
        Self::build(None, features)
    }

    fn build(limit: Option<usize>, features: Vec<Feature>) -> Self {
        let ports = [TestPort::new(0), TestPort { limit, ..TestPort::new(1) }];
        let routes = routes();
        let (neighbours, requests) = sync_channel(64);
        let router =
            RouterParts { punt: Box::new(Discard), neighbours, icmp_rate: 1000, icmp_burst: 50 };
        let pool = pool();
        let chunks = pool.free_chunks();
        let parts = WorkerParts {
            ports: ports.iter().map(|port| Box::new(port.clone()) as _).collect(),
            pool,
            routes: routes.reader(),
            router,
        };
        let worker = Worker::with_features(parts, features).unwrap();
        Self { worker, ports, routes, requests, now: Time::ZERO, chunks }
    }

    /// Steps until no work is left.
    pub fn settle(&mut self) -> Snapshot {
        loop {
            self.now += Span::from_millis(1);
            if self.worker.step(self.now) == 0 {
                break;
            }
        }
        let snapshot = self.worker.counters().snapshot();
        assert!(snapshot.is_conserved(), "{snapshot:?}");
        assert_eq!(snapshot.frees_refused, 0, "a chunk was freed twice");
        assert_eq!(self.worker.free_chunks() + snapshot.held as usize, self.chunks, "leak");
        snapshot
    }
}
