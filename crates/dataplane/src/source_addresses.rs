//! Source addresses of ICMP errors, chosen as the kernel chooses them.

use crate::port::PortId;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Interface of a port: the port itself (VLAN id 0), or a VLAN subinterface.
pub type PortInterface = (PortId, u16);

/// Labels by which IPv6 source addresses are chosen (RFC 6724 section 2.1, as `ip addrlabel` shows them),
/// longest prefix first: value and length of the prefix, and its label.
const LABELS: [(u128, u32, u8); 8] = [
    (0xffff << 32, 96, 4),
    (0, 96, 3),
    (0x2001_0000 << 96, 32, 6),
    (0x2001_0010 << 96, 28, 7),
    (0x2002 << 112, 16, 2),
    (0x3ffe << 112, 16, 12),
    (0xfec0 << 112, 10, 11),
    (0xfc00 << 112, 7, 5),
];
/// Label of all other addresses.
const OTHER: u8 = 1;

/// An address that the kernel may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceAddress {
    /// Address with its prefix length.
    pub address: IpNet,
    /// Its interface; `None` if that is no port's.
    pub interface: Option<PortInterface>,
    /// True if it is chosen only when no other address is as near.
    pub deprecated: bool,
}

/// Addresses in the kernel's order: by interface, and in the order of each interface.
#[derive(Debug, Clone, Default)]
pub struct SourceAddresses(Vec<SourceAddress>);

impl FromIterator<SourceAddress> for SourceAddresses {
    fn from_iter<T: IntoIterator<Item = SourceAddress>>(addresses: T) -> Self {
        Self(addresses.into_iter().collect())
    }
}

impl SourceAddresses {
    /// Returns the address for packets that leave through an interface to the next hop `near`
    /// (`inet_select_addr()`): the first in its network, else the first of the interface, else the
    /// first of all.
    pub fn ipv4(&self, egress: PortInterface, near: IpAddr) -> Option<Ipv4Addr> {
        let all = || self.0.iter().filter(|own| own.address.addr().is_ipv4());
        let mut here = all().filter(|own| own.interface == Some(egress));
        let in_network = here.clone().find(|own| own.address.contains(&near));
        match in_network.or_else(|| here.next()).or_else(|| all().next())?.address.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }

    /// Returns the address for an error about a packet that arrived on an interface, to its sender
    /// (`ipv6_dev_get_saddr()`, RFC 6724 section 5 with that interface as the outgoing one).
    pub fn ipv6(&self, ingress: PortInterface, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let to_link = to.is_unicast_link_local();
        let candidates = self.0.iter().rev().filter_map(|own| {
            let IpAddr::V6(address) = own.address.addr() else { return None };
            let here = own.interface == Some(ingress);
            if to_link && !here {
                return None;
            }
            let matches = (u128::from(address) ^ u128::from(to)).leading_zeros();
            let score = (
                address.is_unicast_link_local() == to_link,
                !own.deprecated,
                here,
                label(address) == label(to),
                matches.min(own.address.prefix_len().into()),
            );
            Some((score, address))
        });
        // The first of the best, since the order is reversed.
        candidates.max_by_key(|(score, _)| *score).map(|(_, address)| address)
    }

    /// Returns the first address in the network of another address.
    pub fn in_network_of(&self, other: IpAddr) -> Option<IpAddr> {
        self.0.iter().find(|own| own.address.contains(&other)).map(|own| own.address.addr())
    }
}

fn label(address: Ipv6Addr) -> u8 {
    let differs = |value: u128| (u128::from(address) ^ value).leading_zeros();
    let found = LABELS.iter().find(|(value, length, _)| differs(*value) >= *length);
    found.map_or(OTHER, |(_, _, label)| *label)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: PortInterface = (PortId(0), 0);

    fn own(port: u16, address: &str) -> SourceAddress {
        let interface = Some((PortId(port), 0));
        SourceAddress { address: address.parse().unwrap(), interface, deprecated: false }
    }

    fn deprecated(port: u16, address: &str) -> SourceAddress {
        SourceAddress { deprecated: true, ..own(port, address) }
    }

    #[test]
    fn ipv6_source_is_the_first_by_the_rules_of_rfc_6724() {
        for (addresses, to, expected) in [
            // Scope is compared before the interface.
            (vec![own(0, "fe80::1/64"), own(1, "2001:db8:1::1/64")], "2001:db8:9::9", 1),
            (vec![own(0, "fe80::1/64"), own(1, "2001:db8:1::1/64")], "fe80::9", 0),
            (vec![own(1, "fe80::2/64"), own(0, "fe80::1/64")], "2001:db8:9::9", 1),
            // Deprecation is compared before the interface, the interface before the label.
            (
                vec![deprecated(0, "2001:db8:9::1/64"), own(1, "2001:db8:1::1/64")],
                "2001:db8:9::9",
                1,
            ),
            (vec![own(1, "2001:db8:9::1/64"), own(0, "fd00::1/64")], "2001:db8:9::9", 1),
            // The label is compared before the length of the match, which is no longer than the
            // prefix.
            (vec![own(0, "fd00::1/64"), own(0, "2001:db8:1::1/64")], "fd00:9::9", 0),
            (vec![own(0, "2002::1/16"), own(0, "fd00::1/64")], "2001:db8::9", 0),
            (vec![own(0, "2001:db8:1::1/64"), own(0, "2001:db8:9::1/64")], "2001:db8:9::9", 1),
            (vec![own(0, "2001:db8:8::1/32"), own(0, "2001:db8:9::1/32")], "2001:db8:9::9", 0),
        ] {
            let list: SourceAddresses = addresses.iter().cloned().collect();
            let found = list.ipv6(HERE, to.parse().unwrap()).map(IpAddr::from);
            assert_eq!(found, Some(addresses[expected].address.addr()), "{addresses:?} to {to}");
        }
        assert_eq!(SourceAddresses::default().ipv6(HERE, Ipv6Addr::LOCALHOST), None);
    }

    #[test]
    fn ipv4_source_is_in_the_network_of_the_next_hop() {
        let list: SourceAddresses =
            [own(1, "10.1.0.1/24"), own(0, "10.2.0.1/24"), own(0, "10.3.0.1/24")]
                .into_iter()
                .collect();
        for (port, near, expected) in [
            (0, [10, 3, 0, 9], [10, 3, 0, 1]),
            (0, [10, 1, 0, 9], [10, 2, 0, 1]),
            (1, [10, 3, 0, 9], [10, 1, 0, 1]),
            (2, [10, 3, 0, 9], [10, 1, 0, 1]),
        ] {
            assert_eq!(
                list.ipv4((PortId(port), 0), near.into()),
                Some(expected.into()),
                "{near:?}"
            );
        }
    }
}
