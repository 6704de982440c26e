//! Feasibility of a budget: the late packets of a schedule in which all cores always serve at full
//! speed.

use crate::arrivals::Arrivals;

/// Returns the most packets that may wait at the end of each slot: the arrivals within the slack.
pub(super) fn most_waiting(arrivals: &Arrivals, slack: f64) -> Vec<f64> {
    // A packet may come as late as at the end of its slot.
    let span = arrivals.slots_around(slack);
    let mut waiting = 0u64;
    let of = |slot: usize| {
        waiting += u64::from(arrivals.packets[slot]);
        if slot >= span {
            waiting -= u64::from(arrivals.packets[slot - span]);
        }
        waiting as f64
    };
    (0..arrivals.packets.len()).map(of).collect()
}

/// Returns the fewest late packets in any schedule that serves at most `rate` packets per second. A
/// packet that can no longer be in time is not served; packets are interchangeable, so its identity
/// does not matter.
pub(super) fn fewest_late(arrivals: &Arrivals, most_waiting: &[f64], rate: f64) -> f64 {
    let (mut backlog, mut late) = (0.0, 0.0);
    for (slot, most) in most_waiting.iter().enumerate() {
        let came = f64::from(arrivals.packets[slot]);
        backlog = (backlog + came - rate * arrivals.seconds(slot)).max(0.0);
        late += (backlog - most).max(0.0);
        backlog = backlog.min(*most);
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of one second.
    fn arrivals(packets: &[u32]) -> Arrivals {
        let second = 1_000_000_000_000;
        Arrivals {
            slot: second,
            duration: second * packets.len() as u64,
            packets: packets.to_vec(),
            bytes: vec![0; packets.len()],
            shortest: 64,
            longest: 64,
        }
    }

    #[test]
    fn packets_beyond_rate_and_slack_are_late() {
        let of = |packets: &[u32], slack: f64, rate: f64| {
            let arrivals = arrivals(packets);
            let most = most_waiting(&arrivals, slack);
            fewest_late(&arrivals, &most, rate)
        };
        assert_eq!(of(&[4, 4, 4], 1.0, 4.0), 0.0);
        // The last packets may still wait.
        assert_eq!(of(&[0, 0, 9], 1.0, 2.0), 0.0);
        // A burst may use its own slot and the slots of the slack.
        let span = arrivals(&[]).slots_around(1.0) as f64;
        assert_eq!(of(&[9, 0, 0, 0, 0, 0], 1.0, 2.0), 9.0 - 2.0 * (span + 1.0));
        assert_eq!(of(&[9, 0, 0, 0, 0, 0], 1.0, 9.0), 0.0);
    }
}
