//! Policies: an ordered list of prefix pairs; the first match decides (RFC 4301 section 4.4.1).
//!
//! A worker remembers its last decisions by address pair, so that many policies cost no more than
//! few for packets of continuing flows.

use ipnet::IpNet;
use std::net::IpAddr;

/// A pair of prefixes of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    /// Prefix of the source addresses.
    pub source: IpNet,
    /// Prefix of the destination addresses.
    pub destination: IpNet,
}

/// Treatment of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The packet passes unchanged.
    Bypass,
    /// The packet is dropped.
    Discard,
    /// The packet goes through the tunnel with this number.
    Protect(u16),
}

/// One entry of the policy database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Prefixes of packets that are sent; for received packets, they are swapped.
    pub prefixes: Prefixes,
    /// Treatment of these packets.
    pub decision: Decision,
}

/// A pair of prefixes in a form for fast comparison: bits that must have given values.
#[derive(Debug, Clone, Copy)]
struct Bits {
    source: u128,
    source_mask: u128,
    destination: u128,
    destination_mask: u128,
}

impl Bits {
    fn new(prefixes: &Prefixes) -> Self {
        Self {
            source: number(prefixes.source.network()),
            source_mask: number(prefixes.source.netmask()),
            destination: number(prefixes.destination.network()),
            destination_mask: number(prefixes.destination.netmask()),
        }
    }

    #[inline]
    fn hold(&self, source: u128, destination: u128) -> bool {
        (source & self.source_mask == self.source)
            & (destination & self.destination_mask == self.destination)
    }
}

/// The pairs of prefixes of an SA that receives.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    ipv4: Box<[Bits]>,
    ipv6: Box<[Bits]>,
}

impl Selectors {
    pub fn new(all: &[Prefixes]) -> Self {
        let of = |ipv4: bool| {
            let family = all.iter().filter(|prefixes| prefixes.source.addr().is_ipv4() == ipv4);
            family.map(Bits::new).collect()
        };
        Self { ipv4: of(true), ipv6: of(false) }
    }

    /// Returns true if one of the pairs contains both addresses.
    #[inline]
    pub fn hold(&self, ipv4: bool, source: u128, destination: u128) -> bool {
        let pairs = if ipv4 { &self.ipv4 } else { &self.ipv6 };
        pairs.iter().any(|pair| pair.hold(source, destination))
    }
}

/// A policy in a form for fast comparison.
#[derive(Debug, Clone, Copy)]
struct Rule {
    bits: Bits,
    decision: Decision,
}

/// Policies of one IP version.
#[derive(Debug, Default)]
pub(super) struct Policies {
    rules: Box<[Rule]>,
    /// Number of this version of the policies, unique among all that workers have seen.
    generation: u64,
}

impl Policies {
    /// Policies of the given family.
    pub fn new(all: &[Policy], ipv4: bool, generation: u64) -> Self {
        let rules = all
            .iter()
            .filter(|policy| policy.prefixes.source.addr().is_ipv4() == ipv4)
            .map(|Policy { prefixes, decision }| Rule {
                bits: Bits::new(prefixes),
                decision: *decision,
            })
            .collect();
        Self { rules, generation }
    }

    /// Returns the decision of the first match; packets without a match pass.
    fn find(&self, source: u128, destination: u128) -> Decision {
        let matches = |rule: &&Rule| rule.bits.hold(source, destination);
        self.rules.iter().find(matches).map_or(Decision::Bypass, |rule| rule.decision)
    }
}

/// Returns an address as a number.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Number of policies from which decisions are cached; fewer are faster to compare.
const FEW: usize = 4;
const REMEMBERED: usize = 1024;

/// The last decisions of one worker.
pub(super) struct Memory {
    entries: Box<[Entry]>,
}

#[derive(Clone, Copy)]
struct Entry {
    source: u128,
    destination: u128,
    generation: u64,
    decision: Decision,
}

impl Memory {
    pub fn new() -> Self {
        let none = Entry { source: 0, destination: 0, generation: 0, decision: Decision::Bypass };
        Self { entries: vec![none; REMEMBERED].into() }
    }

    /// Returns the decision of `policies` for a packet.
    #[inline]
    pub fn decide(&mut self, policies: &Policies, source: u128, destination: u128) -> Decision {
        if policies.rules.len() <= FEW {
            return policies.find(source, destination);
        }
        let fold = |value: u128| (value >> 64) as u64 ^ value as u64;
        let hash =
            (fold(source).rotate_left(21) ^ fold(destination)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = &mut self.entries[(hash >> 54) as usize % REMEMBERED];
        if (entry.source != source)
            | (entry.destination != destination)
            | (entry.generation != policies.generation)
        {
            let decision = policies.find(source, destination);
            *entry = Entry { source, destination, generation: policies.generation, decision };
        }
        entry.decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(source: &str, destination: &str, decision: Decision) -> Policy {
        let prefixes =
            Prefixes { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
        Policy { prefixes, decision }
    }

    fn address(text: &str) -> u128 {
        number(text.parse().unwrap())
    }

    #[test]
    fn first_match_decides() {
        let all = [
            policy("10.1.0.0/16", "10.2.9.0/24", Decision::Bypass),
            policy("10.1.0.0/16", "10.2.0.0/16", Decision::Protect(3)),
            policy("2001:db8::/32", "::/0", Decision::Discard),
            policy("0.0.0.0/0", "10.2.0.0/16", Decision::Discard),
        ];
        let four = Policies::new(&all, true, 1);
        let six = Policies::new(&all, false, 1);
        let find = |source, destination| four.find(address(source), address(destination));
        assert_eq!(find("10.1.0.1", "10.2.9.1"), Decision::Bypass);
        assert_eq!(find("10.1.0.1", "10.2.8.1"), Decision::Protect(3));
        assert_eq!(find("10.3.0.1", "10.2.8.1"), Decision::Discard);
        assert_eq!(find("10.3.0.1", "10.4.0.1"), Decision::Bypass);
        assert_eq!(six.find(address("2001:db8::1"), address("::1")), Decision::Discard);
        assert_eq!(six.find(address("2001:db9::1"), address("::1")), Decision::Bypass);
    }

    proptest! {
        /// Decisions never depend on earlier packets or earlier policies.
        #[test]
        fn memory_changes_no_decision(asked in prop::collection::vec((0u8..8, 0u8..8, 1u64..3), 1..200)) {
            let policies = [1, 2].map(|generation| {
                let all: Vec<Policy> = (0..8)
                    .map(|net| {
                        let decision = Decision::Protect(net * generation as u16);
                        policy(&format!("10.{net}.0.0/16"), "10.0.0.0/15", decision)
                    })
                    .collect();
                Policies::new(&all, true, generation)
            });
            let mut memory = Memory::new();
            for (source, destination, generation) in asked {
                let (source, destination) =
                    (address(&format!("10.{source}.0.1")), address(&format!("10.{destination}.0.1")));
                let policies = &policies[generation as usize - 1];
                let found = policies.find(source, destination);
                prop_assert_eq!(memory.decide(policies, source, destination), found);
            }
        }
    }
}
