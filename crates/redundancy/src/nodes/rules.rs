//! Rules that select packets for an encoder or decoder. Both sides need the same rules, so that
//! they cache the same packets; differences cost packets that must be sent again.

use ipnet::IpNet;
use std::net::IpAddr;
use wattline_dataplane::port::PortId;
use wattline_packet::Family;
use wattline_packet::flow::ports;
use wattline_packet::protocol::{self, AUTHENTICATION};
use wattline_packet::redundancy::LONGEST_PAYLOAD;

/// Length in bytes below which a payload is not worth caching: an encoded packet has at least 30
/// bytes after its IP header, and some literals.
pub const SHORTEST_PAYLOAD: usize = 64;
/// Encapsulating security payload (RFC 4303).
const ESP: u8 = 50;

/// Extension headers of IPv6 with which packets are not encoded: routers read them, or they mark
/// fragments.
pub(super) const EXTENSIONS_FOR_ROUTERS: [u8; 3] =
    [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::FRAGMENT];

/// Rules of one section.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Port towards the other router; `None` for any port.
    pub port: Option<PortId>,
    /// Destinations behind the decoder; empty for all.
    pub prefixes: Vec<IpNet>,
    /// Destinations that do not pass the decoder, such as its own addresses.
    pub except: Vec<IpNet>,
    /// The IP protocol number of encoded packets.
    pub protocol: u8,
    /// TCP and UDP ports, source or destination, whose payload is encrypted.
    pub bypass_ports: Vec<u16>,
}

/// Reason why a payload is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bypass {
    Length,
    Encrypted,
}

impl Rules {
    /// Returns true if the rules cover packets through this port to this address.
    #[inline]
    pub(super) fn cover(&self, port: PortId, destination: IpAddr) -> bool {
        let has = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&destination));
        self.port.is_none_or(|own| own == port)
            && (self.prefixes.is_empty() || has(&self.prefixes))
            && !has(&self.except)
    }

    /// Returns true if payloads of this protocol may be encoded: not if they are encrypted. A
    /// decoder would mistake encoded packets of another encoder for packets of this one.
    fn carries(&self, protocol: u8) -> bool {
        protocol != ESP && protocol != AUTHENTICATION && protocol != self.protocol
    }

    /// Returns true if an encoder may have sent a packet of this protocol encoded. Inputs treat the
    /// other protocols differently from forwarded packets, so none may appear after the inputs.
    pub(super) fn may_be_encoded(&self, family: Family, protocol: u8) -> bool {
        self.carries(protocol)
            && !(family == Family::V6 && EXTENSIONS_FOR_ROUTERS.contains(&protocol))
    }

    /// Returns the reason why a payload is skipped; `None` if it is cached and may be encoded.
    #[inline]
    pub(super) fn bypass(&self, protocol: u8, payload: &[u8]) -> Option<Bypass> {
        if !(SHORTEST_PAYLOAD..=LONGEST_PAYLOAD).contains(&payload.len()) {
            return Some(Bypass::Length);
        }
        if !self.carries(protocol) {
            return Some(Bypass::Encrypted);
        }
        let (from, to) = ports(protocol, payload)?;
        let listed = self.bypass_ports.contains(&from) || self.bypass_ports.contains(&to);
        listed.then_some(Bypass::Encrypted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_prefixes_and_exceptions() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let rules = Rules {
            port: Some(PortId(1)),
            prefixes: vec![net("10.0.0.0/8"), net("2001:db8::/32")],
            except: vec![net("10.0.0.1/32")],
            protocol: 253,
            bypass_ports: vec![443],
        };
        let covers = |port, text: &str| rules.cover(PortId(port), text.parse().unwrap());
        assert!(covers(1, "10.1.2.3") && covers(1, "2001:db8::1"));
        assert!(!covers(0, "10.1.2.3") && !covers(1, "192.0.2.1") && !covers(1, "10.0.0.1"));
        let everywhere = Rules { port: None, prefixes: vec![], ..rules.clone() };
        assert!(everywhere.cover(PortId(9), "192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn packets_without_gain_are_bypassed() {
        let rules = Rules {
            port: None,
            prefixes: vec![],
            except: vec![],
            protocol: 253,
            bypass_ports: vec![443],
        };
        let https = [&[0xc0, 0, 1, 187][..], &[0; 100]].concat();
        assert_eq!(rules.bypass(6, &https), Some(Bypass::Encrypted));
        assert_eq!(rules.bypass(1, &https), None, "no ports there");
        assert_eq!(rules.bypass(6, &[0; 100]), None);
        assert_eq!(rules.bypass(6, &[0; 63]), Some(Bypass::Length));
        assert_eq!(rules.bypass(6, &[0; 9217]), Some(Bypass::Length));
        for protocol in [50, 51, 253] {
            assert_eq!(rules.bypass(protocol, &[0; 100]), Some(Bypass::Encrypted));
        }
    }
}
