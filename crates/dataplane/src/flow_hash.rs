//! The hash with which a flow chooses one of several next hops, and the hash ranges of these.
//!
//! If the kernel's hash is known, a flow gets the same next hop as from the kernel and XDP
//! programs.

use wattline_fib::NextHopId;
use wattline_packet::flow::{self, FlowKey};
use wattline_packet::ipv4::Ipv4Packet;
pub use wattline_packet::kernel_hash::{HashPolicy, KernelHash};

/// Hash of flows in one router.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowHash {
    /// Seed of the router's own hash, used if the kernel's is unknown.
    pub seed: u64,
    /// The kernel's hash, if it is known.
    pub kernel: Option<KernelHash>,
}

impl FlowHash {
    /// Returns the hash of an IPv4 packet; 0 if it is malformed.
    pub fn hash_ipv4(&self, packet: &[u8]) -> u32 {
        let Ok(packet) = Ipv4Packet::parse(packet) else { return 0 };
        let known = self.kernel.and_then(|kernel| kernel.hash_ipv4(&packet));
        known.unwrap_or_else(|| {
            flow::seeded(FlowKey::for_next_hop_of_ipv4(&packet).hash(), self.seed)
        })
    }

    /// Returns the hash of an IPv6 packet; 0 if it is malformed.
    pub fn hash_ipv6(&self, packet: &[u8]) -> u32 {
        let known = self.kernel.and_then(|kernel| kernel.hash_ipv6(packet));
        known.unwrap_or_else(|| {
            let key = FlowKey::for_next_hop_of_ipv6(packet);
            key.map_or(0, |key| flow::seeded(key.hash(), self.seed))
        })
    }
}

/// Members of a group, each with the largest hash (without its lowest bit) that chooses it.
#[derive(Debug)]
pub(crate) struct Shares(Box<[(u32, NextHopId)]>);

impl Shares {
    /// Divides the hashes by weight, as the kernel does (`fib_rebalance()`).
    pub fn new(members: &[(NextHopId, u16)]) -> Self {
        let total = members.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>().max(1);
        let mut sum = 0;
        let share = |(id, weight): &(NextHopId, u16)| {
            sum += u64::from(*weight);
            let end = ((sum << 31) + total / 2) / total;
            (end.saturating_sub(1) as u32, *id)
        };
        Self(members.iter().map(share).collect())
    }

    /// Returns the member for a flow.
    pub fn choose(&self, hash: u32) -> NextHopId {
        let before = self.0.partition_point(|(last, _)| *last < hash >> 1);
        self.0.get(before).map_or(NextHopId::NONE, |(_, id)| *id)
    }

    /// Returns all members.
    pub fn members(&self) -> impl Iterator<Item = NextHopId> {
        self.0.iter().map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;
    use wattline_packet::FromBytes;
    use wattline_packet::ipv4::Ipv4Header;

    /// Packets that Linux 6.18 forwarded through one of 64 next hops: policy of both families,
    /// seed, number of the next hop, packet in hexadecimal digits. Next hop n had the weight 1 + 7n
    /// mod 13 for destinations in 10.0.0.0/8 and fd00::/8, otherwise 1.
    const RECORDED: &str = include_str!("flow_hash/linux-6.18.csv");

    fn is_ipv6(packet: &[u8]) -> bool {
        packet[0] >> 4 == 6
    }

    /// Returns the next hop for a packet among those of the recording.
    fn chosen(packet: &[u8], seed: u32, policy: u32) -> u16 {
        let is_weighted = if is_ipv6(packet) { packet[24] == 0xfd } else { packet[16] == 10 };
        let weight = |member: u16| if is_weighted { 1 + 7 * member % 13 } else { 1 };
        let members: Vec<_> = (0..64).map(|member| (NextHopId(member), weight(member))).collect();
        let policy = HashPolicy::from_number(policy);
        let kernel = KernelHash { seed: seed.try_into().unwrap(), ipv4: policy, ipv6: policy };
        let hash = FlowHash { seed: 0, kernel: Some(kernel) };
        let hash_of = if is_ipv6(packet) { FlowHash::hash_ipv6 } else { FlowHash::hash_ipv4 };
        Shares::new(&members).choose(hash_of(&hash, packet)).0
    }

    #[test]
    fn choice_matches_the_recording_of_linux() {
        let lines: Vec<&str> = RECORDED.lines().skip(1).collect();
        assert!(lines.len() > 800, "{}", lines.len());
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let [policy, seed, member, packet] = fields[..] else { panic!("{line}") };
            let byte = |at: usize| u8::from_str_radix(&packet[at..at + 2], 16).unwrap();
            let packet: Vec<u8> = (0..packet.len()).step_by(2).map(byte).collect();
            let own = chosen(&packet, seed.parse().unwrap(), policy.parse().unwrap());
            assert_eq!(own.to_string(), member, "{line}");
        }
    }

    #[test]
    fn icmp_errors_follow_the_flow_that_they_quote_with_either_policy() {
        let payload = [0; 8];
        for port in 0..64 {
            let [mut there, mut back, mut error] = [const { Vec::new() }; 3];
            let (client, server, router) = ([198, 51, 100, 1], [20, 0, 0, 1], [192, 0, 2, 9]);
            let udp = PacketBuilder::ipv4(client, server, 64).udp(port, 53);
            udp.write(&mut there, &payload).unwrap();
            let udp = PacketBuilder::ipv4(server, client, 9).udp(53, port);
            udp.write(&mut back, &payload).unwrap();
            let icmp = PacketBuilder::ipv4(router, server, 64).icmpv4_raw(3, 4, [0, 0, 5, 0]);
            icmp.write(&mut error, &back).unwrap();
            let [mut there6, mut back6, mut error6] = [const { Vec::new() }; 3];
            let (client, server, router) = ([1; 16], [2; 16], [3; 16]);
            let udp = PacketBuilder::ipv6(client, server, 64).udp(port, 53);
            udp.write(&mut there6, &payload).unwrap();
            let udp = PacketBuilder::ipv6(server, client, 9).udp(53, port);
            udp.write(&mut back6, &payload).unwrap();
            let icmp = PacketBuilder::ipv6(router, server, 64).icmpv6_raw(2, 0, [0, 0, 5, 0]);
            icmp.write(&mut error6, &back6).unwrap();
            for policy in [0, 1] {
                assert_eq!(chosen(&error, 7, policy), chosen(&there, 7, policy), "port {port}");
                assert_eq!(chosen(&error6, 7, policy), chosen(&there6, 7, policy), "port {port}");
            }
        }
    }

    #[test]
    fn own_hash_is_used_if_the_kernels_is_unknown() {
        let mut packet = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(7, 53).write(&mut packet, b"x").unwrap();
        let seed = 1.try_into().unwrap();
        let kernel = KernelHash { seed, ipv4: HashPolicy::from_number(1), ipv6: None };
        let own = FlowHash { seed: 9, kernel: None };
        let other = FlowHash { seed: 9, kernel: Some(kernel) };
        assert_eq!(other.hash_ipv6(&packet), own.hash_ipv6(&packet));
        let known = KernelHash { ipv6: HashPolicy::from_number(1), ..kernel };
        let known = FlowHash { kernel: Some(known), ..own };
        assert_ne!(known.hash_ipv6(&packet), own.hash_ipv6(&packet));
        assert_eq!(HashPolicy::from_number(2).or(HashPolicy::from_number(3)), None);
    }

    proptest! {
        /// Shares of hashes are those of the weights, and every hash has a member.
        #[test]
        fn shares_are_those_of_the_weights(weights in proptest::collection::vec(1..=u16::MAX, 1..256)) {
            let members: Vec<_> = (1..).map(NextHopId).zip(weights.iter().copied()).collect();
            let shares = Shares::new(&members);
            let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
            let mut from = 0;
            for ((last, id), (member, weight)) in shares.0.iter().zip(&members) {
                prop_assert_eq!(id, member);
                let share = f64::from(*last) + 1.0 - from as f64;
                let wanted = f64::from(*weight) / total as f64 * 2_f64.powi(31);
                prop_assert!((share - wanted).abs() <= 1.0, "{share} instead of {wanted}");
                prop_assert_eq!(shares.choose(*last << 1), *member);
                prop_assert_eq!(shares.choose((from as u32) << 1 | 1), *member);
                from = u64::from(*last) + 1;
            }
            prop_assert_eq!(from, 1 << 31);
            prop_assert_eq!(shares.members().count(), members.len());
        }

        #[test]
        fn no_packet_makes_it_panic(mut packet: Vec<u8>, ipv6: bool, policy in 0..2_u32) {
            packet.resize(packet.len().max(40), 0);
            packet[0] = if ipv6 { 0x60 } else { 0x45 };
            if !ipv6 {
                let length = packet.len() as u16;
                packet[2..4].copy_from_slice(&length.to_be_bytes());
                Ipv4Header::mut_from_prefix(&mut packet).unwrap().0.fill_checksum();
            }
            chosen(&packet, 1, policy);
        }
    }
}
