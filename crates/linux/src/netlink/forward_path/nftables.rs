//! Chains of nftables (include/uapi/linux/netfilter/nf_tables.h), including those of
//! `iptables-nft`.

use super::super::frame::attributes;
use super::super::value::{number_of_wire, text};
use super::dump::RulesetDumps;
use super::matches::{Concern, Effect, IPV4, IPV6, Rules};
use std::io;

/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETCHAIN.
const GET_CHAIN: u16 = 10 << 8 | 4;
/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;
/// Number of attempts to read a ruleset that changes meanwhile. It is read again after a change
/// anyway.
const READINGS: usize = 3;

// Families (include/uapi/linux/netfilter.h).
const INET: u8 = 1;
const NETDEV: u8 = 5;

const DROP: u32 = 0;
/// NFTA_DEVICE_NAME: one interface. Since Linux 6.16 a chain can also be for all with the same
/// prefix of the name.
const DEVICE_NAME: u16 = 1;

/// A chain that transit packets pass, and that has rules or drops packets without a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Family of its table, as in nft(8).
    pub family: &'static str,
    /// Name of its table.
    pub table: String,
    /// Name.
    pub name: String,
    /// Hook at which packets meet it.
    pub hook: &'static str,
    /// Number of its rules.
    pub rules: u32,
    /// True if it drops packets that no rule accepts.
    pub drops: bool,
    /// Interfaces to which it applies; empty for all.
    pub devices: Vec<String>,
    /// True if one of its rules changes the segment size of TCP connections.
    pub sets_mss: bool,
    /// Effects of its rules, or the rules that are not understood, for users.
    pub effects: Result<Vec<Effect>, Vec<String>>,
    /// Packets that it accepts for sure, unless an effect concerns them.
    pub accepted: Vec<Concern>,
}

/// Reads all chains.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Vec<Chain>> {
    let mut chains = Vec::new();
    for _ in 0..READINGS {
        chains.clear();
        let mut dumps = RulesetDumps::default();
        // Without its rules a chain concerns all packets.
        let rules = Rules::read(&mut dumps).ok();
        dumps.dump(GET_CHAIN, 0, &[], |answer| {
            chains.extend(read_one(answer, rules.as_ref()));
            true
        })?;
        if !dumps.is_torn {
            return Ok(chains);
        }
    }
    chains.iter_mut().for_each(|chain| chain.effects = Err(Vec::new()));
    Ok(chains)
}

fn read_one(body: &[u8], known: Option<&Rules>) -> Option<Chain> {
    let number_of_family = *body.first()?;
    let (family, is_netdev) = match number_of_family {
        INET => ("inet", false),
        IPV4 => ("ip", false),
        IPV6 => ("ip6", false),
        NETDEV => ("netdev", true),
        // Bridged and ARP frames are left to the kernel anyway.
        _ => return None,
    };
    let (mut table, mut name, mut rules, mut policy) = (String::new(), String::new(), 0, None);
    let (mut number, mut devices, mut any_device) = (None, Vec::new(), false);
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            1 => table = text(content),
            3 => name = text(content),
            4 => {
                for (kind, content) in attributes(content) {
                    match kind {
                        1 => number = number_of_wire(content),
                        3 => devices.push(text(content)),
                        4 => {
                            let (names, others): (Vec<_>, Vec<_>) =
                                attributes(content).partition(|(kind, _)| *kind == DEVICE_NAME);
                            devices.extend(names.into_iter().map(|(_, name)| text(name)));
                            any_device |= !others.is_empty();
                        }
                        _ => {}
                    }
                }
            }
            5 => policy = number_of_wire(content),
            6 => rules = number_of_wire(content)?,
            _ => {}
        }
    }
    // Without a hook, a chain is only a jump target.
    let hook = match (is_netdev, number?) {
        (false, 0) => "prerouting",
        (false, 2) => "forward",
        (false, 4) => "postrouting",
        (false, 5) | (true, 0) => "ingress",
        (true, 1) => "egress",
        _ => return None,
    };
    let drops = policy == Some(DROP);
    devices.dedup();
    if any_device {
        devices.clear();
    }
    let of = (number_of_family, table, name);
    let effects = known.map_or(Err(Vec::new()), |known| known.effects(&of, rules));
    let accepted = known.map_or_else(Vec::new, |known| known.accepted(&of));
    let sets_mss = known.is_some_and(|known| known.set_mss(&of));
    let (_, table, name) = of;
    let chain =
        Chain { family, table, name, hook, rules, drops, devices, sets_mss, effects, accepted };
    (rules > 0 || drops).then_some(chain)
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::*;
    use proptest::prelude::*;

    /// Returns a chain of family netdev at ingress of these devices, by kind and name.
    fn chain(devices: &[(u16, &str)]) -> Vec<u8> {
        let devices: Vec<_> =
            devices.iter().map(|(kind, name)| attribute(*kind, name.as_bytes())).collect();
        let hook = [attribute(1, &[0; 4]), attribute(4, &devices.concat())].concat();
        let parts = [attribute(1, b"t"), attribute(3, b"c"), attribute(4, &hook)];
        [&[NETDEV, 0, 0, 0][..], &parts.concat(), &attribute(6, &[0, 0, 0, 1])].concat()
    }

    #[test]
    fn chain_of_devices_that_begin_alike_is_for_any() {
        let devices = |of: &[(u16, &str)]| read_one(&chain(of), None).unwrap().devices;
        assert_eq!(devices(&[(1, "eth0"), (1, "eth1")]), ["eth0", "eth1"]);
        assert!(devices(&[(1, "eth0"), (2, "eth")]).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read_one(&bytes, None);
            let _ = read_one(&[&[NETDEV, 0, 0, 0][..], &bytes].concat(), None);
        }
    }
}
