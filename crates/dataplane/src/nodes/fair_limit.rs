//! A rate limit that no sender can use up for the others.
//!
//! Half of the rate is shared by all senders. The other half is divided into equal parts, one for
//! each group of senders; a keyed hash of its address assigns a sender to a group. A message takes
//! from the shared half first, then from the part of its group. A sender that provokes messages
//! without end therefore empties the shared half and one part, and all other groups keep theirs.
//! Linux has a bucket for each destination in addition to the global one (`icmp_ratelimit` and
//! `icmp_msgs_per_sec` in `Documentation/networking/ip-sysctl.rst`). Groups need no memory that
//! grows with the senders.

use crate::token_bucket::TokenBucket;
use wattline_units::Time;

/// Number of groups.
const GROUPS: usize = 64;
/// Share of the burst that a group has, as a divisor.
const GROUP_BURST: u32 = 8;

/// A limit for messages to senders; see the module.
pub(super) struct FairLimit {
    shared: TokenBucket,
    groups: Box<[TokenBucket; GROUPS]>,
}

impl FairLimit {
    /// Divides a limit.
    pub fn new(limit: &TokenBucket) -> Self {
        let group = limit.part(2 * GROUPS as u32, GROUP_BURST);
        let groups = Box::new(std::array::from_fn(|_| group.clone()));
        Self { shared: limit.part(2, 2), groups }
    }

    /// Takes a token for a message to the sender with this hash; true if there was one.
    pub fn take(&mut self, now: Time, sender: u32) -> bool {
        // The high bits of a product, since a remainder would need a division.
        let group = ((u64::from(sender) * GROUPS as u64) >> 32) as usize;
        self.shared.take(now) || self.groups.get_mut(group).is_some_and(|group| group.take(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use wattline_packet::flow;
    use wattline_units::Span;

    fn sender(number: u32) -> u32 {
        flow::sender(Ipv4Addr::from(0x0a00_0000 + number).into(), 7)
    }

    /// 50,000 packets a second of one sender, and 40 others with one packet each.
    #[test]
    fn one_sender_leaves_the_others_their_messages() {
        let mut limit = FairLimit::new(&TokenBucket::new(1000, 50));
        let (mut of_flood, mut of_others) = (0, 0);
        for micro in (0..2_000_000_u64).step_by(20) {
            let now = Time::ZERO + Span::from_micros(micro);
            of_flood += u32::from(limit.take(now, sender(0)));
            if micro % 50_000 == 0 {
                of_others += u32::from(limit.take(now, sender(1 + (micro / 50_000) as u32)));
            }
        }
        assert_eq!(of_others, 40);
        // Half of the rate, its group's part, and both bursts.
        assert!((900..1100).contains(&of_flood), "{of_flood}");
    }

    #[test]
    fn all_senders_together_stay_within_the_rate() {
        let mut limit = FairLimit::new(&TokenBucket::new(1000, 50));
        let take = |limit: &mut FairLimit, from: u64, to: u64| -> usize {
            let times = (from..to).step_by(10).enumerate();
            let now = |micro| Time::ZERO + Span::from_micros(micro);
            times.filter(|(n, micro)| limit.take(now(*micro), sender(*n as u32 % 5000))).count()
        };
        let first = take(&mut limit, 0, 1_000_000);
        let bursts = 25 + GROUPS * 6;
        assert!((1000..=1000 + bursts).contains(&first), "{first}");
        let second = take(&mut limit, 1_000_000, 2_000_000);
        // Every bucket may have a token more or less at either end of the second.
        assert!(second.abs_diff(1000) <= GROUPS + 1, "{second}");
    }
}
