//! The report of `wattline bench app`, as written to JSON.

use crate::calibration::Calibration;
use crate::machine::Machine;
use crate::sample::Sample;
use serde::Serialize;

/// Result of one run of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the application, as given on the command line.
    pub application: String,
    /// Options that differ from the defaults, written as on the command line.
    pub options: String,
    /// Machine and day of the measurement.
    pub machine: Machine,
    /// One row per workload.
    pub workloads: Vec<Row>,
    /// Number of live flows, as given by `--flows`.
    pub flows: usize,
    /// Number of prefixes in the routing table.
    pub routes: usize,
    /// Largest number of packets per batch, as given by `--batch`.
    pub batch: usize,
    /// Number of timed repeats, as given by `--repeats`.
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

/// Results of one workload.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the workload: `64 B`, `imix`, or the file name of a capture.
    pub name: String,
    /// Mean bytes per packet in plain forwarding, FCS included.
    pub packet_size_bytes: f64,
    /// Cost of plain forwarding.
    pub ipv4: Cost,
    /// Cost of each application on the same packets.
    pub applications: Vec<Added>,
    /// Applications ordered by cost; `None` unless all four of the paper were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// Cost of forwarding one packet.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// Cycles of the time-stamp counter per packet, over the repeats.
    pub cycles_per_packet: Sample,
    /// Median cycles per packet divided by the mean packet size.
    pub cycles_per_byte: f64,
    /// Median cycles per packet divided by the clock frequency.
    pub nanoseconds_per_packet: f64,
    /// Gbit/s of these packets that one core forwards, from the median.
    pub rate_gbps: f64,
}

/// Cost of a packet with an application.
#[derive(Debug, Clone, Serialize)]
pub struct Added {
    /// Name of the application; for IPsec it includes the direction.
    pub name: &'static str,
    /// Total cost of a packet, forwarding included.
    #[serde(flatten)]
    pub cost: Cost,
    /// Cycles per packet beyond plain forwarding, from the difference within each turn.
    pub added_cycles_per_packet: Sample,
    /// Median of the added cycles divided by the clock frequency.
    pub added_nanoseconds_per_packet: f64,
    /// Cost of each graph node that plain forwarding does not have.
    pub nodes: Vec<Node>,
    /// Counters of the application.
    pub counted: serde_json::Value,
}

/// Cost of one graph node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Name of the node in the graph.
    pub name: &'static str,
    /// Cycles of the time-stamp counter per packet, over the repeats.
    pub cycles_per_packet: Sample,
}

/// Order of the costs in one workload, compared with the published order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Order {
    /// Measured order by median cost, most expensive first.
    pub measured: Vec<&'static str>,
    /// Order in the paper, most expensive first.
    pub published: [&'static str; 4],
    /// Result of the comparison.
    pub verdict: OrderVerdict,
}

/// Result of comparing the measured order with the published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderVerdict {
    /// The orders are the same.
    Meets,
    /// The orders differ.
    Differs,
    /// The orders are the same, but the quartiles of two neighbours overlap.
    Unsure,
}

impl OrderVerdict {
    /// Text for tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Differs => "differs",
            Self::Unsure => "unsure: quartiles overlap",
        }
    }
}
