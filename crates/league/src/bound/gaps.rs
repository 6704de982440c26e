//! Cost of a stretch in which no core serves a packet.

use crate::arrivals::Arrivals;
use std::collections::VecDeque;
use wattline_server::ServerModel;

/// Lower bound on the energy of a gap above the base, by its length. The core that serves the
/// packet at its end was awake all along, or slept in a state `k` and then left it: it draws
/// `P_k` asleep and, for the exit latency and the work of waking, as much as an awake core with
/// the shared part of the chips. All other cores are given free.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GapCost {
    /// Watts of a core that stays awake, at the lowest such power.
    polling: f64,
    /// Naps by idle state and frequency: watts asleep, seconds of waking, watts meanwhile.
    naps: Vec<(f64, f64, f64)>,
}

impl GapCost {
    pub fn of(server: &ServerModel) -> Self {
        let frequencies = &server.processor.frequencies;
        let awake =
            |frequency| server.awake_core_power(frequency).0 + server.power.uncore(frequency).0;
        let polling = frequencies.iter().map(|f| awake(*f)).fold(f64::INFINITY, f64::min);
        let mut naps = Vec::new();
        for state in 0..server.idle_states.len() {
            let asleep = server.idle_core_power(state).0;
            let exit = server.extra_exit_latency(state).as_seconds();
            for &frequency in frequencies {
                let wake = server.wake_up_seconds(frequency);
                // The frequency may be another while the state is left than afterwards.
                naps.push((
                    asleep,
                    exit + wake,
                    (polling * exit + awake(frequency) * wake)
                        / (exit + wake).max(f64::MIN_POSITIVE),
                ));
            }
        }
        Self { polling, naps }
    }

    /// Joules of a gap of so many seconds. Per second it never rises with the length.
    pub fn joules(&self, seconds: f64) -> f64 {
        let of = |&(asleep, waking, awake): &(f64, f64, f64)| {
            (waking <= seconds).then_some(asleep * (seconds - waking) + awake * waking)
        };
        self.naps.iter().filter_map(of).fold(self.polling * seconds, f64::min)
    }

    /// The dearest wake-up.
    pub fn longest_wake_joules(&self) -> f64 {
        self.naps.iter().map(|(_, waking, awake)| waking * awake).fold(0.0, f64::max)
    }
}

/// Gap lengths in classes, with the fewest packets that a gap of each class makes late: for the
/// least price of a second of gap in each slot.
#[derive(Debug, Clone)]
pub(super) struct GapClasses {
    classes: Vec<Class>,
}

#[derive(Debug, Clone)]
struct Class {
    /// Longest gap of the class, in seconds, and what it costs.
    longest: f64,
    joules: f64,
    /// By slot: the fewest packets that are late when a gap of this class covers the slot;
    /// `u32::MAX` where no such gap fits into the run.
    late: Vec<u32>,
}

/// Classes differ by this factor or by one slot.
const GROWTH: f64 = 1.4;

impl GapClasses {
    /// A packet that arrives in a gap of length G but in its last `slack` seconds is late when the
    /// gap ends. Of the G - slack seconds before, at least so many whole slots lie within.
    pub fn of(arrivals: &Arrivals, slack: f64, cost: &GapCost) -> Self {
        let slot = arrivals.slot as f64 * 1e-12;
        let mut classes = Vec::new();
        let mut slots = 0usize;
        while slots <= arrivals.packets.len() {
            let next = (slots + 1).max((slots as f64 * GROWTH) as usize);
            // With fewer than `next` whole slots before its last `slack` seconds.
            let longest = slack + (next + 1) as f64 * slot;
            let reach = arrivals.slots_around(longest) + 1;
            let late = fewest(&arrivals.packets, slots, reach);
            classes.push(Class { longest, joules: cost.joules(longest), late });
            slots = next;
        }
        Self { classes }
    }

    /// Returns the least cost of a second of gap in this slot, when a late packet has this price.
    pub fn watts(&self, slot: usize, price: f64) -> f64 {
        let of = |class: &Class| match class.late[slot] {
            u32::MAX => f64::INFINITY,
            late => (class.joules + price * f64::from(late)) / class.longest,
        };
        self.classes.iter().map(of).fold(f64::INFINITY, f64::min)
    }
}

/// By slot: the fewest packets in any `length` slots in a row that lie within `reach` slots of
/// it; `u32::MAX` where there are none.
fn fewest(packets: &[u32], length: usize, reach: usize) -> Vec<u32> {
    let slots = packets.len();
    if length == 0 {
        return vec![0; slots];
    }
    if length > slots {
        return vec![u32::MAX; slots];
    }
    let mut sums = Vec::with_capacity(slots - length + 1);
    let mut sum: u64 = packets[..length].iter().map(|count| u64::from(*count)).sum();
    sums.push(sum);
    for end in length..slots {
        sum = sum + u64::from(packets[end]) - u64::from(packets[end - length]);
        sums.push(sum);
    }
    // The least of the windows whose start is at most `reach` before the slot, and whose end is
    // at most `reach` after it.
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut next = 0;
    (0..slots)
        .map(|slot| {
            let last = (slot + reach).saturating_sub(length - 1).min(sums.len() - 1);
            while next <= last {
                while queue.back().is_some_and(|&back| sums[back] >= sums[next]) {
                    queue.pop_back();
                }
                queue.push_back(next);
                next += 1;
            }
            while queue.front().is_some_and(|&front| front + reach < slot) {
                queue.pop_front();
            }
            let least = queue.front().map_or(u64::MAX, |&front| sums[front]);
            u32::try_from(least).unwrap_or(u32::MAX)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::ServerFile;

    #[test]
    fn a_gap_costs_what_the_states_of_westmere_say() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let server = file.model().unwrap();
        let cost = GapCost::of(server);
        // 1.17 + 3.267 x 1.6 + 0.687 x 1.6 W polling; C1 at 1.5 W and 1.80 + 4.79 / f us of work.
        let awake = 1.17 + (3.267 + 0.687) * 1.6;
        assert!((cost.joules(1e-6) - awake * 1e-6).abs() < 1e-12, "too short for a nap");
        let wake = 1.8e-6 + 4.79e-6 / 1.6;
        let nap = 1.5 * (90e-6 - wake) + awake * wake;
        assert!((cost.joules(90e-6) - nap).abs() < 1e-9, "{} {nap}", cost.joules(90e-6));
        // One second in C6 costs the way out of it alone.
        assert!(cost.joules(1.0) < awake * 92e-6 + 1e-9);
        let per_second = |seconds: f64| cost.joules(seconds) / seconds;
        let lengths: Vec<f64> = (1..400).map(|n| 1e-6 * 1.05f64.powi(n)).collect();
        assert!(lengths.windows(2).all(|p| per_second(p[0]) >= per_second(p[1]) - 1e-12));
    }

    #[test]
    fn the_fewest_packets_around_each_slot() {
        let packets = [5, 1, 0, 4, 9, 2];
        assert_eq!(fewest(&packets, 0, 1), [0; 6]);
        assert_eq!(fewest(&packets, 1, 0), [5, 1, 0, 4, 9, 2]);
        assert_eq!(fewest(&packets, 2, 1), [6, 1, 1, 4, 11, 11]);
        assert_eq!(fewest(&packets, 7, 9), [u32::MAX; 6]);
    }
}
