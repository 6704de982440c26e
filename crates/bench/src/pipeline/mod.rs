//! `wattline bench pipeline`: the whole IPv4 graph between two memory ports on one core.
//!
//! # What is timed
//! See [`crate::memory_router`]. Each packet has a new destination, a random host of a random
//! prefix ("routed-random"), so that lookups find no warm path. Cycles are ticks of the time-stamp
//! counter.

mod page;

pub use page::page;

use crate::calibration::{Calibration, spin};
pub use crate::memory_router::Error;
use crate::memory_router::{MemoryRouter, PACKETS, Traffic, udp_template};
use crate::prefixes::read_ipv4;
use crate::sample::median;
use ipnet::Ipv4Net;
use quanta::Clock;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_packet::IntoBytes;
use wattline_packet::ipv4::{AddressKind, Ipv4Header, kind_of};

/// Number of destinations drawn beforehand; more than the caches of the lookup path can hold.
const DESTINATIONS: usize = 1 << 20;
/// Source address of all packets.
const SOURCE: u32 = 0xc000_0209;

/// Arguments of the benchmark.
#[derive(Debug, Clone)]
pub struct Args {
    /// File of routes, one prefix per line; the rest of a line and IPv6 prefixes are ignored.
    pub routes: PathBuf,
    /// Length of a frame in bytes with its FCS, 64 to 1518.
    pub packet_size: usize,
    /// Frames per batch, 1 to 64.
    pub batch: usize,
    /// Number of repeats; the report gives their median.
    pub repeats: usize,
}

impl Default for Args {
    fn default() -> Self {
        Self { routes: PathBuf::new(), packet_size: 64, batch: BATCH_MAX, repeats: 31 }
    }
}

/// Result of one run of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Packets per second: clock frequency divided by the median cycles per packet.
    pub rate_pps: f64,
    /// Median cycles per packet, over the repeats.
    pub cycles_per_packet: f64,
    /// Cycles per packet of the fastest repeat.
    pub cycles_per_packet_min: f64,
    /// Cycles per packet of the slowest repeat.
    pub cycles_per_packet_max: f64,
    /// Medians of the nodes, and of the work outside them.
    pub nodes: Vec<Node>,
    /// Number of IPv4 prefixes in the table.
    pub routes: usize,
    /// Length of a frame in bytes with its FCS, as given by `--packet-size`.
    pub packet_size_bytes: usize,
    /// Largest number of frames per batch, as given by `--batch`.
    pub batch: usize,
    /// Number of repeats, as given by `--repeats`.
    pub repeats: usize,
    /// Number of packets per repeat.
    pub packets: usize,
    /// Frequency of the time-stamp counter in Hz.
    pub clock_hertz: f64,
    /// Speed of the machine before and after the measurement.
    pub calibration: Calibration,
    /// Work that the figures include and exclude, in words.
    pub timed: &'static str,
}

/// Cost of one graph node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Name of the node; `ports and loop` is receive, transmit and the worker.
    pub name: String,
    /// Median cycles per packet, over the repeats.
    pub cycles_per_packet: f64,
}

/// Builds the router, warms it up and measures it.
///
/// # Errors
/// Fails on unusable arguments or routes, or when packets were not forwarded.
pub fn run(args: &Args) -> Result<Report, Error> {
    check(args)?;
    let prefixes = read_ipv4(&args.routes)?;
    let mut bench = MemoryRouter::new(&prefixes, Vec::new(), args.batch)?;
    let mut traffic = Generator::new(args, &prefixes);
    let clock = Clock::new();
    let (before, started, first) = (spin(&clock), Instant::now(), clock.raw());
    bench.repeat(&clock, &mut traffic)?;
    let repeats = (0..args.repeats)
        .map(|_| bench.repeat(&clock, &mut traffic))
        .collect::<Result<Vec<_>, _>>()?;
    let clock_hertz = clock.raw().wrapping_sub(first) as f64 / started.elapsed().as_secs_f64();
    let calibration = Calibration::new(before, spin(&clock));

    let mut cycles: Vec<f64> = repeats.iter().map(|repeat| repeat.total).collect();
    let cycles_per_packet = median(&mut cycles);
    let names = bench.names();
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
        packets: PACKETS,
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

/// Source of UDP packets of one length to random hosts of random prefixes.
struct Generator {
    template: Vec<u8>,
    destinations: Vec<u32>,
    next: usize,
}

impl Generator {
    fn new(args: &Args, prefixes: &[Ipv4Net]) -> Self {
        // The frames are stored one after the other, without FCS.
        let template = udp_template(args.packet_size - 4);
        Self { template, destinations: draw(prefixes), next: 0 }
    }
}

impl Traffic for Generator {
    fn write(&mut self, chunk: &mut [u8]) -> usize {
        let destination = self.destinations[self.next % DESTINATIONS];
        self.next += 1;
        let bytes = &mut chunk[..self.template.len()];
        bytes.copy_from_slice(&self.template);
        let header = Ipv4Header::udp((bytes.len() - 14) as u16, SOURCE, destination);
        bytes[14..34].copy_from_slice(header.as_bytes());
        bytes.len()
    }
}

/// Draws random hosts of random prefixes, the same in every run.
fn draw(prefixes: &[Ipv4Net]) -> Vec<u32> {
    let mut random = SmallRng::seed_from_u64(1);
    let mut destinations = Vec::with_capacity(DESTINATIONS);
    // A table with only martians would never fill the list, so they are then accepted.
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
    use wattline_fib::routes_file::RoutesFileError;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn forwarding_is_measured() {
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
    fn impossible_arguments_are_refused() {
        let args = Args { packet_size: 63, ..Args::default() };
        assert!(run(&args).unwrap_err().to_string().contains("64 to 1518"));
        let missing = Args { routes: "/nowhere".into(), ..Args::default() };
        assert!(matches!(run(&missing), Err(Error::Routes(RoutesFileError::Unreadable { .. }))));
    }
}
