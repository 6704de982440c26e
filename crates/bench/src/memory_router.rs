//! A router between two memory rings on one core, with the measured nodes.
//!
//! The timed part is [`Worker::step`]: receive from a memory ring, all nodes, transmit into a
//! memory ring, counters. Outside of it, a [`Traffic`] writes new packets into a window of
//! [`WINDOW`] frames, and a check compares the number of packets out with the number in.

use crate::sample::median;
use ipnet::IpNet;
use quanta::Clock;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use wattline_dataplane::counters::Snapshot;
use wattline_dataplane::feature::Feature;
use wattline_dataplane::forwarding::PortConfig;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::PortId;
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::tap::slots::TapSlots;
use wattline_dataplane::worker::{Worker, WorkerParts};
use wattline_fib::routes_file::RoutesFileError;
use wattline_ports::memory::{DescriptorPeer, descriptor_ring};
use wattline_units::{Span, Time};

/// Frames in flight: eight batches, like the ring in the measurement of DPDK's l3fwd.
pub const WINDOW: usize = 512;
/// Windows per repeat. Tests use few, since they check the report and not its stability.
pub const ROUNDS: usize = if cfg!(test) { 16 } else { 64 };
/// Packets per repeat.
pub const PACKETS: usize = ROUNDS * WINDOW;
/// Longest frame of an Ethernet link, without FCS.
pub const LONGEST: usize = 1514;
/// Longest frame that a [`Traffic`] may write: the longest Ethernet frame inside a tunnel.
pub const ROOM: usize = LONGEST + 96;
/// Ethernet address of the ingress port.
pub const MAC_IN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MAC_OUT: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// MTU of both ports. It exceeds Ethernet's so that the longest packet may grow in a tunnel.
const MTU: u16 = 1800;
/// Number of chunks in the pool, twice a window. A ring holds one window.
const CHUNKS: u32 = 1024;
/// Bytes per chunk. Not a power of two: the headers would otherwise share few cache sets.
const CHUNK: u32 = 2048 + 64;
const HEADROOM: u32 = 128;
/// Number of neighbours over which routes are spread.
const NEIGHBOURS: u8 = 16;

/// Reasons why the benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of routes cannot be read, or has malformed lines.
    #[error(transparent)]
    Routes(RoutesFileError),
    /// The file of routes holds no IPv4 prefix.
    #[error("{0}: contains no IPv4 prefix: ADDRESS/LENGTH on a line is needed")]
    NoPrefixes(PathBuf),
    /// The capture cannot be read, or holds no forwardable packet.
    #[error("{0}")]
    Capture(String),
    /// The application does not exist.
    #[error("application `{name}` does not exist; known: {known}")]
    Unknown {
        /// Given name.
        name: String,
        /// Known names.
        known: String,
    },
    /// An argument is out of range.
    #[error("{what} is {value}: {allowed} is allowed")]
    Argument {
        /// Name of the argument.
        what: &'static str,
        /// Given value.
        value: usize,
        /// Allowed range.
        allowed: &'static str,
    },
    /// The tables refused the routes, or the nodes do not form a graph.
    #[error("{0}")]
    Table(String),
    /// The harness of a peer does not answer.
    #[error("{program}: {error}; `make -C bench/peers` builds it where its library is installed")]
    Peer {
        /// Path of the harness.
        program: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// A check on the measurement itself failed.
    #[error("the router lost packets that it should have forwarded: {0:?}")]
    Lost(Box<Snapshot>),
}

/// A source of packets.
pub trait Traffic {
    /// Writes the next frame, addressed to [`MAC_IN`], at the start of `chunk`. Returns its length
    /// without FCS, at most [`ROOM`].
    fn write(&mut self, chunk: &mut [u8]) -> usize;
}

/// Cycles per packet of one repeat.
pub struct Repeat {
    /// Cycles from receive to transmit.
    pub total: f64,
    /// Median of the windows. It excludes windows in which another program had the core, but also
    /// work that happens in few windows, such as the sweep at a tick.
    pub typical: f64,
    /// Cycles per packet of each graph node.
    pub nodes: Vec<f64>,
    /// Mean bytes per packet, FCS included.
    pub bytes: f64,
}

/// A router between two memory rings.
pub struct MemoryRouter {
    worker: Worker,
    ingress_ring: DescriptorPeer,
    egress_ring: DescriptorPeer,
    frames: Vec<Frame>,
    sent: Vec<Frame>,
    batch: usize,
    now: Time,
    // Held because readers use the tables that it publishes.
    _routes: Routes,
}

impl MemoryRouter {
    /// Creates a router with these prefixes, spread over a few neighbours at the egress port, and
    /// with the nodes of the applications. It processes up to `batch` frames at once.
    ///
    /// # Errors
    /// Fails when tables or graph refuse them.
    pub fn new<'a, P: Into<IpNet> + Copy + 'a>(
        prefixes: impl IntoIterator<Item = &'a P>,
        features: Vec<Feature>,
        batch: usize,
    ) -> Result<Self, Error> {
        let port = |mac| PortConfig { mac, ..PortConfig::default() };
        let mut routes = Routes::new(vec![port(MAC_IN), port(MAC_OUT)]);
        let refused = |error: &dyn std::fmt::Display| Error::Table(error.to_string());
        for (number, prefix) in prefixes.into_iter().enumerate() {
            // Scrambled, so that neighbouring prefixes do not lead to neighbouring next hops.
            let neighbour = (number.wrapping_mul(0x9e37_79b1) >> 8) as u8 % NEIGHBOURS;
            let next_hop = NextHop::Forward(Adjacency {
                port: PortId(1),
                mtu: MTU,
                link_mtu: MTU,
                destination_mac: [2, 0, 0, 0, 1, neighbour],
                source_mac: MAC_OUT,
                vlan: None,
                gateway: None,
                source: None,
            });
            routes.route((*prefix).into(), &next_hop).map_err(|error| refused(&error))?;
        }
        routes.publish().map_err(|errors| refused(&errors[0]))?;

        let mut pool = FramePool::zeroed(CHUNKS, CHUNK, HEADROOM);
        let frames: Vec<Frame> = std::iter::from_fn(|| pool.take_chunk())
            .take(WINDOW)
            .map(|chunk| Frame { offset: chunk + HEADROOM, length: 0, port_in: PortId(0) })
            .collect();
        let (port_in, ingress_ring) = descriptor_ring(PortId(0), WINDOW);
        let (port_out, egress_ring) = descriptor_ring(PortId(1), WINDOW);
        let (neighbours, _) = sync_channel(1);
        let router =
            RouterParts { punt: Box::new(Discard), neighbours, icmp_rate: 1000, icmp_burst: 50 };
        let ports: Vec<Box<dyn wattline_dataplane::port::PortQueue>> =
            vec![Box::new(port_in), Box::new(port_out)];
        let parts = WorkerParts { ports, pool, routes: routes.reader(), router };
        let worker =
            Worker::with_features(parts, features).map_err(|errors| refused(&errors[0]))?;
        worker.control().set_batch(batch);
        Ok(Self {
            worker,
            ingress_ring,
            egress_ring,
            sent: vec![Frame::default(); WINDOW],
            frames,
            batch,
            now: Time::ZERO,
            _routes: routes,
        })
    }

    /// Returns the names of the graph's nodes.
    pub fn names(&self) -> Vec<&'static str> {
        self.worker.graph().names()
    }

    /// Returns the slots for captures and traces of the worker.
    pub fn tap_slots(&self) -> TapSlots {
        self.worker.tap_slots()
    }

    /// Returns the number of chunks of the worker's memory.
    pub fn chunks(&self) -> u32 {
        CHUNKS
    }

    /// Forwards [`PACKETS`] packets.
    ///
    /// # Errors
    /// Fails when packets are missing at the output.
    pub fn repeat(&mut self, clock: &Clock, traffic: &mut dyn Traffic) -> Result<Repeat, Error> {
        let before = self.worker.counters().snapshot();
        let (mut windows, mut bytes) = ([0.0; ROUNDS], 0);
        for window in &mut windows {
            bytes += self.fill(traffic);
            let start = clock.raw();
            for _ in 0..WINDOW.div_ceil(self.batch) {
                self.now += Span::from_micros(1);
                self.worker.step(self.now);
            }
            *window = clock.raw().wrapping_sub(start) as f64;
            let sent = self.egress_ring.pop(&mut self.sent);
            if sent != WINDOW {
                return Err(Error::Lost(Box::new(self.worker.counters().snapshot())));
            }
            // The next window reuses the chunks of the transmitted packets, since an application
            // may have moved a packet to another chunk.
            for (frame, sent) in self.frames.iter_mut().zip(&self.sent) {
                frame.offset = sent.offset - sent.offset % CHUNK + HEADROOM;
            }
        }
        let packets = PACKETS as f64;
        let after = self.worker.counters().snapshot();
        // Only some frames of a node are timed; their mean is scaled to all frames of the node.
        let nodes = before.nodes.iter().zip(&after.nodes).map(|(a, b)| {
            let timed = (b.timed_frames - a.timed_frames).max(1) as f64;
            (b.cycles - a.cycles) as f64 / timed * (b.frames - a.frames) as f64 / packets
        });
        Ok(Repeat {
            total: windows.iter().sum::<f64>() / packets,
            typical: median(&mut windows) / WINDOW as f64,
            nodes: nodes.collect(),
            bytes: bytes as f64 / packets,
        })
    }

    /// Writes new packets into the window and hands it to the ingress ring; returns their bytes.
    fn fill(&mut self, traffic: &mut dyn Traffic) -> usize {
        let mut bytes = 0;
        for frame in &mut self.frames {
            frame.length = ROOM as u16;
            let length = traffic.write(self.worker.pool().frame_bytes(frame)).min(ROOM);
            frame.length = length as u16;
            bytes += length + 4;
        }
        self.ingress_ring.push(&self.frames);
        bytes
    }
}

/// Returns a frame of this length with UDP ports and zeros, but without its IPv4 header.
pub fn udp_template(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..6].copy_from_slice(&MAC_IN);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 1, 255]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[34..38].copy_from_slice(&[0x30, 0x39, 0x00, 0x35]);
    let udp_length = (length - 34) as u16;
    bytes[38..40].copy_from_slice(&udp_length.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_packet::IntoBytes;
    use wattline_packet::ipv4::Ipv4Header;

    struct Same(Vec<u8>);

    impl Traffic for Same {
        fn write(&mut self, chunk: &mut [u8]) -> usize {
            chunk[..self.0.len()].copy_from_slice(&self.0);
            self.0.len()
        }
    }

    fn repeat(destination: u32) -> Result<Repeat, Error> {
        let mut frame = udp_template(60);
        frame[14..34].copy_from_slice(Ipv4Header::udp(46, 0xc000_0209, destination).as_bytes());
        let prefix: IpNet = "192.0.2.0/24".parse().unwrap();
        let mut router = MemoryRouter::new(&[prefix], Vec::new(), 64).unwrap();
        router.repeat(&Clock::new(), &mut Same(frame))
    }

    #[test]
    fn counts_bytes_and_fails_when_packets_are_lost() {
        assert_eq!(repeat(0xc000_0201).unwrap().bytes, 64.0);
        assert!(matches!(repeat(0xcb00_7101), Err(Error::Lost(_))));
    }
}
