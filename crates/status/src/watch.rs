//! Captures and traces: documents before, between and after packets.

use crate::contract::{Contract, Document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

impl Document for WatchStart {
    const NAME: &'static str = "capture and trace, start";
}

/// Start of a capture or trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchStart {
    /// Number of the contract that this document and the later ones follow.
    pub contract: Contract,
    /// Packets that are not seen, in words.
    pub unseen: Vec<String>,
}

/// A packet's path through the router, as a trace sends it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracedPacket {
    /// Number of the packet, by worker.
    pub packet: u32,
    /// Number of the worker. Packets that XDP programs forward have the number after the last
    /// worker's.
    pub worker: usize,
    /// Time since 1970 at which it came in.
    pub time_seconds: f64,
    /// Ingress port.
    pub port: String,
    /// Node that made the packet, if the router did.
    pub made_by: Option<String>,
    /// Its headers in words.
    pub headers: String,
    /// Its length.
    pub length_bytes: u32,
    /// Nodes that it passed.
    pub nodes: Vec<String>,
    /// `sent`, `dropped`, `left to the kernel`, `went on in other packets` or `held for its
    /// neighbour`.
    pub end: String,
    /// Egress port of a sent packet.
    pub port_out: Option<String>,
    /// Address of the next hop, if an XDP program forwarded the packet.
    #[serde(default)]
    pub next_hop: Option<String>,
    /// Reason of a drop.
    pub reason: Option<String>,
    /// Access-list rule that dropped it; null if none did, also if none matched.
    #[serde(default)]
    pub rule: Option<String>,
    /// The reason in words.
    pub meaning: Option<String>,
}

/// End of a capture or trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchEnd {
    /// Packets that were sent to the reader.
    pub packets: u64,
    /// Packets that matched the filter.
    pub matched: u64,
    /// Matched packets lost because they came too fast.
    pub missed: u64,
    /// Packets that XDP programs could not copy because the buffer was full; the filter did not see
    /// them.
    #[serde(default)]
    pub uncopied: u64,
    /// Length of the capture or trace.
    pub duration_seconds: f64,
}
