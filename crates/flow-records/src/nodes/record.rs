//! Flow records, as workers pass them to the control thread.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wattline_dataplane::port::PortId;

/// Reason for a record (numbers of `flowEndReason`, RFC 5102 section 5.11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came within the idle timeout.
    Idle = 1,
    /// The flow continues, but has lasted for the active timeout.
    Active = 2,
    /// The router stops.
    Forced = 4,
    /// The place of the flow in the table was needed for another flow.
    Evicted = 5,
}

/// Counts of a flow since it began or since its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Source address, of the same IP version as the destination.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port; 0 if the protocol has none or the first packet was a later fragment.
    pub source_port: u16,
    /// Destination port, 0 as for the source port; for ICMP, type × 256 + code.
    pub destination_port: u16,
    /// Protocol number; for IPv6, the one after the extension headers.
    pub protocol: u8,
    /// Type of service or traffic class of the first packet.
    pub service: u8,
    /// All TCP flags that occurred, combined by OR.
    pub tcp_flags: u8,
    /// Port on which the first packet arrived.
    pub port_in: PortId,
    /// VLAN id with which the first packet arrived, 0 for none.
    pub vlan_in: u16,
    /// Egress port of the first packet; `None` if flows are observed before routing.
    pub port_out: Option<PortId>,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of IP packets, headers included.
    pub bytes: u64,
    /// Time of the first packet, in milliseconds of UNIX time.
    pub first_millis: u64,
    /// Time of the last packet, in milliseconds of UNIX time.
    pub last_millis: u64,
    /// Reason for the record.
    pub end: EndReason,
}

/// A flow in the table. It fills one cache line with a key of two words (IPv4), and two with a key
/// of five words (IPv6).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Flow<const N: usize> {
    pub key: [u64; N],
    pub packets: u64,
    pub bytes: u64,
    /// Time of the first packet in milliseconds of the worker's time.
    pub first: u64,
    pub last: u64,
    pub port_in: u16,
    pub vlan_in: u16,
    /// Egress port, or [`NOWHERE`] if it is not known.
    pub port_out: u16,
    pub tcp_flags: u8,
    pub service: u8,
}

/// Value of [`Flow::port_out`] before routing.
pub(super) const NOWHERE: u16 = u16::MAX;

impl<const N: usize> Flow<N> {
    pub const EMPTY: Self = Self {
        key: [0; N],
        packets: 0,
        bytes: 0,
        first: 0,
        last: 0,
        port_in: 0,
        vlan_in: 0,
        port_out: NOWHERE,
        tcp_flags: 0,
        service: 0,
    };

    /// Returns the record of the flow, if the worker's time began at `epoch_millis` of UNIX time.
    pub fn record(&self, epoch_millis: u64, end: EndReason) -> Record {
        let (source, destination, rest) = match self.key[..] {
            [addresses, rest] => {
                let v4 = |address: u64| IpAddr::V4(Ipv4Addr::from(address as u32));
                (v4(addresses >> 32), v4(addresses), rest)
            }
            [a, b, c, d, rest] => (v6(a, b), v6(c, d), rest),
            // No keys have another length.
            _ => (v6(0, 0), v6(0, 0), 0),
        };
        Record {
            source,
            destination,
            source_port: (rest >> 48) as u16,
            destination_port: (rest >> 32) as u16,
            protocol: rest as u8,
            service: self.service,
            tcp_flags: self.tcp_flags,
            port_in: PortId(self.port_in),
            vlan_in: self.vlan_in,
            port_out: (self.port_out != NOWHERE).then_some(PortId(self.port_out)),
            packets: self.packets,
            bytes: self.bytes,
            first_millis: epoch_millis + self.first,
            last_millis: epoch_millis + self.last,
            end,
        }
    }
}

fn v6(high: u64, low: u64) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)))
}
