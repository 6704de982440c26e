//! Counters of access lists and of the reverse-path check.

use crate::contract::{Contract, Document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules of access lists with their matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AclTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// The counters, as in `applications` of `stats`.
    #[serde(flatten)]
    pub acl: AclStats,
}

impl Document for AclTable {
    const NAME: &'static str = "show acl";
}

/// Counters of access lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AclStats {
    /// Rules, in the order in which packets meet them.
    pub rules: Vec<AclRule>,
    /// Number of rules, unlisted ones included.
    pub total: usize,
    /// Packets that matched no rule and were dropped, by port.
    pub unmatched: Vec<Unmatched>,
}

/// A rule of an access list. An empty list matches everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AclRule {
    /// Its name.
    pub name: String,
    /// Ports to which it applies.
    pub on: Vec<String>,
    /// `permit` or `deny`.
    pub action: String,
    /// Source prefixes.
    pub source: Vec<String>,
    /// Destination prefixes.
    pub destination: Vec<String>,
    /// Protocol numbers.
    pub protocol: Vec<u8>,
    /// Source ports and ranges.
    pub source_ports: Vec<String>,
    /// Destination ports and ranges.
    pub destination_ports: Vec<String>,
    /// Packets that matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Packets of a port that matched no rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unmatched {
    /// The port.
    pub port: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Counters of the reverse-path check.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UrpfStats {
    /// Ports that check source addresses.
    pub ports: Vec<UrpfPort>,
}

/// A port that checks source addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UrpfPort {
    /// The port.
    pub port: String,
    /// Its check.
    pub check: SourceCheck,
    /// Packets dropped because no route leads back to their source.
    pub dropped_packets: u64,
}

/// Comparison of source addresses with the routes (RFC 3704).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SourceCheck {
    /// There is a route to the source (section 2.4).
    Loose,
    /// A route to the source leads to the port by which the packet came (sections 2.2 and 2.3).
    Strict,
}

impl SourceCheck {
    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loose => "loose",
            Self::Strict => "strict",
        }
    }
}
