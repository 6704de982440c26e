//! Ports as a router would find them, before it starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A port that a router would serve, as in `wattline plan`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortPlan {
    /// Name of the port.
    pub name: String,
    /// True while there is no such interface: the port is served once there is.
    pub is_absent: bool,
    /// Reason for which all of its packets would be the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_because: Option<String>,
    /// Prefixes whose packets alone would be the kernel's.
    pub left_prefixes: Vec<String>,
    /// Reasons for these prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes_because: Vec<String>,
    /// Its flowtable, whose flows XDP programs may forward, or how one would be added to the ruleset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flowtable: Option<String>,
    /// True if an application judges its packets: what would be left is dropped, or the router refuses to start.
    pub is_guarded: bool,
}
