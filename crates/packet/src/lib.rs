//! Wire formats, checksums, the receive-side-scaling hash, flow keys and the kernel's hash of them.
//!
//! There are two kinds of items. *Views* are fixed-layout headers over bytes, without a copy
//! (`ref_from_prefix` and similar functions of `zerocopy`, re-exported here). *Writers* build a
//! message in a buffer. A view exists only if there are enough bytes, and nothing here panics,
//! whatever the bytes are. Field values are as on the wire; `parse` functions check their
//! consistency (a length that fits, a correct checksum).
#![forbid(unsafe_code)]

pub mod checksum;
pub mod esp;
pub mod ethernet;
mod family;
pub mod flow;
pub mod icmp4;
pub mod icmp6;
pub mod ipfix;
pub mod ipv4;
pub mod ipv6;
pub mod kernel_hash;
pub mod mss;
pub mod redundancy;
pub mod toeplitz;
pub mod unfinished;

pub use family::Family;
pub use zerocopy::{FromBytes, IntoBytes};

/// IP protocol numbers (IANA) that the data plane uses.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// IPsec encapsulating security payload.
    pub const ESP: u8 = 50;
    /// IPv4 in a tunnel.
    pub const IPV4: u8 = 4;
    /// IPv6 in a tunnel.
    pub const IPV6: u8 = 41;
    /// IPsec authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMP6: u8 = 58;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// No payload (RFC 8200 section 4.7).
    pub const NO_NEXT: u8 = 59;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// IPv6 mobility header.
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// Host identity protocol.
    pub const HIP: u8 = 139;
    /// Site multihoming by IPv6 intermediation (RFC 5533).
    pub const SHIM6: u8 = 140;
    /// First number that IANA has not assigned. It could be a protocol or an extension header of
    /// IPv6; 253 and 254 are for experiments with either (RFC 4727, RFC 7045).
    pub const UNASSIGNED: u8 = 146;
}

#[cfg(test)]
mod fuzz;
