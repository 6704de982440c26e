//! Flow records on the wire: IPFIX (RFC 7011, elements of RFC 7012 and IANA's registry) and
//! NetFlow version 9 (RFC 3954).
//!
//! The templates are fixed: one for IPv4 flows, one for IPv6 flows, and options that tell how
//! packets were sampled and what did not arrive. [`Encoder`] builds messages; it is the state of
//! one exporting process towards one collector.

mod elements;
mod encoder;
mod options;

pub use encoder::{Encoder, MOST_BYTES};
pub use options::{Sampler, Status};

use std::net::IpAddr;

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// NetFlow version 9.
    Netflow9,
    /// IPFIX, which is its successor ("version 10").
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

/// A flow, as it is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord {
    /// Source address; its family is the record's.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The neighbour that the flow is forwarded to; `None` where that is the destination or
    /// not known.
    pub next_hop: Option<IpAddr>,
    /// Source port.
    pub source_port: u16,
    /// Destination port; for ICMP type times 256 plus code.
    pub destination_port: u16,
    /// Protocol number.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub service: u8,
    /// All TCP flags that occurred.
    pub tcp_flags: u8,
    /// Number of the interface where it came in.
    pub ingress: u32,
    /// Number of the interface where it left, 0 where it is not known.
    pub egress: u32,
    /// VLAN, 0 for none.
    pub vlan: u16,
    /// Length of the source's prefix in the routing table.
    pub source_prefix: u8,
    /// Length of the destination's.
    pub destination_prefix: u8,
    /// Packets since the last record of this flow.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
    /// First packet, in milliseconds of UNIX time.
    pub first_millis: u64,
    /// Last packet.
    pub last_millis: u64,
    /// `flowEndReason`, 1 to 5.
    pub end_reason: u8,
}

impl FlowRecord {
    /// Whether addresses are of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.source.is_ipv6()
    }
}

#[cfg(test)]
mod tests;
