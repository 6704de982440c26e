//! `wattline bench app`: what an application costs on top of plain IPv4 forwarding.
//!
//! Two routers between memory rings ([`super::memory_router`]), one that only forwards and one
//! with the application, get the same packets in turns; what counts is the median of the
//! differences within a pair, since a machine that changes its speed meanwhile changes it for
//! both. Of each repeat the median window counts, not the sum: where others use the machine too,
//! some windows hold a time slice of theirs.
//!
//! Applications are the files of this directory, one each, and a line in [`APPLICATIONS`].

mod ipsec;
mod ipv4;
mod netflow;
mod redundancy;
mod traffic;

use super::calibration::{Calibration, spin};
pub use super::memory_router::Error;
use super::memory_router::{MemoryRouter, PACKETS, Repeat, Traffic};
use super::prefixes::read_ipv4;
use super::sample::Sample;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use quanta::Clock;
use serde::Serialize;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Instant;
use traffic::{FlowTraffic, Replay};
use wattline_dataplane::feature::Feature;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_traffic::Sizes;

/// An application as it is measured: in one worker, without a control thread.
pub trait Application {
    /// Its part of the graph; called once.
    fn features(&mut self) -> Vec<Feature>;

    /// Called after each repeat, outside of what is timed: what a control thread would do.
    fn settle(&mut self) {}

    /// What it counted, for the report: it shows that it did its work.
    fn counted(&self) -> serde_json::Value;
}

/// Makes an application; `None` is plain forwarding.
type Make = fn(&Args) -> Result<Option<Box<dyn Application>>, Error>;

/// What can be measured, by name.
const APPLICATIONS: &[(&str, Make)] = &[
    ("ipsec", ipsec::make),
    ("ipv4", ipv4::make),
    ("netflow", netflow::make),
    ("re", redundancy::make),
    ("re-link", redundancy::make_link),
    ("re-maxp", redundancy::make_maxp),
    ("re-modp", redundancy::make_modp),
];

/// The names of the applications.
pub fn names() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().map(|(name, _)| *name)
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Args {
    /// One of [`names`].
    pub application: String,
    /// A prefix per line; `None` for sixteen prefixes that hold all of IPv4.
    pub routes: Option<PathBuf>,
    /// Frames of this capture as a further workload.
    pub capture: Option<PathBuf>,
    /// Flows that are alive, 1 to 2^24; packets are of random ones among them.
    pub flows: usize,
    /// Frames per batch, 1 to 64.
    pub batch: usize,
    /// Pairs of measurements, of which the median counts.
    pub repeats: usize,
    /// What `ipsec` protects packets with.
    pub algorithm: String,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            application: "ipv4".to_owned(),
            routes: None,
            capture: None,
            flows: 1_000_000,
            batch: BATCH_MAX,
            repeats: 31,
            algorithm: "aes128-gcm".to_owned(),
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Which application.
    pub application: String,
    /// A row for each kind of traffic.
    pub workloads: Vec<Row>,
    /// As asked for.
    pub flows: usize,
    /// Prefixes in the table.
    pub routes: usize,
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

/// One kind of traffic.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// `64 B`, `imix`, or the name of a capture.
    pub name: String,
    /// Bytes per packet, FCS included.
    pub packet_size_bytes: f64,
    /// Plain forwarding.
    pub ipv4: Cost,
    /// The application, unless that is plain forwarding itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_application: Option<Added>,
}

/// What a packet costs.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// Over the repeats.
    pub cycles_per_packet: Sample,
    /// The median by the mean length.
    pub cycles_per_byte: f64,
    /// The median by the clock's rate.
    pub nanoseconds_per_packet: f64,
}

/// What a packet costs with an application.
#[derive(Debug, Clone, Serialize)]
pub struct Added {
    /// All in all.
    #[serde(flatten)]
    pub cost: Cost,
    /// Over the differences within pairs.
    pub added_cycles_per_packet: Sample,
    /// The median of these by the clock's rate.
    pub added_nanoseconds_per_packet: f64,
    /// Cycles per packet in each node that is not in plain forwarding.
    pub nodes: Vec<Node>,
    /// What the application counted.
    pub counted: serde_json::Value,
}

/// Cycles of one node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Its name in the graph.
    pub name: &'static str,
    /// Over the repeats.
    pub cycles_per_packet: Sample,
}

/// Measures an application on all kinds of traffic.
///
/// # Errors
/// Unusable arguments, or packets that were not forwarded.
pub fn run(args: &Args) -> Result<Report, Error> {
    let make = check(args)?;
    let prefixes: Vec<IpNet> = match &args.routes {
        Some(file) => read_ipv4(file)?.into_iter().map(IpNet::from).collect(),
        None => sixteen(),
    };
    let clock = Clock::new();
    let (before, started, first) = (spin(&clock), Instant::now(), clock.raw());
    let mut measured = Vec::new();
    for workload in workloads(args)? {
        measured.push(Measured::new(args, make, &prefixes, &clock, workload)?);
    }
    let clock_hertz = clock.raw().wrapping_sub(first) as f64 / started.elapsed().as_secs_f64();
    Ok(Report {
        application: args.application.clone(),
        workloads: measured.into_iter().filter_map(|it| it.into_row(clock_hertz)).collect(),
        flows: args.flows,
        routes: prefixes.len(),
        batch: args.batch,
        repeats: args.repeats,
        packets: PACKETS,
        clock_hertz,
        calibration: Calibration::new(before, spin(&clock)),
        timed: "receive, graph and transmit between memory rings, with and without the \
                application in turns, median of windows of 512 packets; writing the packets \
                is outside",
    })
}

fn check(args: &Args) -> Result<Make, Error> {
    let range = |what, value, range: std::ops::RangeInclusive<usize>, allowed| {
        if range.contains(&value) { Ok(()) } else { Err(Error::Argument { what, value, allowed }) }
    };
    range("number of flows", args.flows, 1..=1 << 24, "1 to 16777216")?;
    range("batch", args.batch, 1..=BATCH_MAX, "1 to 64")?;
    range("number of repeats", args.repeats, 1..=10_000, "1 to 10000")?;
    let found = APPLICATIONS.iter().find(|(name, _)| *name == args.application);
    found.map(|(_, make)| *make).ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        Error::Unknown { name: args.application.clone(), known }
    })
}

/// All addresses.
fn sixteen() -> Vec<IpNet> {
    let nibble = |high: u8| Ipv4Net::new_assert(Ipv4Addr::new(high << 4, 0, 0, 0), 4).into();
    let six = Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into();
    (0..16).map(nibble).chain([six]).collect()
}

/// A kind of traffic: its name, and a source of it that is the same each time.
struct Workload {
    name: String,
    make: Box<dyn Fn() -> Box<dyn Traffic>>,
    /// Repeats until every flow has been seen.
    warm_up: usize,
}

fn workloads(args: &Args) -> Result<Vec<Workload>, Error> {
    let flows = args.flows;
    let of = |name: String, lengths: Vec<usize>| Workload {
        name,
        make: Box::new(move || Box::new(FlowTraffic::new(flows, &lengths))),
        warm_up: flows.div_ceil(PACKETS),
    };
    let mut list: Vec<Workload> =
        [64, 512, 1420].into_iter().map(|size| of(format!("{size} B"), vec![size - 4])).collect();
    let imix = Sizes::IMIX.iter();
    let imix = imix.flat_map(|(bytes, count)| vec![usize::from(*bytes); *count as usize]);
    list.push(of("imix".to_owned(), imix.collect()));
    if let Some(file) = &args.capture {
        let replay = Replay::load(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let warm_up = replay.len().div_ceil(PACKETS);
        list.push(Workload { name, make: Box::new(move || Box::new(replay.clone())), warm_up });
    }
    Ok(list)
}

/// Repeats of one workload.
struct Measured {
    name: String,
    plain: Vec<Repeat>,
    other: Option<Other>,
}

/// The same with the application.
struct Other {
    repeats: Vec<Repeat>,
    /// Its own nodes: number in the graph and name.
    nodes: Vec<(usize, &'static str)>,
    counted: serde_json::Value,
}

impl Measured {
    fn new(
        args: &Args,
        make: Make,
        prefixes: &[IpNet],
        clock: &Clock,
        workload: Workload,
    ) -> Result<Self, Error> {
        let mut plain = MemoryRouter::new(prefixes, Vec::new(), args.batch)?;
        let mut traffic = (workload.make)();
        let mut repeats = Vec::with_capacity(args.repeats);
        let mut other = match make(args)? {
            Some(mut application) => {
                let router = MemoryRouter::new(prefixes, application.features(), args.batch)?;
                Some((router, application, (workload.make)(), Vec::with_capacity(args.repeats)))
            }
            None => None,
        };
        for round in 0..workload.warm_up + 1 + args.repeats {
            let timed = round > workload.warm_up;
            let repeat = plain.repeat(clock, &mut *traffic)?;
            repeats.extend(timed.then_some(repeat));
            if let Some((router, application, traffic, repeats)) = &mut other {
                let repeat = router.repeat(clock, &mut **traffic)?;
                repeats.extend(timed.then_some(repeat));
                application.settle();
            }
        }
        let known = plain.names();
        let other = other.map(|(router, application, _, repeats)| {
            let names = router.names().into_iter().enumerate();
            let nodes = names.filter(|(_, name)| !known.contains(name)).collect();
            Other { repeats, nodes, counted: application.counted() }
        });
        Ok(Self { name: workload.name, plain: repeats, other })
    }

    /// `None` without a repeat.
    fn into_row(self, clock_hertz: f64) -> Option<Row> {
        let nanoseconds = |cycles: f64| cycles / clock_hertz * 1e9;
        let bytes = self.plain.iter().map(|repeat| repeat.bytes).sum::<f64>();
        let packet_size_bytes = bytes / self.plain.len() as f64;
        let cost = |repeats: &[Repeat]| {
            let cycles = Sample::of(repeats.iter().map(|repeat| repeat.typical).collect())?;
            Some(Cost {
                cycles_per_packet: cycles,
                cycles_per_byte: cycles.median / packet_size_bytes,
                nanoseconds_per_packet: nanoseconds(cycles.median),
            })
        };
        let ipv4 = cost(&self.plain)?;
        let with_application = match self.other {
            None => None,
            Some(Other { repeats, nodes, counted }) => {
                let pairs = repeats.iter().zip(&self.plain);
                let added =
                    Sample::of(pairs.map(|(with, plain)| with.typical - plain.typical).collect())?;
                let node = |(number, name): (usize, &'static str)| {
                    let cycles = repeats.iter().map(|repeat| repeat.nodes[number]).collect();
                    Some(Node { name, cycles_per_packet: Sample::of(cycles)? })
                };
                Some(Added {
                    cost: cost(&repeats)?,
                    added_cycles_per_packet: added,
                    added_nanoseconds_per_packet: nanoseconds(added.median),
                    nodes: nodes.into_iter().filter_map(node).collect(),
                    counted,
                })
            }
        };
        Some(Row { name: self.name, packet_size_bytes, ipv4, with_application })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_is_measured_on_all_sizes() {
        for application in names().map(str::to_owned) {
            let plain = application == "ipv4";
            let args = Args { application, flows: 1000, repeats: 2, ..Args::default() };
            let report = run(&args).unwrap();
            let sizes: Vec<f64> =
                report.workloads.iter().map(|row| row.packet_size_bytes).collect();
            assert_eq!(sizes[..3], [64.0, 512.0, 1420.0]);
            assert!((sizes[3] - 361.8).abs() < 2.0, "{sizes:?}");
            for row in report.workloads {
                assert!(row.ipv4.cycles_per_packet.median > 0.0);
                assert_eq!(row.with_application.is_none(), plain);
            }
        }
    }

    #[test]
    fn what_is_not_allowed_is_told() {
        let args = Args { application: "ipv5".to_owned(), ..Args::default() };
        assert!(run(&args).unwrap_err().to_string().contains("ipv4"));
        let args = Args { flows: 0, ..Args::default() };
        assert!(run(&args).unwrap_err().to_string().contains("16777216"));
    }
}
