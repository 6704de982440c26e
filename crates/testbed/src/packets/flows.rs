//! Headers of flows, and their frames.

use super::sizes::FCS;
use super::stamp::{self, Stamp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wattline_packet::checksum::Sum;
use wattline_xdp::measured::FlowHeaders;

const ETHERNET: usize = 14;
const UDP: usize = 8;
const HEADERS_MAX: usize = ETHERNET + 40 + UDP;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_UDP: u8 = 17;
const HOPS: u8 = 64;
/// First source port; each flow has its own port from here on.
const FIRST_PORT: u16 = 1024;
const PORTS: u32 = u16::MAX as u32 - FIRST_PORT as u32 + 1;
/// Destination port: discard (RFC 863).
const DISCARD: u16 = 9;
/// Largest number of flows of a load.
pub const FLOWS_MAX: u32 = 1 << 20;

/// Addresses of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Ethernet address of the sending interface.
    pub source_mac: [u8; 6],
    /// Ethernet address of the device's interface, or of the receiver on a plain link.
    pub destination_mac: [u8; 6],
    /// IP address of the sender.
    pub source: IpAddr,
    /// First destination address, of the same family.
    pub destination: IpAddr,
    /// Number of consecutive destination addresses; flows take them in turn.
    pub destinations: u32,
}

/// Headers of a flow, except the fields that depend on the length of a frame.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    bytes: [u8; HEADERS_MAX],
    ipv6: bool,
    /// Checksum of the IPv4 header without length and checksum.
    ip: Sum,
    /// Checksum of pseudo-header and UDP header without lengths and checksum.
    udp: Sum,
}

/// Returns the bytes of headers, Ethernet to UDP.
fn headers(ipv6: bool) -> usize {
    if ipv6 { HEADERS_MAX } else { HEADERS_MAX - 20 }
}

/// Returns the length of the shortest frame that holds a stamp, frame check sequence included: 64
/// bytes for IPv4, 84 for IPv6.
pub fn shortest_frame(ipv6: bool) -> u16 {
    // At most 84.
    (headers(ipv6) + stamp::LENGTH) as u16 + FCS
}

impl Flow {
    /// Creates the flow with this number.
    pub fn new(addresses: &Addresses, number: u32) -> Self {
        let mut bytes = [0; HEADERS_MAX];
        bytes[..6].copy_from_slice(&addresses.destination_mac);
        bytes[6..12].copy_from_slice(&addresses.source_mac);
        // The remainder is below the number of ports.
        let port = FIRST_PORT + (number % PORTS) as u16;
        // Flows beyond the number of ports differ in their addresses, if there are several.
        let offset = (number % addresses.destinations.max(1)).wrapping_add(number / PORTS)
            % addresses.destinations.max(1);
        let ipv6 = addresses.destination.is_ipv6();
        let (mut ip, mut udp) = (Sum::new(), Sum::new().word(PROTOCOL_UDP.into()));
        if ipv6 {
            bytes[12..14].copy_from_slice(&ETHERTYPE_IPV6);
            bytes[14] = 0x60;
            bytes[20] = PROTOCOL_UDP;
            bytes[21] = HOPS;
            bytes[22..38].copy_from_slice(&v6(addresses.source).octets());
            let to = u128::from(v6(addresses.destination)).wrapping_add(offset.into());
            bytes[38..54].copy_from_slice(&to.to_be_bytes());
            udp = udp.bytes(&bytes[22..54]);
        } else {
            bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4);
            bytes[14] = 0x45;
            bytes[22] = HOPS;
            bytes[23] = PROTOCOL_UDP;
            bytes[26..30].copy_from_slice(&v4(addresses.source).octets());
            let to = u32::from(v4(addresses.destination)).wrapping_add(offset);
            bytes[30..34].copy_from_slice(&to.to_be_bytes());
            ip = ip.bytes(&bytes[14..34]);
            udp = udp.bytes(&bytes[26..34]);
        }
        let transport = headers(ipv6) - UDP;
        bytes[transport..transport + 2].copy_from_slice(&port.to_be_bytes());
        bytes[transport + 2..transport + 4].copy_from_slice(&DISCARD.to_be_bytes());
        udp = udp.bytes(&bytes[transport..transport + 4]);
        Self { bytes, ipv6, ip, udp }
    }

    /// Returns the headers for a program that makes frames of this flow.
    pub fn headers(&self) -> FlowHeaders {
        FlowHeaders {
            bytes: self.bytes[..headers(self.ipv6)].to_vec(),
            ip_sum: !self.ip.checksum(),
            udp_sum: !self.udp.checksum(),
        }
    }

    /// Returns true for IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// Writes a frame that fills `frame`, whose length is that on the wire without frame check
    /// sequence: at least [`shortest_frame`] minus four.
    #[inline]
    pub fn write(&self, frame: &mut [u8], stamp: Stamp) {
        let length = headers(self.ipv6);
        // Frames have at most 1518 bytes.
        let datagram = (frame.len() - (length - UDP)) as u16;
        frame[..length].copy_from_slice(&self.bytes[..length]);
        if self.ipv6 {
            frame[18..20].copy_from_slice(&datagram.to_be_bytes());
        } else {
            let total = datagram + 20;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            let checksum = self.ip.word(total.into()).checksum();
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        let stamp = stamp.emit();
        // The rest of the payload is zero. The length counts twice (RFC 768): in pseudo-header
        // and header.
        let sum = self.udp.word(datagram.into()).word(datagram.into()).bytes(&stamp);
        let checksum = match sum.checksum() {
            0 => 0xffff,
            checksum => checksum,
        };
        let udp = &mut frame[length - UDP..];
        udp[4..6].copy_from_slice(&datagram.to_be_bytes());
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        udp[UDP..UDP + stamp::LENGTH].copy_from_slice(&stamp);
        udp[UDP + stamp::LENGTH..].fill(0);
    }
}

/// Returns the UDP payload of a frame; `None` for any other frame.
#[inline]
pub(super) fn payload(frame: &[u8]) -> Option<&[u8]> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET)?;
    match *ethernet.last_chunk::<2>()? {
        ETHERTYPE_IPV4 if *packet.get(9)? == PROTOCOL_UDP => {
            let header = usize::from(packet[0] & 15) * 4;
            packet.get(header + UDP..)
        }
        ETHERTYPE_IPV6 if *packet.get(6)? == PROTOCOL_UDP => packet.get(40 + UDP..),
        _ => None,
    }
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::Parsed;
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use std::collections::HashSet;

    fn addresses(ipv6: bool) -> Addresses {
        let ends = if ipv6 { ["2001:2::2", "2001:2:0:9::1"] } else { ["198.18.0.2", "198.19.0.1"] };
        let [source, destination] = ends.map(|end| end.parse().unwrap());
        Addresses {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source,
            destination,
            destinations: 4,
        }
    }

    #[test]
    fn frames_are_valid_udp_for_other_parsers() {
        for (ipv6, length) in [(false, 60), (false, 1514), (true, 80), (true, 1514)] {
            let flow = Flow::new(&addresses(ipv6), 7);
            let stamp = Stamp { run: 1, stream: 2, sequence: 3, nanos: 4 };
            let mut frame = vec![0xee; length];
            flow.write(&mut frame, stamp);
            let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
            let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP") };
            assert_eq!((udp.source_port(), udp.destination_port()), (1031, 9));
            let checksum = match sliced.net.as_ref().unwrap() {
                NetSlice::Ipv4(ip) => {
                    let header = ip.header().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum());
                    assert_eq!(header.destination, [198, 19, 0, 4]);
                    udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap()
                }
                NetSlice::Ipv6(ip) => {
                    let header = ip.header().to_header();
                    udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap()
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(udp.checksum(), checksum);
            assert_eq!(Stamp::parse(payload(&frame).unwrap()), Parsed::Stamp(stamp));
            assert!(udp.payload()[stamp::LENGTH..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn shortest_frames_have_room_for_a_stamp() {
        assert_eq!((shortest_frame(false), shortest_frame(true)), (64, 84));
    }

    #[test]
    fn flows_differ_from_each_other() {
        let key = |number| Flow::new(&addresses(false), number).bytes[26..38].to_vec();
        let keys: HashSet<_> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
    }

    #[test]
    fn hostile_frames_have_no_payload() {
        for frame in [&[][..], &[0; 13], &[0; 14], &[0; 60], &[0xff; 60]] {
            assert_eq!(payload(frame), None);
        }
        // An IPv4 header that claims to be longer than the frame.
        let mut frame = [0; 34];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x4f]);
        frame[23] = PROTOCOL_UDP;
        assert_eq!(payload(&frame), None);
    }
}
