//! Result of an audit on demand.

use crate::contract::{Contract, Document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

impl Document for AuditReport {
    const NAME: &'static str = "audit";
}

/// Comparison of a router's decisions with its kernel's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditReport {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Addresses for which both decisions were compared.
    pub compared: u64,
    /// Addresses whose packets the router leaves to the kernel.
    pub left_to_kernel: u64,
    /// Addresses for which the decisions need not agree, by reason.
    pub not_compared: BTreeMap<String, u64>,
    /// Persistent differences, one for each prefix.
    pub differences: Vec<AuditDifference>,
    /// Number of differences, unlisted ones included.
    pub total: usize,
}

/// A packet for which router and kernel decide differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditDifference {
    /// Deciding prefix. Its packets are left to the kernel until both agree.
    pub prefix: String,
    /// Source of the packet.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Ingress interface.
    pub ingress: Option<String>,
    /// The kernel's decision.
    pub kernel: AuditDecision,
    /// The router's decision.
    pub wattline: AuditDecision,
}

/// A decision about a packet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditDecision {
    /// `forward`, `deliver to this machine`, `leave to the kernel`, `no route`, `unreachable`,
    /// `prohibited` or `discard`.
    pub action: String,
    /// Next hops; the router may choose among several.
    pub next_hops: Vec<AuditHop>,
}

/// A next hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditHop {
    /// Interface that leads to it.
    pub interface: Option<String>,
    /// Its address.
    pub address: IpAddr,
}
