//! What was measured, as it is written.

use crate::calibration::Calibration;
use crate::machine::Machine;
use crate::sample::Sample;
use serde::Serialize;

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Which application was asked for.
    pub application: String,
    /// The options that are not the defaults, as on the command line.
    pub options: String,
    /// Where and when.
    pub machine: Machine,
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
    /// Bytes per packet as plain forwarding gets it, FCS included.
    pub packet_size_bytes: f64,
    /// Plain forwarding.
    pub ipv4: Cost,
    /// The same packets with each application.
    pub applications: Vec<Added>,
    /// The applications by their cost, where all of them were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
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
    /// Bits of these packets that one core forwards, at the median.
    pub rate_gbps: f64,
}

/// What a packet costs with an application.
#[derive(Debug, Clone, Serialize)]
pub struct Added {
    /// Which one; of IPsec, which direction.
    pub name: &'static str,
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

/// The order of their costs on one kind of traffic, beside the published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Order {
    /// Ours, the dearest first, by the median.
    pub measured: Vec<&'static str>,
    /// The paper's.
    pub published: [&'static str; 4],
    /// Whether they are the same.
    pub verdict: OrderVerdict,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderVerdict {
    /// The same order.
    Meets,
    /// Another one.
    Differs,
    /// The same order, but the quartiles of two neighbours in it overlap.
    Unsure,
}

impl OrderVerdict {
    /// As tables show it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Differs => "differs",
            Self::Unsure => "unsure: quartiles overlap",
        }
    }
}
