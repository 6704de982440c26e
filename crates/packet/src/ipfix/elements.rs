//! Fields of flow records: their numbers, lengths and encoding.

use super::{FlowRecord, Version};
use crate::protocol;
use std::net::IpAddr;

/// A field, named as in IANA's registry of IPFIX information elements; numbers up to 127 are also
/// those of NetFlow version 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    SourceAddress,
    DestinationAddress,
    NextHop,
    SourcePort,
    DestinationPort,
    Protocol,
    ClassOfService,
    TcpControlBits,
    IcmpTypeCode,
    IngressInterface,
    EgressInterface,
    Vlan,
    SourcePrefixLength,
    DestinationPrefixLength,
    OctetDeltaCount,
    PacketDeltaCount,
    /// `flowStartMilliseconds`.
    Start,
    End,
    /// `flowStartSysUpTime`, the time base of version 9.
    StartUptime,
    EndUptime,
    EndReason,
}

use Element::*;

const IPFIX: &[Element] = &[
    SourceAddress,
    DestinationAddress,
    NextHop,
    IngressInterface,
    EgressInterface,
    OctetDeltaCount,
    PacketDeltaCount,
    Start,
    End,
    SourcePort,
    DestinationPort,
    IcmpTypeCode,
    Vlan,
    Protocol,
    ClassOfService,
    TcpControlBits,
    SourcePrefixLength,
    DestinationPrefixLength,
    EndReason,
];

const NETFLOW9: &[Element] = &[
    SourceAddress,
    DestinationAddress,
    NextHop,
    IngressInterface,
    EgressInterface,
    OctetDeltaCount,
    PacketDeltaCount,
    StartUptime,
    EndUptime,
    SourcePort,
    DestinationPort,
    IcmpTypeCode,
    Vlan,
    Protocol,
    ClassOfService,
    TcpControlBits,
    SourcePrefixLength,
    DestinationPrefixLength,
];

/// Fields of a flow record, in their order.
pub(super) fn of(version: Version) -> &'static [Element] {
    match version {
        Version::Ipfix => IPFIX,
        Version::Netflow9 => NETFLOW9,
    }
}

/// Returns the length of a flow record in bytes.
pub(super) fn record_length(version: Version, ipv6: bool) -> usize {
    of(version).iter().map(|element| usize::from(element.wire(version, ipv6).1)).sum()
}

impl Element {
    /// Returns the number and length in bytes. Flags take one byte, as RFC 7125 allows. Version 9
    /// has one number for ICMP of both families (RFC 3954 section 8); 139 exists only in IPFIX.
    pub fn wire(self, version: Version, ipv6: bool) -> (u16, u16) {
        let by = |four, six| if ipv6 { six } else { four };
        match self {
            SourceAddress => by((8, 4), (27, 16)),
            DestinationAddress => by((12, 4), (28, 16)),
            NextHop => by((15, 4), (62, 16)),
            SourcePort => (7, 2),
            DestinationPort => (11, 2),
            Protocol => (4, 1),
            ClassOfService => (5, 1),
            TcpControlBits => (6, 1),
            IcmpTypeCode if version == Version::Netflow9 => (32, 2),
            IcmpTypeCode => by((32, 2), (139, 2)),
            IngressInterface => (10, 4),
            EgressInterface => (14, 4),
            Vlan => (58, 2),
            SourcePrefixLength => by((9, 1), (29, 1)),
            DestinationPrefixLength => by((13, 1), (30, 1)),
            OctetDeltaCount => (1, 8),
            PacketDeltaCount => (2, 8),
            Start => (152, 8),
            End => (153, 8),
            StartUptime => (22, 4),
            EndUptime => (21, 4),
            EndReason => (136, 1),
        }
    }

    /// Appends the value; times of version 9 are relative to `boot_millis`.
    pub fn write(self, record: &FlowRecord, boot_millis: u64, out: &mut Vec<u8>) {
        // Wraps after 49 days, like the header's field.
        let uptime = |millis: u64| (millis.saturating_sub(boot_millis) as u32).to_be_bytes();
        let ipv6 = record.is_ipv6();
        match self {
            SourceAddress => address(Some(record.source), ipv6, out),
            DestinationAddress => address(Some(record.destination), ipv6, out),
            NextHop => address(record.next_hop, ipv6, out),
            SourcePort => out.extend(record.source_port.to_be_bytes()),
            DestinationPort => out.extend(record.destination_port.to_be_bytes()),
            Protocol => out.push(record.protocol),
            ClassOfService => out.push(record.service),
            TcpControlBits => out.push(record.tcp_flags),
            IcmpTypeCode => {
                let icmp = matches!(record.protocol, protocol::ICMP | protocol::ICMP6);
                out.extend(if icmp { record.destination_port } else { 0 }.to_be_bytes());
            }
            IngressInterface => out.extend(record.ingress.to_be_bytes()),
            EgressInterface => out.extend(record.egress.to_be_bytes()),
            Vlan => out.extend(record.vlan.to_be_bytes()),
            SourcePrefixLength => out.push(record.source_prefix),
            DestinationPrefixLength => out.push(record.destination_prefix),
            OctetDeltaCount => out.extend(record.bytes.to_be_bytes()),
            PacketDeltaCount => out.extend(record.packets.to_be_bytes()),
            Start => out.extend(record.first_millis.to_be_bytes()),
            End => out.extend(record.last_millis.to_be_bytes()),
            StartUptime => out.extend(uptime(record.first_millis)),
            EndUptime => out.extend(uptime(record.last_millis)),
            EndReason => out.push(record.end_reason),
        }
    }
}

/// Appends an address, or zeros if there is none or it is of the other family.
fn address(address: Option<IpAddr>, ipv6: bool, out: &mut Vec<u8>) {
    match (address, ipv6) {
        (Some(IpAddr::V4(address)), false) => out.extend(address.octets()),
        (Some(IpAddr::V6(address)), true) => out.extend(address.octets()),
        (_, false) => out.extend([0; 4]),
        (_, true) => out.extend([0; 16]),
    }
}
