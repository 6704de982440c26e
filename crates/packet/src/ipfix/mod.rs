//! Flow records on the wire: IPFIX (RFC 7011, elements of RFC 7012 and IANA's registry) and
//! NetFlow version 9 (RFC 3954).
//!
//! The templates are fixed: one for IPv4 flows, one for IPv6 flows, and options that report the
//! sampling of packets and the losses. [`Encoder`] builds messages and holds the state of one
//! exporting process towards one collector.

mod elements;
mod encoder;
mod options;

pub use encoder::{Encoder, MOST_BYTES};
pub use options::{Sampler, Status};

use std::net::IpAddr;

/// Format of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// NetFlow version 9.
    Netflow9,
    /// IPFIX, the successor of NetFlow version 9 ("version 10").
    Ipfix,
}

/// Template of IPv4 flows; ids below 256 are reserved (RFC 7011 section 3.4.1).
pub const TEMPLATE_IPV4: u16 = 256;
/// Template of IPv6 flows.
pub const TEMPLATE_IPV6: u16 = 257;
/// Options template of [`Status`].
pub const TEMPLATE_STATUS: u16 = 258;
/// Options template of [`Sampler`].
pub const TEMPLATE_SAMPLER: u16 = 259;

/// A flow record for export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord {
    /// Source address; its IP version is that of the record.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Neighbour to which the flow is forwarded; `None` if it is the destination or not known.
    pub next_hop: Option<IpAddr>,
    /// Source port.
    pub source_port: u16,
    /// Destination port; for ICMP, type × 256 + code.
    pub destination_port: u16,
    /// Protocol number.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub service: u8,
    /// All TCP flags that occurred, combined by OR.
    pub tcp_flags: u8,
    /// Number of the ingress interface.
    pub ingress: u32,
    /// Number of the egress interface, 0 if not known.
    pub egress: u32,
    /// VLAN id, 0 for none.
    pub vlan: u16,
    /// Length of the source's prefix in the routing table.
    pub source_prefix: u8,
    /// Length of the destination's prefix in the routing table.
    pub destination_prefix: u8,
    /// Packets since the last record of this flow.
    pub packets: u64,
    /// Bytes of the IP packets since the last record of this flow.
    pub bytes: u64,
    /// Time of the first packet in milliseconds of UNIX time.
    pub first_millis: u64,
    /// Time of the last packet in milliseconds of UNIX time.
    pub last_millis: u64,
    /// `flowEndReason`, 1 to 5.
    pub end_reason: u8,
}

impl FlowRecord {
    /// Returns true if the addresses are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.source.is_ipv6()
    }
}

#[cfg(test)]
mod tests;
