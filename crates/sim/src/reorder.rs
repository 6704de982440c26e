//! Packets that overtake others of their flow.

use std::collections::{HashMap, HashSet};

/// Counts reordered packets as RFC 4737, section 3.3 does: a packet is reordered when a
/// later one of its flow has left before it.
///
/// Order within a flow can only break when an entry of the redirect table moves while its
/// old core still holds packets. So only the flows of such packets are watched, and only
/// until the last of these packets has left.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    flows: HashSet<u32>,
    /// Flow, arrival and departure of watched packets.
    departures: Vec<(u32, u64, u64)>,
    /// Packets that arrived by then and wait still are the reason to watch.
    moved_at: Option<u64>,
    pub reordered: u64,
}

impl Watch {
    /// Watches the flow of a packet that waits at a core which its flow has just left.
    pub fn begin(&mut self, flow: u32, now: u64) {
        self.flows.insert(flow);
        self.moved_at = Some(now);
    }

    /// The time of the table's last move, while there is something to watch.
    pub fn moved_at(&self) -> Option<u64> {
        self.moved_at
    }

    #[inline]
    pub fn departed(&mut self, flow: u32, arrival: u64, departure: u64) {
        if self.moved_at.is_some() && self.flows.contains(&flow) {
            self.departures.push((flow, arrival, departure));
        }
    }

    /// All packets that waited at the move have left: counts and stops watching.
    pub fn end(&mut self) {
        self.departures.sort_unstable_by_key(|&(_, arrival, departure)| (departure, arrival));
        let mut latest: HashMap<u32, u64> = HashMap::new();
        for &(flow, arrival, _) in &self.departures {
            let latest = latest.entry(flow).or_insert(arrival);
            self.reordered += u64::from(arrival < *latest);
            *latest = arrival.max(*latest);
        }
        self.flows.clear();
        self.departures.clear();
        self.moved_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_a_later_one_overtook_counts() {
        let mut watch = Watch::default();
        watch.departed(7, 1, 2);
        watch.begin(7, 10);
        // Flow 7: sent at 3, 5, 9, 12, 14; left in the order 3, 12, 5, 14, 9.
        for (arrival, departure) in [(3, 20), (5, 40), (9, 60), (12, 30), (14, 50)] {
            watch.departed(7, arrival, departure);
        }
        watch.departed(8, 1, 70);
        watch.end();
        assert_eq!(watch.reordered, 2, "those of 5 and 9");
        watch.end();
        assert_eq!(watch.reordered, 2);
    }
}
