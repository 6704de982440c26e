//! Cost of a gap, a time in which no core serves a packet.

use crate::arrivals::Arrivals;
use std::collections::VecDeque;
use wattline_server::ServerModel;

/// Lower bound on the energy of a gap above the base, by its length. The core that serves the
/// packet at the end of the gap either stays awake or sleeps in a state `k` and leaves it. Asleep
/// it draws `P_k`. During the exit latency and the work of waking it draws the power of an awake
/// core and the shared part of the chips. All other cores are free.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GapCost {
    /// Watts of a core that stays awake, at the lowest such power.
    polling: f64,
    /// Naps by idle state and frequency: watts asleep, seconds of waking, watts while waking.
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
                // The frequency during the exit latency may differ from the one afterwards.
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

    /// Returns the joules of a gap. The joules per second never rise with its length.
    pub fn joules(&self, seconds: f64) -> f64 {
        let of = |&(asleep, waking, awake): &(f64, f64, f64)| {
            (waking <= seconds).then_some(asleep * (seconds - waking) + awake * waking)
        };
        self.naps.iter().filter_map(of).fold(self.polling * seconds, f64::min)
    }

    /// Returns the joules of the most expensive wake-up.
    pub fn longest_wake_joules(&self) -> f64 {
        self.naps.iter().map(|(_, waking, awake)| waking * awake).fold(0.0, f64::max)
    }
}

/// Classes of gap lengths, with the fewest packets that a gap of each class makes late. They give
/// the least price of a second of gap in each slot.
#[derive(Debug, Clone)]
pub(super) struct GapClasses {
    classes: Vec<Class>,
}

#[derive(Debug, Clone)]
struct Class {
    /// Longest gap of the class, in seconds.
    longest: f64,
    joules: f64,
    /// Fewest late packets if a gap of this class covers the slot, by slot; `u32::MAX` where no
    /// such gap fits into the run.
    late: Vec<u32>,
}

/// Ratio of the lengths of neighbouring classes, which differ by at least one slot.
const GROWTH: f64 = 1.4;

impl GapClasses {
    /// Builds the classes. A packet is late if it arrives in a gap before its last `slack` seconds:
    /// in the first G - slack seconds of a gap of length G, which contain at least `slots` whole
    /// slots in every gap of a class.
    pub fn of(arrivals: &Arrivals, slack: f64, cost: &GapCost) -> Self {
        let slot = arrivals.slot as f64 * 1e-12;
        let mut classes = Vec::new();
        let mut slots = 0usize;
        while slots <= arrivals.packets.len() {
            let next = (slots + 1).max((slots as f64 * GROWTH) as usize);
            // The longest gap with fewer than `next` whole slots before its last `slack` seconds.
            let longest = slack + (next + 1) as f64 * slot;
            let reach = arrivals.slots_around(longest) + 1;
            let late = fewest(&arrivals.packets, slots, reach);
            classes.push(Class { longest, joules: cost.joules(longest), late });
            slots = next;
        }
        Self { classes }
    }

    /// Returns the least cost of a second of gap in this slot if a late packet has this price.
    pub fn watts(&self, slot: usize, price: f64) -> f64 {
        let of = |class: &Class| match class.late[slot] {
            u32::MAX => f64::INFINITY,
            late => (class.joules + price * f64::from(late)) / class.longest,
        };
        self.classes.iter().map(of).fold(f64::INFINITY, f64::min)
    }
}

/// Returns, for each slot, the fewest packets in any `length` consecutive slots within `reach`
/// slots of it; `u32::MAX` where no such window exists.
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
    fn gap_cost_follows_the_idle_states_of_westmere() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let server = file.model().unwrap();
        let cost = GapCost::of(server);
        // 1.17 + 3.267 x 1.6 + 0.687 x 1.6 W polling; C1 at 1.5 W and 1.80 + 4.79 / f us of work.
        let awake = 1.17 + (3.267 + 0.687) * 1.6;
        assert!((cost.joules(1e-6) - awake * 1e-6).abs() < 1e-12, "too short for a nap");
        let wake = 1.8e-6 + 4.79e-6 / 1.6;
        let nap = 1.5 * (90e-6 - wake) + awake * wake;
        assert!((cost.joules(90e-6) - nap).abs() < 1e-9, "{} {nap}", cost.joules(90e-6));
        // A second in C6 costs only the exit from it.
        assert!(cost.joules(1.0) < awake * 92e-6 + 1e-9);
        let per_second = |seconds: f64| cost.joules(seconds) / seconds;
        let lengths: Vec<f64> = (1..400).map(|n| 1e-6 * 1.05f64.powi(n)).collect();
        assert!(lengths.windows(2).all(|p| per_second(p[0]) >= per_second(p[1]) - 1e-12));
    }

    #[test]
    fn fewest_packets_around_each_slot() {
        let packets = [5, 1, 0, 4, 9, 2];
        assert_eq!(fewest(&packets, 0, 1), [0; 6]);
        assert_eq!(fewest(&packets, 1, 0), [5, 1, 0, 4, 9, 2]);
        assert_eq!(fewest(&packets, 2, 1), [6, 1, 1, 4, 11, 11]);
        assert_eq!(fewest(&packets, 7, 9), [u32::MAX; 6]);
    }
}
