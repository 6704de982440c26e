//! Parts of a packet that its flow needs.

use super::record::{Flow, NOWHERE};
use wattline_dataplane::frame::ChunkMemory;
use wattline_dataplane::packet::{Packet, field};
use wattline_packet::ipv6::{self, Fragment};
use wattline_packet::protocol;

/// Data of a packet for its flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation<const N: usize> {
    pub key: [u64; N],
    pub hash: u64,
    /// Length of the IP packet in bytes.
    pub bytes: u16,
    pub tcp_flags: u8,
    pub service: u8,
    pub port_in: u16,
    pub vlan_in: u16,
    /// Id of the next hop.
    pub next_hop: u16,
    /// TTL or hop limit.
    pub lifetime: u8,
    /// True if it may be fragmented.
    pub fragmentable: bool,
}

impl<const N: usize> Observation<N> {
    pub const EMPTY: Self = Self {
        key: [0; N],
        hash: 0,
        bytes: 0,
        tcp_flags: 0,
        service: 0,
        port_in: 0,
        vlan_in: 0,
        next_hop: 0,
        lifetime: 0,
        fragmentable: false,
    };

    /// Returns a flow that consists of this packet, at a time in milliseconds.
    pub fn flow(&self, now: u64) -> Flow<N> {
        Flow {
            key: self.key,
            packets: 1,
            bytes: self.bytes.into(),
            first: now,
            last: now,
            port_in: self.port_in,
            vlan_in: self.vlan_in,
            port_out: NOWHERE,
            tcp_flags: self.tcp_flags,
            service: self.service,
        }
    }
}

/// IP version, with the number of words in its keys.
pub(super) trait Family<const N: usize>: Send {
    /// Name of the node.
    const NAME: &'static str;

    /// Reads a packet; `None` if its headers are malformed.
    fn observe(packet: &Packet, memory: &ChunkMemory) -> Option<Observation<N>>;
}

pub(super) struct Ipv4;
pub(super) struct Ipv6;

impl Family<2> for Ipv4 {
    const NAME: &'static str = "ip4-flow-records";

    #[inline]
    fn observe(packet: &Packet, memory: &ChunkMemory) -> Option<Observation<2>> {
        let start = packet.network_offset();
        let header = memory.array::<20>(start)?;
        let total = u16::from_be_bytes(field::<2, 2, _>(header));
        let length = usize::from(header[0] & 0xf) * 4;
        let protocol = header[9];
        let later = u16::from_be_bytes(field::<6, 2, _>(header)) & 0x1fff != 0;
        let end = start + usize::from(total).min(packet.network_length());
        let (ports, tcp_flags) = match later {
            true => (0, 0),
            false => transport(memory, start + length, end, protocol),
        };
        let addresses = u64::from_be_bytes(field::<12, 8, _>(header));
        Some(Observation {
            key: [addresses, u64::from(ports) << 32 | u64::from(protocol)],
            bytes: total,
            tcp_flags,
            service: header[1],
            lifetime: header[8],
            fragmentable: header[6] & 0x40 == 0,
            ..of(packet)
        })
    }
}

impl Family<5> for Ipv6 {
    const NAME: &'static str = "ip6-flow-records";

    #[inline]
    fn observe(packet: &Packet, memory: &ChunkMemory) -> Option<Observation<5>> {
        let start = packet.network_offset();
        let header = memory.array::<40>(start)?;
        let total = u16::from_be_bytes(field::<4, 2, _>(header)).saturating_add(40);
        let end = start + usize::from(total).min(packet.network_length());
        let payload = ipv6::payload(memory.get(start..end)?)?;
        let protocol = payload.protocol;
        let (ports, tcp_flags) = match payload.fragment {
            Fragment::Later(_) => (0, 0),
            Fragment::Whole | Fragment::First => {
                transport(memory, start + payload.offset, end, protocol)
            }
        };
        let word = |bytes| u64::from_be_bytes(bytes);
        let key = [
            word(field::<8, 8, _>(header)),
            word(field::<16, 8, _>(header)),
            word(field::<24, 8, _>(header)),
            word(field::<32, 8, _>(header)),
            u64::from(ports) << 32 | u64::from(protocol),
        ];
        let service = (u16::from_be_bytes(field::<0, 2, _>(header)) >> 4) as u8;
        let lifetime = header[7];
        Some(Observation { key, bytes: total, tcp_flags, service, lifetime, ..of(packet) })
    }
}

/// Returns the data of a packet from its metadata.
#[inline]
fn of<const N: usize>(packet: &Packet) -> Observation<N> {
    Observation {
        port_in: packet.frame.port_in.0,
        vlan_in: packet.vlan_in,
        next_hop: packet.next_hop.0,
        ..Observation::EMPTY
    }
}

/// Returns both ports in one word, source first, and the TCP flags. They are zero if the protocol
/// has none or the packet ends before them. For ICMP, type and code take the place of the
/// destination port, as in NetFlow since version 5.
#[inline]
fn transport(memory: &ChunkMemory, at: usize, end: usize, protocol: u8) -> (u32, u8) {
    let fits = |length| at + length <= end;
    match protocol {
        protocol::TCP | protocol::UDP | protocol::SCTP if fits(4) => {
            let ports = memory.array::<4>(at).map_or(0, |bytes| u32::from_be_bytes(*bytes));
            let has_flags = protocol == protocol::TCP && fits(14);
            let flags =
                if has_flags { memory.array::<1>(at + 13).map_or(0, |flags| flags[0]) } else { 0 };
            (ports, flags)
        }
        protocol::ICMP | protocol::ICMP6 if fits(2) => {
            (memory.array::<2>(at).map_or(0, |it| u16::from_be_bytes(*it).into()), 0)
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;
    use wattline_dataplane::frame::Frame;
    use wattline_dataplane::port::PortId;

    fn packet(length: usize) -> Packet {
        Packet::new(Frame { offset: 0, length: length as u16, port_in: PortId(3) })
    }

    /// Returns a chunk that begins with these bytes.
    fn memory(bytes: &[u8]) -> ChunkMemory {
        let mut memory = ChunkMemory::zeroed(2, bytes.len().next_power_of_two());
        if let Some(to) = memory.get_mut(0..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        memory
    }

    fn record<const N: usize>(seen: Observation<N>) -> crate::nodes::Record {
        seen.flow(5).record(1000, super::super::EndReason::Idle)
    }

    #[test]
    fn ipv4_fields_are_observed() {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4([192, 0, 2, 1], [198, 51, 100, 2], 64)
            .tcp(1000, 80, 0, 1)
            .syn()
            .write(&mut bytes, b"hello")
            .unwrap();
        bytes.resize(80, 0);
        let found = record(Ipv4::observe(&packet(80), &memory(&bytes)).unwrap());
        assert_eq!((found.source_port, found.destination_port, found.protocol), (1000, 80, 6));
        assert_eq!((found.bytes, found.packets, found.tcp_flags), (45, 1, 2), "without padding");
        assert_eq!(found.source, "192.0.2.1".parse::<std::net::IpAddr>().unwrap());
        assert_eq!(found.destination, "198.51.100.2".parse::<std::net::IpAddr>().unwrap());
        assert_eq!((found.port_in, found.port_out), (PortId(3), None));
        assert_eq!((found.first_millis, found.last_millis), (1005, 1005));
        // A later fragment has payload at the position of the ports.
        bytes[14 + 7] = 9;
        let found = record(Ipv4::observe(&packet(80), &memory(&bytes)).unwrap());
        assert_eq!((found.source_port, found.destination_port, found.tcp_flags), (0, 0, 0));
    }

    #[test]
    fn ipv6_and_icmp() {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], [2; 16], 64)
            .icmpv6_echo_request(1, 2)
            .write(&mut bytes, b"hello")
            .unwrap();
        let found = record(Ipv6::observe(&packet(bytes.len()), &memory(&bytes)).unwrap());
        assert_eq!((found.protocol, found.destination_port, found.bytes), (58, 128 << 8, 53));
        assert_eq!(found.source, std::net::IpAddr::from([1; 16]));
        assert_eq!(found.destination, std::net::IpAddr::from([2; 16]));
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, length: u16) {
            let memory = memory(&bytes);
            let _ = Ipv4::observe(&packet(length.into()), &memory);
            let _ = Ipv6::observe(&packet(length.into()), &memory);
        }
    }
}
