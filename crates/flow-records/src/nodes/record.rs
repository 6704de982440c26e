//! A flow as a worker hands it over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wattline_dataplane::port::PortId;

/// Why a record was made (RFC 5102 section 5.11.3, `flowEndReason`, has the numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came for the idle timeout.
    Idle = 1,
    /// The flow goes on, but has been for the active timeout.
    Active = 2,
    /// The router stops.
    Forced = 4,
    /// Its place in the table was needed for another flow.
    Evicted = 5,
}

/// What was seen of a flow, since it began or since its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Source address; of the same family as the destination.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port; 0 where the protocol has none or a later fragment does not show it.
    pub source_port: u16,
    /// Destination port likewise; for ICMP its type times 256 plus its code.
    pub destination_port: u16,
    /// Protocol number; for IPv6 that behind the extension headers.
    pub protocol: u8,
    /// Type of service or traffic class of its first packet.
    pub service: u8,
    /// All TCP flags that occurred.
    pub tcp_flags: u8,
    /// Where its first packet came in.
    pub port_in: PortId,
    /// The VLAN that it came in on, 0 for none.
    pub vlan_in: u16,
    /// Where its first packet went out; `None` where flows are observed before routing.
    pub port_out: Option<PortId>,
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets, headers included.
    pub bytes: u64,
    /// Its first packet, in milliseconds of UNIX time.
    pub first_millis: u64,
    /// Its last packet.
    pub last_millis: u64,
    /// Why there is a record now.
    pub end: EndReason,
}

/// A flow in the table: with two words of key (IPv4) it fills a cache line, with five (IPv6)
/// two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Flow<const N: usize> {
    pub key: [u64; N],
    pub packets: u64,
    pub bytes: u64,
    /// In milliseconds of the worker's time.
    pub first: u64,
    pub last: u64,
    pub port_in: u16,
    pub vlan_in: u16,
    /// [`NOWHERE`] where it is not known.
    pub port_out: u16,
    pub tcp_flags: u8,
    pub service: u8,
}

/// [`Flow::port_out`] before routing.
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

    /// The record of it, where the worker's time began at `epoch_millis` of UNIX time.
    pub fn record(&self, epoch_millis: u64, end: EndReason) -> Record {
        let (source, destination, rest) = match self.key[..] {
            [addresses, rest] => {
                let v4 = |address: u64| IpAddr::V4(Ipv4Addr::from(address as u32));
                (v4(addresses >> 32), v4(addresses), rest)
            }
            [a, b, c, d, rest] => (v6(a, b), v6(c, d), rest),
            // There are no other keys.
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
