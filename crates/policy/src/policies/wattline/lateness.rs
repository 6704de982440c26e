//! Learns from the share of late packets how long naps may be, and how much bursts matter.

use super::choose::LATE;

/// Time over which lateness is averaged, in seconds, and its goal as a share of the allowed one. Where
/// the load leaps, a late packet is worth more at a leap than in a nap.
const JUDGE_SECONDS: f64 = 50e-3;
const GOAL: f64 = 0.4;
const GOAL_BESIDE_LEAPS: f64 = 0.1;
/// Share of the slack that naps may use at first, and the least and the most.
const FIRST_NAPS: f64 = 0.7;
const NAPS: (f64, f64) = (0.4, 0.99);
/// Rates at which both follow the lateness: without late packets and leaps, `burst_share` falls to
/// a half in 50 ms, and naps grow to their limit in a third of a second; beside leaps in four times
/// that, since the goal is a quarter. Packets beyond the goal undo the former ten times as fast.
const NAPS_FOLLOW: f64 = 0.1;
const BURSTS_FOLLOW: f64 = 2.0;
const BACK: f64 = 10.0;
/// Bursts are never taken to matter less than this.
const LEAST_BURSTS: f64 = 0.01;

/// The planned rate grows by a factor of e in 4 ms while the account is overdrawn and packets are late, to so
/// many times the rate at most. Half of what was added is forgotten in a second.
const STRAIN_RISES: f64 = 12.0;
const STRAIN_FALLS: f64 = 0.035;
const MOST_STRAIN: f64 = 10.0;

/// Lessons from the lateness.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lateness {
    /// Share of the slack that naps may use.
    pub nap_share: f64,
    /// Share of the measured dispersion that counts for queues, trains and leaps. The formula of a
    /// queue's tail takes bursts to come at random. Trains at even distances have the same dispersion,
    /// and hardly ever meet in a queue.
    pub burst_share: f64,
    /// Factor on the rate that is planned for. It is above 1 where the account is overdrawn and packets go on
    /// being late, though the load is steady: the plan has too little capacity, whatever its formula says. Trains
    /// that always meet do so.
    pub strain: f64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { nap_share: FIRST_NAPS, burst_share: 1.0, strain: 1.0 }
    }
}

/// The packets that left since the last look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub packets: u64,
    pub late: u64,
    /// Seconds since the last look.
    pub seconds: f64,
    /// Packets per second, averaged.
    pub rate: f64,
}

/// State of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    /// A leap came of late.
    pub leaps: bool,
    /// The rate has been the same for some milliseconds, no leap came meanwhile, and there is more capacity to
    /// add: if packets are late, the plan is wrong.
    pub settled: bool,
    /// More packets were late than are allowed.
    pub overdrawn: bool,
    /// A leap is being answered: the account covers the packets that are late in it.
    pub answering: bool,
}

impl Lateness {
    /// Takes the packets that left since the last look.
    pub fn learn(&mut self, left: Left, situation: Situation) {
        let share = left.late as f64 / left.packets.max(1) as f64;
        // Few packets weigh little: less than usually leave in `JUDGE_SECONDS`.
        let usual = (left.rate * JUDGE_SECONDS).max(1.0);
        let weight = (left.packets as f64 / usual).min(1.0).min(left.seconds / JUDGE_SECONDS * 4.0);
        let goal = if situation.leaps { GOAL_BESIDE_LEAPS } else { GOAL };
        let goal = if situation.overdrawn { 0.5 * goal } else { goal };
        let error = (share / LATE - goal) * weight;
        if error > 0.0 && situation.answering {
            return;
        }
        self.nap_share = (self.nap_share - NAPS_FOLLOW * error).clamp(NAPS.0, NAPS.1);
        let follows = BURSTS_FOLLOW * if error > 0.0 { BACK } else { 1.0 };
        self.burst_share = (self.burst_share * (1.0 + follows * error)).clamp(LEAST_BURSTS, 1.0);
        let fails = situation.overdrawn && situation.settled && share > LATE;
        let strain = if fails {
            self.strain * (1.0 + STRAIN_RISES * weight)
        } else {
            1.0 + (self.strain - 1.0) * (1.0 - STRAIN_FALLS * weight)
        };
        self.strain = strain.clamp(1.0, MOST_STRAIN);
    }

    /// Another load came, of whose bursts nothing is known.
    pub fn forget_bursts(&mut self) {
        (self.burst_share, self.strain) = (1.0, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Situation =
        Situation { leaps: false, settled: true, overdrawn: false, answering: false };

    /// Takes looks of 200 us at 5 Mpps.
    fn looks(lateness: &mut Lateness, count: usize, late: u64, situation: Situation) {
        let left = Left { packets: 1_000, late, seconds: 200e-6, rate: 5e6 };
        (0..count).for_each(|_| lateness.learn(left, situation));
    }

    #[test]
    fn naps_grow_and_bursts_matter_less_until_packets_are_late() {
        let mut lateness = Lateness::default();
        looks(&mut lateness, 250, 0, CALM);
        assert!((0.73..0.75).contains(&lateness.nap_share), "{lateness:?}");
        assert!((0.40..0.50).contains(&lateness.burst_share), "half in 50 ms: {lateness:?}");
        looks(&mut lateness, 5_000, 0, CALM);
        assert!(lateness.nap_share == 0.99 && lateness.burst_share == LEAST_BURSTS, "{lateness:?}");
        // As many as the goal: all stays.
        let before = lateness;
        looks(&mut lateness, 250, 4, CALM);
        assert!((lateness.nap_share - before.nap_share).abs() < 1e-9, "{lateness:?}");
        assert!((lateness.burst_share / before.burst_share - 1.0).abs() < 1e-9, "{lateness:?}");
        // 2 % are late.
        looks(&mut lateness, 50, 20, CALM);
        assert!(lateness.nap_share < 0.96 && lateness.burst_share == 1.0, "{lateness:?}");
    }

    #[test]
    fn late_packets_of_a_leap_teach_nothing_and_beside_leaps_fewer_may_be_late() {
        let mut lateness = Lateness::default();
        looks(&mut lateness, 100, 500, Situation { answering: true, ..CALM });
        assert_eq!((lateness.nap_share, lateness.burst_share), (0.7, 1.0));
        let naps = |situation| {
            let mut lateness = Lateness::default();
            looks(&mut lateness, 250, 2, situation);
            lateness.nap_share
        };
        assert!(naps(CALM) > 0.7, "0.2 % are less than the goal");
        assert!(naps(Situation { leaps: true, ..CALM }) < 0.7);
        assert!(naps(Situation { overdrawn: true, ..CALM }) == 0.7, "half of the goal");
    }

    /// Trains that always meet: their dispersion is low, and still a third of their packets are late.
    #[test]
    fn more_is_planned_for_while_packets_go_on_being_late() {
        let failing = Situation { overdrawn: true, ..CALM };
        let mut lateness = Lateness::default();
        looks(&mut lateness, 100, 300, CALM);
        assert_eq!(lateness.strain, 1.0, "the account still pays for them");
        looks(&mut lateness, 100, 300, Situation { settled: false, ..failing });
        assert_eq!(lateness.strain, 1.0, "another load made them late");
        looks(&mut lateness, 20, 300, failing);
        assert!((2.4..2.8).contains(&lateness.strain), "a factor of e: {lateness:?}");
        looks(&mut lateness, 5_000, 0, failing);
        assert!((1.7..1.9).contains(&lateness.strain), "half after a second: {lateness:?}");
        looks(&mut lateness, 1_000, 300, failing);
        assert_eq!(lateness.strain, MOST_STRAIN);
        lateness.forget_bursts();
        assert_eq!(lateness.strain, 1.0);
    }

    #[test]
    fn few_packets_weigh_little() {
        let mut lateness = Lateness::default();
        lateness.learn(Left { packets: 1, late: 1, seconds: 200e-6, rate: 5e6 }, CALM);
        assert!(lateness.nap_share > 0.699, "{lateness:?}");
        lateness.learn(Left { packets: 0, late: 0, seconds: 0.0, rate: 0.0 }, CALM);
        assert!(lateness.nap_share > 0.699, "{lateness:?}");
    }
}
