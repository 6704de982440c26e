//! A rule of an access list.

use ipnet::IpNet;
use std::ops::RangeInclusive;

/// Fate of the packets that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// They are forwarded.
    Permit,
    /// They are dropped.
    Deny,
}

impl Action {
    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Deny => "deny",
        }
    }
}

/// A rule: it matches packets that match all of its fields. An empty field matches all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule in counters.
    pub name: String,
    /// Indices of the ports to which it applies; empty for all.
    pub on: Vec<usize>,
    /// Fate of the packets.
    pub action: Action,
    /// Prefixes of the source address.
    pub sources: Vec<IpNet>,
    /// Prefixes of the destination address.
    pub destinations: Vec<IpNet>,
    /// Protocol numbers; for IPv6, that of the payload after extension headers.
    pub protocols: Vec<u8>,
    /// Source ports of TCP, UDP and SCTP; only for rules that name no other protocol.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// Destination ports, likewise.
    pub destination_ports: Vec<RangeInclusive<u16>>,
}

impl Rule {
    /// Returns true if the rule applies to the port with this index.
    pub fn holds_on(&self, port: usize) -> bool {
        self.on.is_empty() || self.on.contains(&port)
    }

    /// Returns true if the rule names ports of TCP, UDP or SCTP.
    pub fn has_ports(&self) -> bool {
        !self.source_ports.is_empty() || !self.destination_ports.is_empty()
    }
}
