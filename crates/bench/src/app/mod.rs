//! `wattline bench app`: the cost of an application on top of plain IPv4 forwarding.
//!
//! One router forwards only, and there is one more router for each application. They run between
//! memory rings ([`crate::memory_router`]) and get the same packets in turns. The result is the
//! median of the differences within a turn: a machine that changes its speed changes it for all
//! routers of that turn. A repeat counts with its median window, not with its sum, because another
//! program on the machine may take a time slice out of some windows.
//!
//! Each application is one file of this directory and one line in [`APPLICATIONS`].

mod application;
mod args;
mod costs;
mod crypto;
mod filter;
mod ipsec;
mod ipv4;
mod measure;
mod netflow;
mod order;
mod page;
mod redundancy;
mod report;
mod sealed;
mod traffic;
mod watch;

use crate::calibration::{Calibration, spin};
use crate::machine::Machine;
pub use crate::memory_router::Error;
use crate::memory_router::PACKETS;
use crate::prefixes::read_ipv4;
pub use application::Application;
use application::Make;
pub use args::{Args, Direction};
pub use costs::{CostsError, costs};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::{Measured, workloads};
pub use page::page;
use quanta::Clock;
pub use report::{Added, Cost, Node, Order, OrderVerdict, Report, Row};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use wattline_dataplane::frame::BATCH_MAX;

/// Applications that can be measured, by name.
const APPLICATIONS: &[(&str, Make)] = &[
    ("acl", filter::make),
    ("acl-long", filter::make_long),
    ("all", all),
    ("ipsec", ipsec::make),
    ("ipv4", ipv4::make),
    ("netflow", netflow::make),
    ("re", redundancy::make),
    ("re-link", redundancy::make_link),
    ("re-maxp", redundancy::make_maxp),
    ("re-modp", redundancy::make_modp),
    ("urpf", filter::make_urpf),
    ("watch", watch::make),
];

/// The four applications of the PowerSave paper in one run.
fn all(args: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    let makes: [Make; 3] = [netflow::make, ipsec::make, redundancy::make];
    let lists = makes.into_iter().map(|make| make(args)).collect::<Result<Vec<_>, _>>()?;
    Ok(lists.into_iter().flatten().collect())
}

/// Names of the applications.
pub fn names() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().map(|(name, _)| *name)
}

/// Measures an application on all workloads.
///
/// # Errors
/// Fails on unusable arguments, or when packets were not forwarded.
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
        options: args.options(),
        machine: Machine::here(),
        workloads: measured.into_iter().filter_map(|it| it.into_row(clock_hertz)).collect(),
        flows: args.flows,
        routes: prefixes.len(),
        batch: args.batch,
        repeats: args.repeats,
        packets: PACKETS,
        clock_hertz,
        calibration: Calibration::new(before, spin(&clock)),
        timed: "receive, graph and transmit between memory rings, with and without each \
                application in turns, median of windows of 512 packets; writing (and, for a \
                receiving gateway, sealing) the packets is outside; a capture is replayed, so \
                redundancy elimination has seen all of it before",
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

/// Sixteen prefixes that cover all IPv4 addresses.
fn sixteen() -> Vec<IpNet> {
    let nibble = |high: u8| Ipv4Net::new_assert(Ipv4Addr::new(high << 4, 0, 0, 0), 4).into();
    let six = Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into();
    (0..16).map(nibble).chain([six]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_applications_are_measured_on_all_sizes() {
        measured_on_all_sizes(&mut ["all"].into_iter());
    }

    #[test]
    #[ignore = "takes two minutes; `make test-long` runs it"]
    fn every_application_is_measured_on_all_sizes() {
        measured_on_all_sizes(&mut names());
    }

    fn measured_on_all_sizes(applications: &mut dyn Iterator<Item = &str>) {
        for application in applications.map(str::to_owned) {
            let plain = application == "ipv4";
            let args = Args { application, flows: 1000, repeats: 1, ..Args::default() };
            let report = run(&args).unwrap();
            let sizes: Vec<f64> =
                report.workloads.iter().map(|row| row.packet_size_bytes).collect();
            assert_eq!(sizes[..3], [64.0, 512.0, 1420.0]);
            assert!((sizes[3] - 361.8).abs() < 2.0, "{sizes:?}");
            let json = serde_json::to_string(&report).unwrap();
            assert_eq!(costs(&json, "here", None).is_ok(), report.application == "all");
            if ["all", "ipv4"].contains(&&*report.application) {
                crate::looked_at("app", &page(&report).end());
            }
            for row in report.workloads {
                assert!(row.ipv4.cycles_per_packet.median > 0.0);
                assert_eq!(row.applications.is_empty(), plain);
                let named: Vec<&str> = row.applications.iter().map(|it| it.name).collect();
                match &*report.application {
                    "all" => assert_eq!(named, ["netflow", "ipsec-send", "ipsec-receive", "re"]),
                    "ipsec" => assert_eq!(named, ["ipsec-send", "ipsec-receive"]),
                    "watch" => {
                        assert_eq!(named, ["watch-off", "watch-none", "watch-all"]);
                        let matched = |at: usize| &row.applications[at].counted["matched_packets"];
                        assert_eq!((matched(0), matched(1)), (&0.into(), &0.into()));
                        assert!(matched(2).as_u64() > Some(0), "{:?}", matched(2));
                        assert_eq!(row.applications[2].counted["missed_packets"], 0);
                    }
                    _ => {}
                }
                assert_eq!(row.order.is_some(), report.application == "all");
            }
        }
    }

    #[test]
    fn disallowed_options_are_reported() {
        let args = Args { application: "ipv5".to_owned(), ..Args::default() };
        assert!(run(&args).unwrap_err().to_string().contains("ipv4"));
        let args = Args { flows: 0, directions: vec![Direction::Send], ..Args::default() };
        assert_eq!(args.options(), "--flows 0 --direction send");
        assert!(run(&args).unwrap_err().to_string().contains("16777216"));
    }
}
