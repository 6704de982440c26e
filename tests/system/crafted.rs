//! Frames that test a router's rules one by one; captures of real traffic contain few of them.
//! All are addressed to the router's Ethernet address, as from the source.

use etherparse::PacketBuilder;
use std::net::{Ipv4Addr, Ipv6Addr};
use wattline_packet::checksum::Sum;
use wattline_testbed::topology::{LEFT, RIGHT, SOURCE};

/// Destination of most packets: beyond the sink, by the default route.
pub const FAR_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
pub const FAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7);
const IP: usize = 14;

pub fn udp4(source: Ipv4Addr, destination: Ipv4Addr, ttl: u8, payload: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac)
        .ipv4(source.octets(), destination.octets(), ttl)
        .udp(4000, 4001);
    let mut frame = Vec::new();
    builder.write(&mut frame, &numbered(payload)).unwrap();
    frame
}

pub fn udp6(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8, payload: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac)
        .ipv6(source.octets(), destination.octets(), hop_limit)
        .udp(4000, 4001);
    let mut frame = Vec::new();
    builder.write(&mut frame, &numbered(payload)).unwrap();
    frame
}

fn numbered(length: usize) -> Vec<u8> {
    (0..length).map(|index| index as u8).collect()
}

/// Changes a frame's IPv4 header and updates its checksum.
fn altered4(mut frame: Vec<u8>, alter: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    alter(&mut frame);
    let length = usize::from(frame[IP] & 0x0f) * 4;
    set_checksum(&mut frame[IP..IP + length]);
    frame
}

/// Sets the checksum of an IPv4 header.
pub fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = Sum::new().bytes(header).checksum();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// An IPv4 packet with four bytes of options.
fn with_options(options: [u8; 4]) -> Vec<u8> {
    altered4(udp4(SOURCE.v4, FAR_V4, 64, 26), |frame| {
        frame[IP] = 0x46;
        let total = u16::from_be_bytes([frame[IP + 2], frame[IP + 3]]) + 4;
        frame[IP + 2..IP + 4].copy_from_slice(&total.to_be_bytes());
        frame.splice(IP + 20..IP + 20, options);
    })
}

/// IPv4, one rule per frame.
pub fn ipv4() -> Vec<Vec<u8>> {
    let plain = || udp4(SOURCE.v4, FAR_V4, 64, 100);
    let mut frames = vec![
        plain(),
        udp4(SOURCE.v4, FAR_V4, 255, 0),
        udp4(SOURCE.v4, FAR_V4, 64, 1472),
        // Time to live: 2 is the last that passes; 1 and 0 are answered or discarded (RFC 1812 5.3.1).
        udp4(SOURCE.v4, FAR_V4, 2, 50),
        udp4(SOURCE.v4, FAR_V4, 1, 50),
        udp4(SOURCE.v4, FAR_V4, 0, 50),
        // To the router itself, at both of its addresses: no socket listens.
        udp4(SOURCE.v4, LEFT.v4, 64, 50),
        udp4(SOURCE.v4, RIGHT.v4, 64, 50),
        // Fragments, first and later, travel as they are.
        altered4(plain(), |frame| frame[IP + 6..IP + 8].copy_from_slice(&[0x20, 0])),
        altered4(plain(), |frame| frame[IP + 6..IP + 8].copy_from_slice(&[0x00, 20])),
        altered4(plain(), |frame| frame[IP + 6..IP + 8].copy_from_slice(&[0x40, 0])),
        // Type of service and congestion marks are kept.
        altered4(plain(), |frame| frame[IP + 1] = 0xb9),
        // Options: two no-operations and the end; a router alert (RFC 2113).
        with_options([1, 1, 1, 0]),
        with_options([148, 4, 0, 0]),
        // An unknown transport.
        altered4(plain(), |frame| frame[IP + 9] = 253),
        // Padding after the packet, as short frames have it.
        [plain(), vec![0xaa; 30]].concat(),
        udp4(Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(192, 168, 9, 9), 64, 10),
        // Packets with the router's own source address are forged.
        udp4(LEFT.v4, FAR_V4, 64, 30),
        udp4(RIGHT.v4, FAR_V4, 64, 30),
        // No ICMP error goes to a whole network for an expired packet (RFC 1812 4.3.2.7).
        udp4(SOURCE.v4, Ipv4Addr::new(198, 19, 0, 255), 1, 30),
    ];
    // Addresses that must not be forwarded from or to (RFC 1812 5.3.7, RFC 1122 3.2.1.3).
    for address in [
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 5),
        Ipv4Addr::new(239, 1, 2, 3),
        Ipv4Addr::new(240, 0, 0, 1),
        Ipv4Addr::new(0, 1, 2, 3),
        Ipv4Addr::new(198, 18, 0, 255),
        Ipv4Addr::new(198, 19, 0, 255),
    ] {
        frames.push(udp4(SOURCE.v4, address, 64, 30));
        frames.push(udp4(address, FAR_V4, 64, 30));
    }
    // Headers that are wrong (RFC 1812 5.2.2).
    let mut bad_checksum = plain();
    bad_checksum[IP + 10] ^= 0x55;
    frames.push(bad_checksum);
    frames.push(altered4(plain(), |frame| frame[IP] = 0x65));
    frames.push(altered4(plain(), |frame| frame[IP + 2..IP + 4].copy_from_slice(&[0, 19])));
    frames.push(altered4(plain(), |frame| frame[IP + 2..IP + 4].copy_from_slice(&[5, 0])));
    let mut short_header = plain();
    short_header[IP] = 0x44;
    frames.push(short_header);
    frames.extend([15, 20, 30, 33].map(|length| plain()[..length].to_vec()));
    frames
}

/// IPv6, one rule per frame.
pub fn ipv6() -> Vec<Vec<u8>> {
    let plain = || udp6(SOURCE.v6, FAR_V6, 64, 100);
    let altered = |alter: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = plain();
        alter(&mut frame);
        frame
    };
    let mut frames = vec![
        plain(),
        udp6(SOURCE.v6, FAR_V6, 255, 0),
        udp6(SOURCE.v6, FAR_V6, 64, 1452),
        udp6(SOURCE.v6, FAR_V6, 2, 50),
        udp6(SOURCE.v6, FAR_V6, 1, 50),
        udp6(SOURCE.v6, FAR_V6, 0, 50),
        udp6(SOURCE.v6, LEFT.v6, 64, 50),
        udp6(SOURCE.v6, RIGHT.v6, 64, 50),
        // Traffic class and flow label are kept.
        altered(&|frame| frame[IP..IP + 4].copy_from_slice(&[0x6b, 0x91, 0x23, 0x45])),
        // No next header (RFC 8200 4.7), an unknown one, a fragment header.
        altered(&|frame| frame[IP + 6] = 59),
        altered(&|frame| frame[IP + 6] = 253),
        altered(&|frame| {
            frame[IP + 6] = 44;
            frame[IP + 40..IP + 48].copy_from_slice(&[17, 0, 0, 1, 0, 0, 0, 9]);
        }),
        // Hop-by-hop options that are padding (RFC 8200 4.3).
        altered(&|frame| {
            frame[IP + 6] = 0;
            frame[IP + 40..IP + 48].copy_from_slice(&[59, 0, 1, 4, 0, 0, 0, 0]);
        }),
        [plain(), vec![0xaa; 30]].concat(),
        udp6(LEFT.v6, FAR_V6, 64, 30),
        udp6(RIGHT.v6, FAR_V6, 64, 30),
    ];
    // Scopes that must not be forwarded (RFC 4291 2.5.2, 2.5.3, 2.5.6, 2.7).
    for address in [
        Ipv6Addr::UNSPECIFIED,
        Ipv6Addr::LOCALHOST,
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9),
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9),
        Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 9),
        Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 9),
        Ipv4Addr::new(192, 0, 2, 9).to_ipv6_mapped(),
        Ipv4Addr::new(192, 0, 2, 9).to_ipv6_compatible(),
    ] {
        frames.push(udp6(SOURCE.v6, address, 64, 30));
        frames.push(udp6(address, FAR_V6, 64, 30));
    }
    frames.push(altered(&|frame| frame[IP] = 0x45));
    frames.push(altered(&|frame| frame[IP + 4..IP + 6].copy_from_slice(&[5, 0])));
    frames.extend([15, 40, 53].map(|length| plain()[..length].to_vec()));
    frames
}
