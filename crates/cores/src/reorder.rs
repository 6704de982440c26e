//! Keeps flows in order when their entry of the indirection table moves to another core.
//!
//! The new core may be faster: its queue is empty, while earlier packets of the flow wait in the
//! old core's ring. The packets that it finishes are then held back until the earlier ones have
//! left. Only their departure is delayed; the core continues meanwhile, so that neither power nor
//! capacity change.

use crate::egress::Departure;
use std::collections::{HashMap, HashSet};

/// A port and an entry of its indirection table.
type Entry = (u8, u32);

/// Holds back packets of moved entries, and counts those that still leave after a later one (RFC
/// 4737, section 3.3).
///
/// Order within an entry can break only when it moves while its old core still holds packets of it.
/// Only such entries are watched, and only until the last of these packets has left.
#[derive(Debug, Default)]
pub struct Watch {
    entries: HashSet<Entry>,
    /// Mask for the low bits of the flow's hash, which are the number of the entry.
    mask: u32,
    /// Departure times of packets in service when their entry moved; they are already counted.
    in_service: HashMap<Entry, u64>,
    watched: Vec<Departure>,
    /// Time of the move: packets that arrived before it and still wait are the reason to watch.
    moved_at: Option<u64>,
    /// Earliest time at which the last of these packets leaves.
    until: u64,
    /// Counts of held and reordered packets.
    pub counts: OrderCounts,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Packets that left after a later one of their flow, in spite of the watch.
    pub reordered: u64,
    /// Packets that would have left after a later one if nothing had been held back.
    pub overtaken: u64,
    /// Packets that were held back.
    pub held: u64,
    /// Total time for which packets were held back, in picoseconds.
    pub hold_picos: u64,
    /// Longest time for which a packet was held back, in picoseconds.
    pub hold_longest: u64,
}

impl Watch {
    /// Watches the entry of a packet that waits at the core which the entry has just left.
    pub fn begin(&mut self, port: u8, flow: u32, arrival: u64, mask: u32, now: u64) {
        self.mask = mask;
        self.entries.insert((port, flow & mask));
        let moved_at = self.moved_at.unwrap_or(0).max(arrival).max(now);
        self.moved_at = Some(moved_at);
    }

    /// Watches the entry of a packet that its core finishes at `done`.
    pub fn begin_in_service(&mut self, port: u8, flow: u32, done: u64, mask: u32, now: u64) {
        self.begin(port, flow, now, mask, now);
        let latest = self.in_service.entry((port, flow & mask)).or_insert(done);
        *latest = done.max(*latest);
        self.until = self.until.max(done);
    }

    /// Time of the table's last move; `None` if nothing is watched.
    pub fn moved_at(&self) -> Option<u64> {
        self.moved_at
    }

    /// Returns true if all packets that waited at the move have left by `now`.
    pub fn is_over(&self, now: u64) -> bool {
        self.until <= now
    }

    /// Number of packets that are held back or whose departure is not reported yet.
    pub fn holding(&self) -> u64 {
        self.watched.len() as u64
    }

    /// Records that a core has finished a packet. Returns true if it may leave at once; otherwise
    /// [`Self::end`] reports its departure.
    #[inline]
    pub fn done(&mut self, departure: Departure) -> bool {
        self.moved_at.is_none() || self.free(departure)
    }

    #[cold]
    fn free(&mut self, departure: Departure) -> bool {
        if !self.entries.contains(&(departure.port, departure.flow & self.mask)) {
            return true;
        }
        if self.moved_at.is_some_and(|moved_at| departure.arrival <= moved_at) {
            self.until = self.until.max(departure.done);
        }
        self.watched.push(departure);
        false
    }

    /// Ends the watch after all packets that waited at the move have left. Calls `left` for each
    /// watched packet, with the time of its departure.
    pub fn end(&mut self, mut left: impl FnMut(Departure)) {
        self.counts.overtaken += overtaken(&mut self.watched);
        // Packets arrive one after the other on one port.
        self.watched.sort_unstable_by_key(|departure| departure.arrival);
        let mut latest = std::mem::take(&mut self.in_service);
        for departure in &mut self.watched {
            let entry = (departure.port, departure.flow & self.mask);
            let latest = latest.entry(entry).or_insert(departure.done);
            let hold = latest.saturating_sub(departure.done);
            departure.done += hold;
            *latest = departure.done;
            self.counts.held += u64::from(hold > 0);
            self.counts.hold_picos += hold;
            self.counts.hold_longest = self.counts.hold_longest.max(hold);
            left(*departure);
        }
        self.counts.reordered += overtaken(&mut self.watched);
        self.entries.clear();
        self.watched.clear();
        (self.moved_at, self.until) = (None, 0);
    }
}

/// Number of packets that left after a later one of their flow.
fn overtaken(departures: &mut [Departure]) -> u64 {
    departures.sort_unstable_by_key(|departure| (departure.done, departure.arrival));
    let mut latest: HashMap<(u8, u32), u64> = HashMap::new();
    let mut count = 0;
    for departure in departures {
        let flow = (departure.port, departure.flow);
        let latest = latest.entry(flow).or_insert(departure.arrival);
        count += u64::from(departure.arrival < *latest);
        *latest = departure.arrival.max(*latest);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MASK: u32 = 127;

    fn departure(port: u8, flow: u32, arrival: u64, done: u64) -> Departure {
        Departure { arrival, done, flow, length: 64, port, core: 0 }
    }

    #[test]
    fn overtaken_packet_counts() {
        // Sent at 3, 5, 9, 12, 14; left in the order 3, 12, 5, 14, 9.
        let mut departures: Vec<Departure> = [(3, 20), (5, 40), (9, 60), (12, 30), (14, 50)]
            .map(|(arrival, done)| departure(0, 135, arrival, done))
            .to_vec();
        departures.push(departure(0, 7, 1, 70));
        assert_eq!(overtaken(&mut departures), 2, "those of 5 and 9");
    }

    #[test]
    fn overtaking_packet_is_held_until_the_old_core_is_done() {
        let mut watch = Watch::default();
        assert!(watch.done(departure(0, 7, 1, 2)), "nothing has moved");
        watch.begin(0, 128 + 7, 8, MASK, 10);
        assert!(watch.done(departure(0, 8, 11, 12)), "another entry");
        assert!(watch.done(departure(1, 7, 11, 12)), "another port");
        // First the packet on the new core, then the packet that waited on the old core.
        assert!(!watch.done(departure(0, 7, 11, 15)));
        assert!(!watch.done(departure(0, 7, 8, 40)));
        assert!(!watch.done(departure(0, 7, 16, 50)));
        assert!(!watch.is_over(39) && watch.is_over(40));
        let mut left = Vec::new();
        watch.end(|departure| left.push((departure.arrival, departure.done)));
        assert_eq!(left, [(8, 40), (11, 40), (16, 50)]);
        let counts =
            OrderCounts { reordered: 0, overtaken: 1, held: 1, hold_picos: 25, hold_longest: 25 };
        assert_eq!(watch.counts, counts);
        assert!(watch.done(departure(0, 7, 17, 51)), "it is over");
        // The old core was about to finish the last packet.
        watch.begin_in_service(0, 7, 70, MASK, 60);
        assert!(!watch.done(departure(0, 7, 61, 65)) && !watch.is_over(69));
        watch.end(|departure| assert_eq!(departure.done, 70));
    }

    proptest! {
        /// For any behaviour of the cores, packets of an entry leave in order, and none before it
        /// is finished.
        #[test]
        fn order_holds(packets in prop::collection::vec((0u32..4, 0u64..1000), 1..100)) {
            let mut watch = Watch::default();
            (0..4).for_each(|entry| watch.begin(0, entry, 0, MASK, 0));
            let mut done = HashMap::new();
            for (arrival, &(entry, after)) in packets.iter().enumerate() {
                let arrival = arrival as u64;
                watch.done(departure(0, entry, arrival, arrival + after));
                done.insert(arrival, (entry, arrival + after));
            }
            let mut latest: HashMap<u32, u64> = HashMap::new();
            watch.end(|departure| {
                let (entry, done) = done[&departure.arrival];
                assert!(departure.done >= done);
                let before = latest.insert(entry, departure.done).unwrap_or(0);
                assert!(before <= departure.done, "in order of arrival");
            });
            prop_assert_eq!(watch.counts.reordered, 0);
        }
    }
}
