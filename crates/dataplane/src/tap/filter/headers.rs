//! Headers of a frame, parsed once for all tests of a filter.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use wattline_packet::ethernet;

/// Headers of IPv6 that may precede the payload and are skipped (RFC 8200): hop-by-hop options,
/// routing, destination options.
const OPTIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;
/// Authentication header: its length is in words of four bytes (RFC 4302).
const AUTHENTICATION: u8 = 51;
/// Most such headers of one packet that are skipped.
const CHAIN: usize = 8;
/// TCP, UDP, DCCP, SCTP: their first four bytes are the ports.
const WITH_PORTS: [u8; 4] = [6, 17, 33, 132];

/// Parsed headers of a frame; a part that is cut off is unknown.
#[derive(Debug, Default)]
pub struct Headers {
    /// 4 or 6; 0 for anything but IP.
    pub version: u8,
    /// Protocol that IP carries.
    pub protocol: Option<u8>,
    /// Source and destination; IPv4 addresses are in the low 32 bits.
    pub addresses: (u128, u128),
    /// Source and destination.
    pub ports: Option<(u16, u16)>,
    /// Number of the outer tag.
    pub vlan: Option<u16>,
}

impl Headers {
    /// Reads a frame from its Ethernet header on.
    pub fn parse(frame: &[u8]) -> Self {
        let mut headers = Self::default();
        let mut at = ethernet::HEADER - 2;
        let mut kind = half(frame, at);
        // A tag of 802.1ad is followed by another one.
        for _ in 0..2 {
            if !matches!(kind, Some(ethernet::VLAN | ethernet::SERVICE_VLAN)) {
                break;
            }
            let number = half(frame, at + 2).map(|control| control & 0x0fff);
            headers.vlan = headers.vlan.or(number);
            at += ethernet::TAG;
            kind = half(frame, at);
        }
        let packet = frame.get(at + 2..).unwrap_or_default();
        match kind {
            Some(ethernet::IPV4) => headers.ipv4(packet),
            Some(ethernet::IPV6) => headers.ipv6(packet),
            _ => {}
        }
        headers
    }

    fn ipv4(&mut self, packet: &[u8]) {
        let Some(header) = packet.first_chunk::<20>() else { return };
        if header[0] >> 4 != 4 {
            return;
        }
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        self.version = 4;
        self.protocol = Some(header[9]);
        self.addresses = (
            u32::from_be_bytes([s0, s1, s2, s3]).into(),
            u32::from_be_bytes([d0, d1, d2, d3]).into(),
        );
        if u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0 {
            self.ports_at(packet, usize::from(header[0] & 0x0f) * 4);
        }
    }

    fn ipv6(&mut self, packet: &[u8]) {
        let Some(header) = packet.first_chunk::<40>() else { return };
        if header[0] >> 4 != 6 {
            return;
        }
        let address = |at: usize| {
            header[at..at + 16].iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
        };
        self.version = 6;
        self.addresses = (address(8), address(24));
        let (mut protocol, mut at) = (header[6], header.len());
        for _ in 0..CHAIN {
            let length = match protocol {
                FRAGMENT => 8,
                AUTHENTICATION => (byte(packet, at + 1) + 2) * 4,
                options if OPTIONS.contains(&options) => (byte(packet, at + 1) + 1) * 8,
                _ => break,
            };
            let Some(next) = packet.get(at) else { return };
            let is_later =
                protocol == FRAGMENT && half(packet, at + 2).is_none_or(|it| it & 0xfff8 != 0);
            (protocol, at) = (*next, at + length);
            if is_later {
                self.protocol = Some(protocol);
                return;
            }
        }
        self.protocol = Some(protocol);
        self.ports_at(packet, at);
    }

    fn ports_at(&mut self, packet: &[u8], at: usize) {
        if self.protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol)) {
            self.ports = half(packet, at).zip(half(packet, at + 2));
        }
    }
}

/// Shows the headers in one line: `192.0.2.9:1000 > 203.0.113.5:53 udp`.
impl fmt::Display for Headers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vlan) = self.vlan {
            write!(out, "vlan {vlan} ")?;
        }
        if self.version == 0 {
            return out.write_str("not IP");
        }
        let end = |address: u128, port: Option<u16>| {
            let address = match self.version {
                4 => Ipv4Addr::from_bits(address as u32).into(),
                _ => Ipv6Addr::from_bits(address).into(),
            };
            port.map_or_else(
                || format!("{address}"),
                |port| SocketAddr::new(address, port).to_string(),
            )
        };
        let (source, destination) = self.addresses;
        let (from, to) = (self.ports.map(|it| it.0), self.ports.map(|it| it.1));
        write!(out, "{} > {}", end(source, from), end(destination, to))?;
        match self.protocol {
            None => Ok(()),
            Some(1) if self.version == 4 => out.write_str(" icmp"),
            Some(6) => out.write_str(" tcp"),
            Some(17) => out.write_str(" udp"),
            Some(50) => out.write_str(" esp"),
            Some(58) if self.version == 6 => out.write_str(" icmp6"),
            Some(protocol) => write!(out, " proto {protocol}"),
        }
    }
}

fn byte(bytes: &[u8], at: usize) -> usize {
    bytes.get(at).map_or(0, |byte| usize::from(*byte))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_be_bytes(*half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MAC_A, frame4_vlan, frame6};

    #[test]
    fn packets_are_described_in_a_line() {
        let text = |frame: &[u8]| Headers::parse(frame).to_string();
        let mut six = frame6(MAC_A, 64, &[0, 9, 0, 53, 0, 8, 0, 0]);
        assert_eq!(text(&six), "[2001:db8:1::9]:9 > [2001:db8:3::5]:53 udp");
        six[14 + 6] = 58;
        assert_eq!(text(&six), "2001:db8:1::9 > 2001:db8:3::5 icmp6");
        let tagged = frame4_vlan(MAC_A, 7);
        assert_eq!(text(&tagged), "vlan 7 192.0.2.9:28769 > 203.0.113.5:31084 udp");
        assert_eq!(text(&[0; 13]), "not IP");
    }
}
