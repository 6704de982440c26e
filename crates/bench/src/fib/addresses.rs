//! Addresses of the lookups.

use super::error::Error;
use ipnet::{Ipv4Net, Ipv6Net};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use serde::Serialize;
use wattline_units::named;

/// Number of flows from which the Zipf distribution draws packets.
const FLOWS: usize = 1 << 20;
/// Exponent of the Zipf distribution; near 1 for destinations of Internet traffic (Sarrar,
/// Uhlig, Feldmann, Sherwood and Huang, "Leveraging Zipf's Law for Traffic Offloading", 2012).
const EXPONENT: f64 = 1.0;

/// Addresses per lookup call, the same for Wattline and for the peer.
pub(super) const BATCH: usize = 32;

named! {
    /// Distribution of the addresses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Kind {
        /// All unicast addresses are equally likely: 1.0.0.0 to 223.255.255.255, or 2000::/3.
        Random = "random",
        /// All prefixes of the table are equally likely, and all addresses within a prefix.
        Routed = "routed",
        /// Packets of a million flows to routed addresses; the share of the n-th flow is
        /// proportional to 1/n.
        Zipf = "zipf",
    }
}

impl Kind {
    /// Draws `count` IPv4 addresses, which depend only on the seed.
    pub fn ipv4(self, prefixes: &[Ipv4Net], count: usize, seed: u64) -> Result<Vec<u32>, Error> {
        let unicast = |rng: &mut StdRng| rng.random_range(0x0100_0000..0xe000_0000);
        let routed = |rng: &mut StdRng| {
            let prefix = prefixes[rng.random_range(0..prefixes.len())];
            u32::from(prefix.network()) | rng.random::<u32>() & u32::from(prefix.hostmask())
        };
        self.draw(unicast, routed, count, seed)
    }

    /// Draws `count` IPv6 addresses, which depend only on the seed.
    pub fn ipv6(self, prefixes: &[Ipv6Net], count: usize, seed: u64) -> Result<Vec<u128>, Error> {
        let unicast = |rng: &mut StdRng| 1 << 125 | rng.random::<u128>() >> 3;
        let routed = |rng: &mut StdRng| {
            let prefix = prefixes[rng.random_range(0..prefixes.len())];
            u128::from(prefix.network()) | rng.random::<u128>() & u128::from(prefix.hostmask())
        };
        self.draw(unicast, routed, count, seed)
    }

    fn draw<A: Copy>(
        self,
        unicast: impl Fn(&mut StdRng) -> A,
        routed: impl Fn(&mut StdRng) -> A,
        count: usize,
        seed: u64,
    ) -> Result<Vec<A>, Error> {
        let mut rng = StdRng::seed_from_u64(seed);
        Ok(match self {
            Self::Random => (0..count).map(|_| unicast(&mut rng)).collect(),
            Self::Routed => (0..count).map(|_| routed(&mut rng)).collect(),
            Self::Zipf => {
                let flows: Vec<A> = (0..FLOWS).map(|_| routed(&mut rng)).collect();
                let rank = Zipf::new(FLOWS as f64, EXPONENT).map_err(Error::Zipf)?;
                // Ranks begin at 1.
                (0..count).map(|_| flows[rank.sample(&mut rng) as usize - 1]).collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routed_addresses_are_in_their_prefixes_and_zipf_repeats_them() {
        let prefixes: Vec<Ipv4Net> =
            ["10.0.0.0/8", "192.0.2.1/32"].map(|text| text.parse().unwrap()).into();
        let routed = Kind::Routed.ipv4(&prefixes, 1000, 1).unwrap();
        assert!(
            routed
                .iter()
                .all(|&a| prefixes.iter().any(|p| p.contains(&std::net::Ipv4Addr::from(a))))
        );
        assert!(routed.contains(&0xc000_0201));
        assert_eq!(routed, Kind::Routed.ipv4(&prefixes, 1000, 1).unwrap(), "same seed");
        assert_ne!(routed, Kind::Routed.ipv4(&prefixes, 1000, 2).unwrap());
        let zipf = Kind::Zipf.ipv4(&prefixes[..1], 10_000, 1).unwrap();
        let distinct: std::collections::HashSet<_> = zipf.iter().collect();
        assert!((1_000..9_000).contains(&distinct.len()), "{} distinct", distinct.len());
    }

    #[test]
    fn random_addresses_are_unicast() {
        let ipv4 = Kind::Random.ipv4(&[], 1000, 1).unwrap();
        assert!(ipv4.iter().all(|a| (1..224).contains(&(a >> 24))));
        let ipv6 = Kind::Random.ipv6(&[], 1000, 1).unwrap();
        assert!(ipv6.iter().all(|a| a >> 125 == 1));
    }
}
