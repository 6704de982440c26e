//! Ports as a router would find them, before it starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A port that a router would serve, as in `wattline plan`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortPlan {
    /// Name of the port.
    pub name: String,
    /// True while the interface does not exist: the port is served once it does.
    pub is_absent: bool,
    /// Reason why all of its packets would be the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_because: Option<String>,
    /// Prefixes of which only the packets would be the kernel's.
    pub left_prefixes: Vec<String>,
    /// Reasons for these prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes_because: Vec<String>,
    /// Its flowtable, whose flows XDP programs may forward, or the way to add one to the ruleset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flowtable: Option<String>,
    /// True if an application judges its packets: they would be dropped instead of left, or the
    /// router would not start.
    pub is_guarded: bool,
}
