//! The router's own IPv4 addresses, compared with the source of each packet, and the addresses of
//! its networks that name no single host, checked before an ICMP error is sent.
//!
//! A packet from outside with one of the router's own IPv4 addresses as source is forged or has
//! looped. The kernel does not forward such packets (`accept_local` is off by default), and
//! Wattline does not either.

use ipnet::IpNet;
use std::net::IpAddr;

/// Logarithm of the number of filter bits. With a hundred addresses, 2 % of all sources need the
/// exact comparison.
const BITS: u32 = 12;

/// The IPv4 addresses (host byte order) with a filter that rejects nearly all others, and the
/// [`shared`] addresses of the networks of all addresses.
#[derive(Debug, Clone)]
pub struct OwnAddresses {
    filter: [u64; 1 << (BITS - 6)],
    sorted: Vec<u32>,
    /// Own addresses of both IP versions.
    all: Vec<IpAddr>,
    shared: Vec<IpAddr>,
}

impl Default for OwnAddresses {
    fn default() -> Self {
        let filter = [0; 1 << (BITS - 6)];
        Self { filter, sorted: Vec::new(), all: Vec::new(), shared: Vec::new() }
    }
}

impl FromIterator<IpNet> for OwnAddresses {
    fn from_iter<T: IntoIterator<Item = IpNet>>(addresses: T) -> Self {
        let mut own = Self::default();
        for network in addresses {
            own.shared.extend(shared(network));
            own.all.push(network.addr());
            // The kernel does forward packets from its own IPv6 addresses.
            if let IpAddr::V4(address) = network.addr() {
                own.sorted.push(address.into());
            }
        }
        own.sorted.sort_unstable();
        own.shared.sort_unstable();
        own.all.sort_unstable();
        for address in &own.sorted {
            let (word, bit) = place(*address);
            own.filter[word] |= bit;
        }
        own
    }
}

/// Returns the addresses of a network that name no single host. For IPv4, they are the directed
/// broadcast address and its older form, the network address (RFC 1812 sections 4.2.2.11 and
/// 5.3.5); for IPv6, the subnet-router anycast address (RFC 4291 section 2.6.1). A network of one
/// or two addresses has none (RFC 3021, RFC 6164).
pub fn shared(network: IpNet) -> impl Iterator<Item = IpAddr> {
    let has = network.max_prefix_len() - network.prefix_len() >= 2;
    let broadcast = network.addr().is_ipv4().then(|| network.broadcast());
    has.then(|| network.network()).into_iter().chain(broadcast.filter(|_| has))
}

impl OwnAddresses {
    /// Filter: true for all addresses of the set, and false for nearly all others.
    #[inline]
    pub fn may_hold(&self, address: u32) -> bool {
        let (word, bit) = place(address);
        self.filter[word] & bit != 0
    }

    /// Returns true if an address is in the set.
    pub fn holds(&self, address: u32) -> bool {
        self.sorted.binary_search(&address).is_ok()
    }

    /// Returns true if an address of either IP version is the router's own.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.all.binary_search(&address).is_ok()
    }

    /// Returns true if an address names no single host, as far as the router's networks show.
    pub fn is_shared(&self, address: IpAddr) -> bool {
        self.shared.binary_search(&address).is_ok()
    }
}

/// Returns the word and bit of an address: the high bits of a product (Knuth's multiplicative hash)
/// of its bytes in the order of the packet, which saves a swap.
#[inline]
fn place(address: u32) -> (usize, u64) {
    let hash = address.to_be().wrapping_mul(0x9e37_79b1) >> (32 - BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_holds_its_addresses_and_the_filter_rejects_most_others() {
        let addresses: Vec<u32> = (0..100).map(|host| 0xc000_0201 + (host << 8)).collect();
        let host = |address: &u32| IpNet::from(IpAddr::V4((*address).into()));
        let own: OwnAddresses = addresses.iter().rev().map(host).collect();
        assert!(addresses.iter().all(|address| own.may_hold(*address) && own.holds(*address)));
        let others = (0..1_000_000_u32).map(|number| number.wrapping_mul(4099));
        let others: Vec<u32> = others.filter(|other| !addresses.contains(other)).collect();
        assert!(others.iter().all(|other| !own.holds(*other)));
        let closer = others.iter().filter(|other| own.may_hold(**other)).count();
        assert!(closer < others.len() / 20, "{closer}");
        assert!(!OwnAddresses::default().may_hold(0));
    }

    #[test]
    fn broadcasts_and_subnet_router_addresses_name_no_single_host() {
        let networks = ["192.0.2.9/24", "10.1.1.0/31", "10.2.2.2/32", "10.3.3.1/30"]
            .into_iter()
            .chain(["2001:db8:1::1/64", "2001:db8:2::/127"]);
        let own: OwnAddresses = networks.map(|text| text.parse::<IpNet>().unwrap()).collect();
        for (address, shared) in [
            ("192.0.2.255", true),
            ("192.0.2.0", true),
            ("192.0.2.9", false),
            ("192.0.2.127", false),
            ("10.1.1.0", false),
            ("10.1.1.1", false),
            ("10.2.2.2", false),
            ("10.3.3.0", true),
            ("10.3.3.3", true),
            ("2001:db8:1::", true),
            ("2001:db8:1:0:ffff:ffff:ffff:ffff", false),
            ("2001:db8:2::", false),
            ("2001:db8:2::1", false),
        ] {
            assert_eq!(own.is_shared(address.parse().unwrap()), shared, "{address}");
        }
        for (address, is_own) in
            [("192.0.2.9", true), ("2001:db8:1::1", true), ("2001:db8:1::", false)]
        {
            assert_eq!(own.is_own(address.parse().unwrap()), is_own, "{address}");
        }
        assert!(own.holds(0xc000_0209) && !own.holds(0xc000_02ff));
    }
}
