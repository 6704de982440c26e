//! `wattline bench pipeline`: the whole IPv4 graph between two memory ports on one core.
//!
//! # What is timed
//! [`Worker::step`]: receive from a memory ring, all nodes, transmit into a memory
//! ring, counters. Outside of it, the generator writes new packets into the frames of
//! the ring (a window of [`WINDOW`] frames, as DPDK's l3fwd was measured over a ring of
//! 512), each with a fresh destination, so that lookups find no warm path, and checks
//! that what was sent is as much as was given. Destinations are a random host of a random
//! prefix ("routed-random"). Cycles are those of the time-stamp counter.

use super::calibration::{Calibration, spin};
use ipnet::{IpNet, Ipv4Net};
use quanta::Clock;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use wattline_dataplane::counters::Snapshot;
use wattline_dataplane::forwarding::PortConfig;
use wattline_dataplane::frame::{BATCH_MAX, Frame, FramePool};
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::PortId;
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::worker::{Worker, WorkerParts};
use wattline_packet::ipv4::{AddressKind, Ipv4Header, kind_of};
use wattline_packet::{IntoBytes, protocol};
use wattline_ports::memory::{DescriptorPeer, descriptor_ring};
use wattline_units::{Span, Time};

/// Frames in flight: eight batches.
const WINDOW: usize = 512;
/// Rings hold a window, and the pool twice that.
const CHUNKS: u32 = 1024;
/// Not a power of two: else the headers of all frames would share few cache sets.
const CHUNK: u32 = 2048 + 64;
const HEADROOM: u32 = 128;
/// Windows per repeat.
const ROUNDS: usize = 64;
/// Destinations drawn beforehand; more than any cache of the lookup path remembers.
const DESTINATIONS: usize = 1 << 20;
/// Neighbours that routes without a next hop are spread over.
const NEIGHBOURS: u8 = 16;
const MAC_IN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MAC_OUT: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// What to measure.
#[derive(Debug, Clone)]
pub struct Args {
    /// A prefix per line; what follows on a line is ignored, IPv6 too.
    pub routes: PathBuf,
    /// Length of a frame in bytes with its FCS, 64 to 1518.
    pub packet_size: usize,
    /// Frames per batch, 1 to 64.
    pub batch: usize,
    /// Measurements, of which the median counts.
    pub repeats: usize,
}

impl Default for Args {
    fn default() -> Self {
        Self { routes: PathBuf::new(), packet_size: 64, batch: BATCH_MAX, repeats: 31 }
    }
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Packets per second: the clock's rate by the median cycles.
    pub rate_pps: f64,
    /// Median over the repeats.
    pub cycles_per_packet: f64,
    /// The fastest repeat.
    pub cycles_per_packet_min: f64,
    /// The slowest repeat.
    pub cycles_per_packet_max: f64,
    /// Medians of the nodes, and of what is outside of them.
    pub nodes: Vec<Node>,
    /// IPv4 prefixes in the table.
    pub routes: usize,
    /// As asked for.
    pub packet_size_bytes: usize,
    /// As asked for.
    pub batch: usize,
    /// As asked for.
    pub repeats: usize,
    /// Packets per repeat.
    pub packets: usize,
    /// Rate of the time-stamp counter.
    pub clock_hertz: f64,
    /// The machine's speed before and after.
    pub calibration: Calibration,
    /// What the figures hold and what not.
    pub timed: &'static str,
}

/// Cycles of one node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Its name in the graph; `ports and loop` is receive, transmit and the worker.
    pub name: String,
    /// Median over the repeats.
    pub cycles_per_packet: f64,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Open {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Lines that are no prefixes, at most ten of them named.
    #[error("{file}: {}", .lines.join("; "))]
    Routes {
        /// Which file.
        file: PathBuf,
        /// Line numbers and what is wrong with each.
        lines: Vec<String>,
    },
    /// An argument out of range.
    #[error("{what} is {value}: {allowed} is allowed")]
    Argument {
        /// Which.
        what: &'static str,
        /// What it is.
        value: usize,
        /// What it may be.
        allowed: &'static str,
    },
    /// The tables refused the routes.
    #[error("{0}")]
    Table(String),
    /// A check on the measurement itself failed.
    #[error("the router lost packets that it should have forwarded: {0:?}")]
    Lost(Box<Snapshot>),
}

/// Builds the router, warms it up and measures it.
///
/// # Errors
/// Unusable arguments or routes, or packets that were not forwarded.
pub fn run(args: &Args) -> Result<Report, Error> {
    check(args)?;
    let prefixes = read_prefixes(&args.routes)?;
    let mut bench = Bench::new(args, &prefixes)?;
    let clock = Clock::new();
    let (before, started, first) = (spin(&clock), Instant::now(), clock.raw());
    bench.repeat(&clock)?;
    let repeats = (0..args.repeats).map(|_| bench.repeat(&clock)).collect::<Result<Vec<_>, _>>()?;
    let clock_hertz = clock.raw().wrapping_sub(first) as f64 / started.elapsed().as_secs_f64();
    let calibration = Calibration::new(before, spin(&clock));

    let mut cycles: Vec<f64> = repeats.iter().map(|repeat| repeat.total).collect();
    let cycles_per_packet = median(&mut cycles);
    let names = bench.worker.graph().names();
    let mut nodes = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut values: Vec<f64> = repeats.iter().map(|repeat| repeat.nodes[number]).collect();
        nodes.push(Node { name: (*name).to_owned(), cycles_per_packet: median(&mut values) });
    }
    nodes.retain(|node| node.cycles_per_packet > 0.0);
    let mut rest: Vec<f64> =
        repeats.iter().map(|repeat| repeat.total - repeat.nodes.iter().sum::<f64>()).collect();
    nodes.push(Node { name: "ports and loop".to_owned(), cycles_per_packet: median(&mut rest) });
    Ok(Report {
        rate_pps: clock_hertz / cycles_per_packet,
        cycles_per_packet,
        // Sorted by `median`.
        cycles_per_packet_min: cycles[0],
        cycles_per_packet_max: cycles[cycles.len() - 1],
        nodes,
        routes: prefixes.len(),
        packet_size_bytes: args.packet_size,
        batch: args.batch,
        repeats: args.repeats,
        packets: ROUNDS * WINDOW,
        clock_hertz,
        calibration,
        timed: "receive, graph and transmit between memory rings; the generator's refill of \
                the frames is outside",
    })
}

fn check(args: &Args) -> Result<(), Error> {
    let range = |what, value, range: std::ops::RangeInclusive<usize>, allowed| {
        if range.contains(&value) { Ok(()) } else { Err(Error::Argument { what, value, allowed }) }
    };
    range("packet size", args.packet_size, 64..=1518, "64 to 1518")?;
    range("batch", args.batch, 1..=BATCH_MAX, "1 to 64")?;
    range("number of repeats", args.repeats, 1..=10_000, "1 to 10000")
}

fn read_prefixes(file: &Path) -> Result<Vec<Ipv4Net>, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::Open { file: file.to_owned(), error })?;
    let (mut prefixes, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let Some(word) = line.split_whitespace().next().filter(|word| !word.starts_with('#'))
        else {
            continue;
        };
        match word.parse::<IpNet>() {
            Ok(IpNet::V4(prefix)) => prefixes.push(prefix),
            Ok(IpNet::V6(_)) => {}
            Err(_) if wrong.len() < 10 => wrong.push(format!(
                "line {}: `{word}` is no prefix; ADDRESS/LENGTH is allowed",
                number + 1
            )),
            Err(_) => {}
        }
    }
    if prefixes.is_empty() && wrong.is_empty() {
        wrong.push("there is no IPv4 prefix in it".to_owned());
    }
    if wrong.is_empty() {
        Ok(prefixes)
    } else {
        Err(Error::Routes { file: file.to_owned(), lines: wrong })
    }
}

/// Sorts, and gives back the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Cycles per packet of one repeat.
struct Repeat {
    total: f64,
    nodes: Vec<f64>,
}

struct Bench {
    worker: Worker,
    way_in: DescriptorPeer,
    way_out: DescriptorPeer,
    /// Where the frames of the window begin; they differ after forwarding by nothing.
    frames: Vec<Frame>,
    sent: Vec<Frame>,
    template: Vec<u8>,
    destinations: Vec<u32>,
    next: usize,
    batch: usize,
    now: Time,
    // The readers look at what it publishes.
    _routes: Routes,
}

impl Bench {
    fn new(args: &Args, prefixes: &[Ipv4Net]) -> Result<Self, Error> {
        let port = |mac| PortConfig { mac, ..PortConfig::default() };
        let mut routes = Routes::new(vec![port(MAC_IN), port(MAC_OUT)]);
        let refused = |error: &dyn std::fmt::Display| Error::Table(error.to_string());
        for (number, prefix) in prefixes.iter().enumerate() {
            // Scrambled, so that neighbouring prefixes do not lead to neighbouring hops.
            let neighbour = (number.wrapping_mul(0x9e37_79b1) >> 8) as u8 % NEIGHBOURS;
            let next_hop = NextHop::Forward(Adjacency {
                port: PortId(1),
                mtu: 1500,
                destination_mac: [2, 0, 0, 0, 1, neighbour],
                source_mac: MAC_OUT,
                vlan: None,
            });
            routes.route((*prefix).into(), &next_hop).map_err(|error| refused(&error))?;
        }
        routes.publish().map_err(|errors| refused(&errors[0]))?;

        let mut pool =
            FramePool::new(Box::new(vec![0u8; (CHUNK * CHUNKS) as usize]), CHUNK, HEADROOM);
        // One frame after the other without its FCS.
        let length = (args.packet_size - 4) as u16;
        let frames: Vec<Frame> = std::iter::from_fn(|| pool.take_chunk())
            .take(WINDOW)
            .map(|chunk| Frame { offset: chunk + HEADROOM, length, port_in: PortId(0) })
            .collect();
        let (port_in, way_in) = descriptor_ring(PortId(0), WINDOW);
        let (port_out, way_out) = descriptor_ring(PortId(1), WINDOW);
        let (neighbours, _) = sync_channel(1);
        let worker = Worker::new(WorkerParts {
            ports: vec![Box::new(port_in), Box::new(port_out)],
            pool,
            routes: routes.reader(),
            router: RouterParts {
                punt: Box::new(Discard),
                neighbours,
                icmp_rate: 1000,
                icmp_burst: 50,
            },
        })
        .map_err(|errors| refused(&errors[0]))?;
        worker.control().set_batch(args.batch);
        Ok(Self {
            worker,
            way_in,
            way_out,
            sent: vec![Frame::default(); WINDOW],
            frames,
            template: template(usize::from(length)),
            destinations: draw(prefixes),
            next: 0,
            batch: args.batch,
            now: Time::ZERO,
            _routes: routes,
        })
    }

    fn repeat(&mut self, clock: &Clock) -> Result<Repeat, Error> {
        let before = self.worker.counters().snapshot();
        let mut cycles = 0;
        for _ in 0..ROUNDS {
            self.fill();
            let start = clock.raw();
            for _ in 0..WINDOW.div_ceil(self.batch) {
                self.now += Span::from_micros(1);
                self.worker.step(self.now);
            }
            cycles += clock.raw().wrapping_sub(start);
            let sent = self.way_out.pop(&mut self.sent);
            if sent != WINDOW {
                return Err(Error::Lost(Box::new(self.worker.counters().snapshot())));
            }
        }
        let packets = (ROUNDS * WINDOW) as f64;
        let after = self.worker.counters().snapshot();
        let nodes = before.nodes.iter().zip(&after.nodes).map(|(a, b)| {
            // Nodes that nothing came to were not timed.
            (b.cycles - a.cycles) as f64 / (b.timed_frames - a.timed_frames).max(1) as f64
        });
        Ok(Repeat { total: cycles as f64 / packets, nodes: nodes.collect() })
    }

    /// Writes new packets into the window and gives it to the way in.
    fn fill(&mut self) {
        for frame in &self.frames {
            let destination = self.destinations[self.next % DESTINATIONS];
            self.next += 1;
            let bytes = self.worker.pool().frame_bytes(frame);
            bytes.copy_from_slice(&self.template);
            let header = header(self.template.len() - 14, destination);
            bytes[14..34].copy_from_slice(header.as_bytes());
        }
        self.way_in.push(&self.frames);
    }
}

/// A frame with UDP ports and zeros; the IPv4 header is filled in later.
fn template(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..6].copy_from_slice(&MAC_IN);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 1, 255]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[34..38].copy_from_slice(&[0x30, 0x39, 0x00, 0x35]);
    let udp_length = (length - 34) as u16;
    bytes[38..40].copy_from_slice(&udp_length.to_be_bytes());
    bytes
}

fn header(length: usize, destination: u32) -> Ipv4Header {
    let mut header = Ipv4Header {
        version_ihl: 0x45,
        service: 0,
        total_length: (length as u16).into(),
        identification: 0.into(),
        fragment: 0.into(),
        ttl: 64,
        protocol: protocol::UDP,
        checksum: 0.into(),
        source: 0xc000_0209.into(),
        destination: destination.into(),
    };
    header.fill_checksum();
    header
}

/// A random host of a random prefix, so many times; the same in every run.
fn draw(prefixes: &[Ipv4Net]) -> Vec<u32> {
    let mut random = SmallRng::seed_from_u64(1);
    let mut destinations = Vec::with_capacity(DESTINATIONS);
    // A table of nothing but martians would never fill it: then they do.
    for attempt in 0.. {
        if destinations.len() == DESTINATIONS {
            break;
        }
        let prefix = prefixes[random.random_range(0..prefixes.len())];
        let host = random.random::<u32>() & u32::from(prefix.hostmask());
        let address = u32::from(prefix.network()) | host;
        if kind_of(address) == AddressKind::Unicast || attempt > 4 * DESTINATIONS {
            destinations.push(address);
        }
    }
    destinations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn measures_what_is_forwarded() {
        let file = file("# a comment\n192.0.2.0/24 gateway\n2001:db8::/32\n198.51.100.0/24\n");
        let routes = file.path().to_owned();
        let args = Args { routes, repeats: 2, ..Args::default() };
        let report = run(&args).unwrap();
        assert_eq!(report.routes, 2);
        assert!(report.cycles_per_packet > 0.0 && report.rate_pps > 0.0);
        let names: Vec<_> = report.nodes.iter().map(|node| node.name.as_str()).collect();
        let expected = ["ethernet-input", "ip4-input", "ip4-lookup", "ip4-rewrite", "output"];
        assert_eq!(names[..5], expected);
    }

    #[test]
    fn all_wrong_lines_are_named() {
        let file = file("192.0.2.0/24\nnonsense\n192.0.2.0/33\n");
        let error = read_prefixes(file.path()).unwrap_err().to_string();
        assert!(error.contains("line 2: `nonsense`") && error.contains("line 3"), "{error}");
        let args = Args { packet_size: 63, ..Args::default() };
        assert!(run(&args).unwrap_err().to_string().contains("64 to 1518"));
        let missing = Args { routes: "/nowhere".into(), ..Args::default() };
        assert!(matches!(run(&missing), Err(Error::Open { .. })));
    }
}
