//! The graph of a router, and answers to requests that change something.

use crate::contract::{Contract, Document};
use crate::router::NodeStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

impl Document for Graph {
    const NAME: &'static str = "graph";
}
impl Document for ReloadReport {
    const NAME: &'static str = "reload";
}
impl Document for ActiveWorkers {
    const NAME: &'static str = "active";
}
impl Document for HeldPoint {
    const NAME: &'static str = "hold";
}
impl Document for Empty {
    const NAME: &'static str = "done";
}

/// Nodes of a router with their counters, and the edges between them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Nodes, in the order in which packets meet them.
    pub nodes: Vec<NodeStats>,
    /// Edges, each from one node to another.
    pub edges: Vec<[String; 2]>,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Frames that XDP programs forwarded: no node saw them.
    pub xdp_forwarded: u64,
    /// Ports.
    pub ports: Vec<String>,
}

/// Result of reading the configuration again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadReport {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Parts that are in force now.
    pub applied: Vec<String>,
    /// Parts that are in force only after a restart.
    pub needs_restart: Vec<String>,
    /// Non-obvious reasons, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// Parts that are in force and differ from the configuration, with the reason.
    pub not_as_configured: Vec<String>,
}

/// Result of setting the number of active workers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActiveWorkers {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Workers that receive traffic.
    pub active_workers: u16,
}

/// Operating point that a client holds in place of the policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldPoint {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Name of the client.
    pub owner: String,
    /// Active cores.
    pub cores_active: usize,
    /// Frequencies of the active cores.
    pub frequency_hertz: Vec<f64>,
    /// Time after which the policy decides again, unless the client renews.
    pub lease_seconds: f64,
    /// True while steps to the point are in progress.
    pub under_way: bool,
    /// Number of cores of the machine.
    pub cores: usize,
    /// True if fewer of them can be active.
    pub can_set_cores: bool,
    /// Frequencies that can be requested.
    pub frequencies_hertz: Vec<f64>,
}

/// Confirmation without figures, for `clear` and `stop`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {
    /// Number of the contract that this document follows.
    pub contract: Contract,
}
