//! Traffic that a configuration keeps from leaving in clear, and the kernel policies for it.
//!
//! The kernel compares forwarded packets with policies of direction `fwd` and then of `out`, packets
//! to this machine with `in`, and its own with `out`. Each policy of the configuration blocks packets
//! that would leave in clear, and, with source and destination swapped, packets that came in clear.
//! A packet that either end forbids does not pass, as in the router itself (RFC 4301 section 5).
//!
//! Some packets of this machine itself must pass, or it would be cut off: those that stay on the
//! link, neighbour discovery, those between the ends of a tunnel (IKE, ESP of the kernel), and those
//! within the source prefix of a policy whose destination contains it, such as a default route into
//! a tunnel. None of these exceptions holds for forwarded packets.

use crate::section::{IpsecSettings, PolicyAction};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wattline_linux::netlink::xfrm::{
    Block, Only, PolicyAction as KernelAction, PolicyDirection as Direction,
};

/// Router solicitation to redirect (RFC 4861 section 4).
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// A policy without its tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Prefix of the source addresses of sent packets.
    pub source: IpNet,
    /// Prefix of the destination addresses, of the same family.
    pub destination: IpNet,
    /// True if the packets may pass in clear.
    pub passes: bool,
}

/// Traffic that a configuration keeps from leaving in clear.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Protected {
    /// The near and the far end of each tunnel.
    pub ends: Vec<(IpAddr, IpAddr)>,
    /// Policies; the first match decides.
    pub rules: Vec<Rule>,
}

impl Protected {
    /// Returns the traffic that these settings protect.
    pub fn from_settings(settings: &IpsecSettings) -> Self {
        let rule = |policy: &crate::section::PolicySettings| Rule {
            source: policy.source,
            destination: policy.destination,
            passes: policy.action == PolicyAction::Bypass,
        };
        Self {
            ends: settings.tunnels.iter().map(|tunnel| (tunnel.local, tunnel.remote)).collect(),
            rules: settings.policies.iter().map(rule).collect(),
        }
    }

    /// Adds the protected traffic of another configuration, after the policies of this one.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.ends.extend(&other.ends);
        both.rules.extend(other.rules.iter().filter(|rule| !self.rules.contains(rule)));
        both
    }

    /// Returns the source and destination of the policies that do not let packets pass.
    pub fn prefixes(&self) -> impl Iterator<Item = (IpNet, IpNet)> {
        let blocking = self.rules.iter().filter(|rule| !rule.passes);
        blocking.map(|rule| (rule.source, rule.destination))
    }

    /// Returns the policies for the kernel. `runs` is the index of the device through which a
    /// running router hands packets to the kernel; one policy for the device marks that a router
    /// runs. The kernel cannot distinguish decrypted packets from packets that came in clear. It
    /// therefore stops checking received packets once the router `judges` them itself.
    pub fn blocks(&self, runs: Option<u32>, judges: bool) -> Vec<Block> {
        let mut list = List::default();
        for any in [all_addresses(true), all_addresses(false)] {
            let is_ipv4 = any.addr().is_ipv4();
            if !self.prefixes().any(|(source, _)| source.addr().is_ipv4() == is_ipv4) {
                continue;
            }
            if let Some(index) = runs {
                // It matches no packet to this machine: their route leads to the loopback interface.
                list.allow((any, any), Direction::In, Some(Only::To(index)));
            }
            for direction in [Direction::In, Direction::Out] {
                for to in on_link(is_ipv4) {
                    list.allow((any, to), direction, None);
                }
                for kind in NEIGHBOUR_DISCOVERY.filter(|_| !is_ipv4) {
                    list.allow((any, any), direction, Some(Only::Icmp6(kind)));
                }
            }
        }
        for (local, remote) in
            self.ends.iter().map(|(local, remote)| ((*local).into(), (*remote).into()))
        {
            let within = |rule: (IpNet, IpNet)| rule.0.contains(&local) && rule.1.contains(&remote);
            if self.prefixes().any(within) {
                list.allow((local, remote), Direction::Out, None);
                list.allow((remote, local), Direction::In, None);
            }
        }
        for rule in &self.rules {
            let (straight, swapped) =
                ((rule.source, rule.destination), (rule.destination, rule.source));
            if rule.passes {
                list.allow(straight, Direction::Out, None);
                list.allow(swapped, Direction::In, None);
                if self.may_come(straight) {
                    list.allow(straight, Direction::Forward, None);
                }
                if self.may_leave(swapped) {
                    list.allow(swapped, Direction::Forward, None);
                }
                continue;
            }
            if rule.destination.contains(&rule.source) {
                for direction in [Direction::In, Direction::Out] {
                    list.allow((rule.source, rule.source), direction, None);
                }
            }
            list.add(straight, Direction::Out, KernelAction::Block, None);
            list.add(straight, Direction::Forward, KernelAction::Block, None);
            if !judges {
                list.add(swapped, Direction::In, KernelAction::Block, None);
                list.add(swapped, Direction::Forward, KernelAction::Block, None);
            }
        }
        match self.prefixes().next() {
            Some(_) => list.blocks,
            None => Vec::new(),
        }
    }

    /// Returns true if no packet between these prefixes should have come through a tunnel.
    fn may_come(&self, packets: (IpNet, IpNet)) -> bool {
        self.may_leave((packets.1, packets.0))
    }

    /// Returns true if no packet between these prefixes has to leave through a tunnel.
    fn may_leave(&self, (source, destination): (IpNet, IpNet)) -> bool {
        let overlap = |a: IpNet, b: IpNet| a.contains(&b) || b.contains(&a);
        let decides = |rule: &&Rule| match rule.passes {
            true => rule.source.contains(&source) && rule.destination.contains(&destination),
            false => overlap(rule.source, source) && overlap(rule.destination, destination),
        };
        self.rules.iter().find(decides).is_none_or(|rule| rule.passes)
    }
}

/// Returns all addresses of a family.
pub fn all_addresses(is_ipv4: bool) -> IpNet {
    if is_ipv4 { Ipv4Net::default().into() } else { Ipv6Net::default().into() }
}

/// Destinations that no router forwards to.
fn on_link(is_ipv4: bool) -> [IpNet; 2] {
    let v4 = |address: [u8; 4], length| Ipv4Net::new_assert(Ipv4Addr::from(address), length).into();
    let v6 = |first, length| {
        Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), length).into()
    };
    match is_ipv4 {
        true => [v4([224, 0, 0, 0], 24), v4([255, 255, 255, 255], 32)],
        false => [v6(0xfe80, 10), v6(0xff02, 16)],
    }
}

/// Policies in their order.
#[derive(Default)]
struct List {
    blocks: Vec<Block>,
    seen: HashSet<(IpNet, IpNet, u8, Option<Only>)>,
}

impl List {
    fn allow(&mut self, packets: (IpNet, IpNet), direction: Direction, only: Option<Only>) {
        self.add(packets, direction, KernelAction::Allow, only);
    }

    /// Adds a policy unless there is one for the same packets, which applies first.
    fn add(
        &mut self,
        (source, destination): (IpNet, IpNet),
        direction: Direction,
        action: KernelAction,
        only: Option<Only>,
    ) {
        if self.seen.insert((source, destination, direction as u8, only)) {
            self.blocks.push(Block { source, destination, direction, action, only });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use KernelAction::{Allow, Block as Stop};
    use proptest::prelude::*;

    fn protected(rules: &[(&str, &str, bool)]) -> Protected {
        let rule = |(source, destination, passes): &(&str, &str, bool)| Rule {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            passes: *passes,
        };
        let ends = vec![("198.51.100.1".parse().unwrap(), "203.0.113.1".parse().unwrap())];
        Protected { ends, rules: rules.iter().map(rule).collect() }
    }

    /// Returns the kernel's treatment of a packet in one direction.
    fn decide(
        blocks: &[Block],
        direction: Direction,
        (from, to): (&str, &str),
        only: Option<Only>,
    ) -> KernelAction {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let holds = |block: &&Block| {
            block.direction == direction
                && block.source.contains(&from)
                && block.destination.contains(&to)
                && (block.only.is_none() || block.only == only)
        };
        blocks.iter().find(holds).map_or(Allow, |block| block.action)
    }

    #[test]
    fn first_policy_decides_and_both_ways_are_blocked() {
        let blocks = protected(&[
            ("10.1.0.0/16", "10.2.9.0/24", true),
            ("10.1.0.0/16", "10.2.0.0/16", false),
            ("2001:db8::/32", "2001:db9::/32", false),
        ])
        .blocks(None, false);
        use Direction::{Forward, In, Out};
        for (direction, from, to, expected) in [
            (Forward, "10.1.0.1", "10.2.0.1", Stop),
            (Forward, "10.2.0.1", "10.1.0.1", Stop),
            (Forward, "10.1.0.1", "10.2.9.1", Allow),
            (Forward, "10.2.9.1", "10.1.0.1", Allow),
            (Forward, "10.1.0.1", "10.3.0.1", Allow),
            (Out, "10.1.0.1", "10.2.0.1", Stop),
            (Out, "10.2.0.1", "10.1.0.1", Allow),
            (In, "10.2.0.1", "10.1.0.1", Stop),
            (In, "10.1.0.1", "10.2.0.1", Allow),
            (Forward, "2001:db8::1", "2001:db9::1", Stop),
            (Out, "fe80::1", "ff02::1", Allow),
        ] {
            assert_eq!(
                decide(&blocks, direction, (from, to), None),
                expected,
                "{direction:?} {from} {to}"
            );
        }
        assert!(
            protected(&[("10.1.0.0/16", "10.2.0.0/16", true)]).blocks(Some(1), true).is_empty()
        );
    }

    #[test]
    fn default_route_into_a_tunnel_does_not_cut_the_machine_off() {
        use Direction::{Forward, In, Out};
        let default =
            protected(&[("10.1.0.0/16", "0.0.0.0/0", false), ("2001:db8::/32", "::/0", false)]);
        let blocks = default.blocks(None, false);
        for (direction, from, to, expected) in [
            // Its address in the protected network speaks to that network alone.
            (Out, "10.1.0.1", "10.1.0.9", Allow),
            (In, "10.1.0.9", "10.1.0.1", Allow),
            (Out, "10.1.0.1", "192.0.2.9", Stop),
            (In, "192.0.2.9", "10.1.0.1", Stop),
            (Out, "198.51.100.1", "192.0.2.9", Allow),
            (Out, "10.1.0.1", "224.0.0.5", Allow),
            (Out, "10.1.0.1", "255.255.255.255", Allow),
            // No exception holds for forwarded packets.
            (Forward, "10.1.0.2", "10.1.0.9", Stop),
            (Forward, "10.1.0.2", "224.0.0.5", Stop),
        ] {
            assert_eq!(
                decide(&blocks, direction, (from, to), None),
                expected,
                "{direction:?} {from} {to}"
            );
        }
        let far = ("2001:db8::1", "2001:db9::1");
        for kind in NEIGHBOUR_DISCOVERY {
            let only = Some(Only::Icmp6(kind));
            assert_eq!(decide(&blocks, Out, far, only), Allow);
            assert_eq!(decide(&blocks, In, far, only), Allow);
            assert_eq!(decide(&blocks, Forward, far, only), Stop);
        }
        assert_eq!(decide(&blocks, Out, far, Some(Only::Icmp6(128))), Stop);
        // A running router hands its decrypted packets to the kernel as well.
        let (starting, running) = (default.blocks(Some(7), false), default.blocks(Some(7), true));
        for direction in [In, Forward] {
            let packet = ("192.0.2.9", "10.1.0.1");
            assert_eq!(decide(&starting, direction, packet, None), Stop);
            assert_eq!(decide(&running, direction, packet, None), Allow);
            assert_eq!(decide(&blocks, direction, packet, None), Stop);
        }
        assert_eq!(decide(&running, Forward, ("10.1.0.1", "192.0.2.9"), None), Stop);
        // If everything is protected, only forwarded packets are blocked, and the peer stays
        // reachable.
        let all = protected(&[("0.0.0.0/0", "0.0.0.0/0", false)]).blocks(None, false);
        assert_eq!(decide(&all, Forward, ("192.0.2.9", "192.0.2.1"), None), Stop);
        assert_eq!(decide(&all, Out, ("198.51.100.1", "203.0.113.1"), None), Allow);
        let wide = protected(&[("198.51.0.0/16", "203.0.0.0/8", false)]).blocks(None, false);
        assert_eq!(decide(&wide, Out, ("198.51.100.1", "203.0.113.1"), None), Allow);
        assert_eq!(decide(&wide, In, ("203.0.113.1", "198.51.100.1"), None), Allow);
        assert_eq!(decide(&wide, Out, ("198.51.100.1", "203.0.113.2"), None), Stop);
    }

    proptest! {
        /// The kernel forwards nothing that the router would drop or encrypt.
        #[test]
        fn kernel_forwards_no_more_than_the_router(
            rules in prop::collection::vec((0u8..4, 0u8..5, 0u8..4, 0u8..5, any::<bool>()), 0..6),
            from in 0u8..4,
            to in 0u8..4,
        ) {
            let net = |number: u8, bits: u8| {
                let shift = (u32::from(number) << 30) & if bits == 0 { 0 } else { u32::MAX << (32 - u32::from(bits.min(2))) };
                IpNet::from(Ipv4Net::new_assert(shift.into(), bits.min(2)))
            };
            let rules: Vec<Rule> = rules
                .iter()
                .map(|it| Rule { source: net(it.0, it.1), destination: net(it.2, it.3), passes: it.4 })
                .collect();
            let protected = Protected { ends: Vec::new(), rules };
            let address = |number: u8| IpAddr::from(Ipv4Addr::from((u32::from(number) << 30) + 9));
            let (from, to) = (address(from), address(to));
            let lookup = |from: IpAddr, to: IpAddr| {
                let first = protected.rules.iter().find(|it| it.source.contains(&from) && it.destination.contains(&to));
                first.is_none_or(|rule| rule.passes)
            };
            let passes = lookup(from, to) && lookup(to, from);
            let blocks = protected.blocks(None, false);
            let packet = (&*from.to_string(), &*to.to_string());
            let forwarded = decide(&blocks, Direction::Forward, packet, None) == Allow;
            prop_assert!(passes || !forwarded);
        }
    }
}
