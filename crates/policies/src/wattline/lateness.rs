//! Accounts for late packets: the number that a rise may make late, and the length of steady naps.

use super::constants::*;

/// Account of late packets, and the share of the slack that naps may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lateness {
    /// Unused allowance of late packets, earned by packets in time.
    left: f64,
    pub naps: f64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { left: 0.0, naps: USABLE }
    }
}

impl Lateness {
    /// Books the packets that left at this rate, and the late ones among them. A few late packets
    /// while a rise is answered do not affect naps.
    pub fn book(&mut self, (packets, late): (u64, u64), rate: f64, rises: bool, answering: bool) {
        // The budget applies to every second, so no more is saved.
        let paid = MOST_LOAD * LATE * packets as f64;
        self.left = (self.left + paid - late as f64).clamp(-LATE * rate, LATE * rate);
        let goal = if rises { GOAL_WITH_RISES } else { GOAL };
        let share = late as f64 / packets.max(1) as f64;
        // Without late packets, naps double in two seconds.
        let weight = (packets as f64 / rate.max(1.0)).min(RECENT);
        let error = (share / LATE - goal) * weight * 2.0;
        if error <= 0.0 || !answering {
            self.naps = (self.naps - error).clamp(GOAL, 1.0 - LATE);
        }
    }

    /// Returns the number of packets that a rise may make late; negative after more were late than
    /// allowed. The very first rise may use the whole account, later ones half of it.
    pub fn allows(&self, rises: bool) -> f64 {
        if rises { self.left / 2.0 } else { self.left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates decisions every 200 us at 5 Mpps.
    fn share_after(count: usize, late: u64, rises: bool, answering: bool) -> f64 {
        let mut lateness = Lateness::default();
        (0..count).for_each(|_| lateness.book((1_000, late), 5e6, rises, answering));
        lateness.naps
    }

    #[test]
    fn naps_grow_while_few_packets_are_late_and_shrink_otherwise() {
        assert!((0.73..0.75).contains(&share_after(250, 0, false, false)));
        assert!((share_after(250, 4, false, false) - USABLE).abs() < 1e-9, "as many as the goal");
        assert!(share_after(250, 20, false, false) < 0.6);
        assert_eq!(share_after(50_000, 20, false, false), GOAL);
        assert!(share_after(50_000, 0, false, false) < 1.0);
    }

    #[test]
    fn fewer_late_packets_are_allowed_with_rises() {
        assert!(
            share_after(250, 2, false, false) > USABLE && share_after(250, 2, true, false) < USABLE
        );
    }

    #[test]
    fn late_packets_of_a_rise_do_not_shorten_naps() {
        assert_eq!(share_after(100, 500, true, true), USABLE);
    }

    #[test]
    fn hundred_packets_in_time_pay_for_nearly_one_late() {
        let mut account = Lateness::default();
        assert_eq!(account.allows(true), 0.0, "latency is not measured");
        account.book((10_000, 40), 1e6, false, false);
        assert_eq!((account.allows(true), account.allows(false)), (28.5, 57.0));
        account.book((10_000_000, 0), 1e6, false, false);
        assert_eq!(account.allows(true), 5_000.0, "one second at most");
        account.book((1_000, 10_049), 1e6, false, false);
        assert!((account.allows(true) + 19.65).abs() < 1e-9, "overdrawn");
    }
}
