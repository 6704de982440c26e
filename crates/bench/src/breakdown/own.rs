//! Wattline's own data plane in the same groups: the cycles of each node of the IPv4 graph, on one
//! core between memory rings ([`crate::pipeline`]).

use super::groups::Group;
use crate::pipeline;
use serde::Serialize;
use std::io::Write as _;
use wattline_testbed::Error;

/// Prefixes of the table: enough for every neighbour, few enough to stay in the nearest cache.
const PREFIXES: u32 = 16;
const REPEATS: usize = if cfg!(test) { 3 } else { 15 };

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnNode {
    /// Its name; `ports and loop` is receive, transmit and the worker's loop.
    pub node: String,
    /// Group of the kernel's functions that do the same.
    pub group: Group,
    /// Cycles of the time-stamp counter per packet.
    pub cycles_per_packet: f64,
    /// The same as time.
    pub cpu_seconds_per_packet: f64,
}

/// The data plane, forwarding frames of 64 bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Own {
    /// Every node, in the order of the graph.
    pub nodes: Vec<OwnNode>,
    /// All of them.
    pub cycles_per_packet: f64,
    /// Frequency of the time-stamp counter.
    pub clock_hertz: f64,
    /// Parts of the cost that the figures leave out.
    pub note: &'static str,
}

const NOTE: &str = "forwarding of 64-byte frames between memory rings on one core: no card, no \
                    system call, no sockets; the kernel's groups are of TCP between programs, so \
                    that only driver, IP and buffer management compare";

/// Measures it.
///
/// # Errors
/// When the benchmark fails.
pub fn measure() -> Result<Own, Error> {
    let failed = |what: &dyn std::fmt::Display| Error::Data {
        path: "bench pipeline".into(),
        reason: what.to_string(),
    };
    let mut routes = tempfile::NamedTempFile::new()
        .map_err(|source| Error::io("making a table of routes", source))?;
    for prefix in 0..PREFIXES {
        writeln!(routes, "10.{prefix}.0.0/16")
            .map_err(|source| Error::io("writing a table of routes", source))?;
    }
    let arguments = pipeline::Args {
        routes: routes.path().to_owned(),
        repeats: REPEATS,
        ..pipeline::Args::default()
    };
    let report = pipeline::run(&arguments).map_err(|error| failed(&error))?;
    let nodes = report.nodes.into_iter().map(|node| OwnNode {
        group: group_of(&node.name),
        cycles_per_packet: node.cycles_per_packet,
        cpu_seconds_per_packet: node.cycles_per_packet / report.clock_hertz,
        node: node.name,
    });
    Ok(Own {
        nodes: nodes.collect(),
        cycles_per_packet: report.cycles_per_packet,
        clock_hertz: report.clock_hertz,
        note: NOTE,
    })
}

/// The rings stand for the driver; all nodes of the graph do what the kernel's IP does.
fn group_of(node: &str) -> Group {
    if node == "ports and loop" { Group::Driver } else { Group::Ip }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_add_up_to_about_the_whole_and_have_groups() {
        let own = measure().unwrap();
        assert!(own.nodes.len() > 3, "{own:?}");
        let sum: f64 = own.nodes.iter().map(|node| node.cycles_per_packet).sum();
        // Medians of parts add up to the median of the whole but for their scatter.
        assert!((sum / own.cycles_per_packet - 1.0).abs() < 0.5, "{own:?}");
        assert!(own.nodes.iter().any(|node| node.group == Group::Driver));
        assert!(own.nodes.iter().any(|node| node.node.contains("lookup")), "{own:?}");
        let seconds: f64 = own.nodes.iter().map(|node| node.cpu_seconds_per_packet).sum();
        assert!((seconds * own.clock_hertz / sum - 1.0).abs() < 1e-9);
    }
}
