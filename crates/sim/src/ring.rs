//! A receive ring with the packets that are still on their way to it.

use wattline_traffic::Packet;

/// A receive queue of one core: packets that wait in the ring, and, beyond the present
/// time, those that the redirect table has already led here.
///
/// Nothing leaves a ring between two looks of its core, so arrivals may be admitted late,
/// at the next look, and the tail drop is still exact.
#[derive(Debug)]
pub struct Ring {
    /// Packets on their way, in order of time; those before `next` were admitted.
    inbox: Vec<Packet>,
    next: usize,
    /// A circular buffer, its length a power of two; grows when the ring has no bound.
    slots: Vec<Packet>,
    head: usize,
    waiting: usize,
    /// Packets that the ring holds at most.
    capacity: usize,
    /// Packets that arrived, dropped ones included.
    pub arrivals: u64,
    /// Packets that found it full.
    pub drops: u64,
    /// Numbers of the dropped packets, counted from 1 in order of arrival, where someone
    /// asked for them.
    dropped: Option<Vec<u64>>,
    /// Sum of the arrival times of accepted packets, modulo 2^64.
    pub(crate) arrival_sum: u64,
    /// When the queue may raise its next interrupt, by its moderation.
    pub(crate) interrupt_allowed: u64,
}

const NO_PACKET: Packet = Packet { time: wattline_units::Time::ZERO, flow: 0, length: 0, port: 0 };

impl Ring {
    /// An empty one; `None` for one without bound.
    pub fn new(capacity: Option<usize>) -> Self {
        let slots = capacity.unwrap_or(64).clamp(1, 64).next_power_of_two();
        Self {
            inbox: Vec::new(),
            next: 0,
            slots: vec![NO_PACKET; slots],
            head: 0,
            waiting: 0,
            capacity: capacity.unwrap_or(usize::MAX),
            arrivals: 0,
            drops: 0,
            dropped: None,
            arrival_sum: 0,
            interrupt_allowed: 0,
        }
    }

    /// Leads a packet here; not earlier than the one led here before.
    #[inline]
    pub fn lead(&mut self, packet: Packet) {
        self.inbox.push(packet);
    }

    /// Forgets what was admitted, to make room for the next block.
    pub fn compact(&mut self) {
        if self.next == self.inbox.len() {
            self.inbox.clear();
        } else {
            self.inbox.drain(..self.next);
        }
        self.next = 0;
    }

    /// Takes back the packets that arrive after `now`: they are led anew.
    pub fn take_back_after(&mut self, now: u64) {
        let kept = self.inbox[self.next..].partition_point(|packet| packet.time.as_picos() <= now);
        self.inbox.truncate(self.next + kept);
    }

    /// Admits what has arrived by `now`; what finds the ring full is dropped.
    #[inline]
    pub fn admit(&mut self, now: u64) {
        while let Some(packet) = self.inbox.get(self.next) {
            let time = packet.time.as_picos();
            if time > now {
                break;
            }
            self.next += 1;
            self.arrivals += 1;
            if self.waiting >= self.capacity {
                self.drops += 1;
                if let Some(dropped) = &mut self.dropped {
                    dropped.push(self.arrivals);
                }
                continue;
            }
            if self.waiting == self.slots.len() {
                self.grow();
            }
            let mask = self.slots.len() - 1;
            self.slots[(self.head + self.waiting) & mask] = self.inbox[self.next - 1];
            self.waiting += 1;
            self.arrival_sum = self.arrival_sum.wrapping_add(time);
        }
    }

    /// From now on remembers which packets are dropped.
    pub fn watch_drops(&mut self) {
        self.dropped = Some(Vec::new());
    }

    /// The numbers of the packets dropped since the last call, counted from 1 in order of
    /// arrival; ascending. Nothing unless [`Self::watch_drops`] was called.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = u64> {
        self.dropped.iter_mut().flat_map(|dropped| dropped.drain(..))
    }

    /// Packets that were taken out to be served.
    pub fn taken(&self) -> u64 {
        self.arrivals - self.drops - self.waiting as u64
    }

    /// Packets that wait, of those admitted.
    #[inline]
    pub fn fill(&self) -> usize {
        self.waiting
    }

    /// When the oldest packet came that waits, or the next one will come.
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        let packet =
            if self.waiting > 0 { self.slots.get(self.head) } else { self.inbox.get(self.next) };
        packet.map(|packet| packet.time.as_picos())
    }

    /// Takes the packet that waits longest.
    #[inline]
    pub fn take(&mut self) -> Packet {
        debug_assert!(self.waiting > 0, "a batch holds no more than what waits");
        let mask = self.slots.len() - 1;
        let packet = self.slots[self.head & mask];
        self.head = (self.head + 1) & mask;
        self.waiting -= 1;
        packet
    }

    /// The packets that wait, the oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &Packet> {
        let mask = self.slots.len() - 1;
        (0..self.waiting).map(move |i| &self.slots[(self.head + i) & mask])
    }

    #[cold]
    fn grow(&mut self) {
        self.slots.rotate_left(self.head);
        self.head = 0;
        self.slots.resize(self.slots.len() * 2, NO_PACKET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattline_units::Time;

    fn packet(time: u64) -> Packet {
        Packet { time: Time::from_picos(time), ..NO_PACKET }
    }

    #[test]
    fn what_finds_the_ring_full_is_dropped() {
        let mut ring = Ring::new(Some(2));
        ring.watch_drops();
        (1..=5).for_each(|time| ring.lead(packet(time)));
        ring.admit(3);
        assert_eq!((ring.fill(), ring.arrivals, ring.drops), (2, 3, 1));
        assert_eq!(ring.take().time.as_picos(), 1);
        ring.admit(9);
        assert_eq!((ring.fill(), ring.arrivals, ring.drops), (2, 5, 2));
        assert_eq!(ring.take_dropped().collect::<Vec<_>>(), [3, 5]);
        assert_eq!(ring.take_dropped().count(), 0);
        let left: Vec<u64> = ring.waiting().map(|packet| packet.time.as_picos()).collect();
        assert_eq!(left, [2, 4]);
        assert_eq!(ring.taken(), 1);
    }

    proptest! {
        #[test]
        fn packets_are_conserved_in_order(
            steps in prop::collection::vec((0u64..9, 0usize..6), 1..200),
            capacity in prop::option::of(1usize..100),
        ) {
            let mut ring = Ring::new(capacity);
            let (mut now, mut led, mut taken) = (0u64, 0u64, Vec::new());
            for (gap, takes) in steps {
                ring.compact();
                for _ in 0..gap {
                    now += 1;
                    led += 1;
                    ring.lead(packet(now));
                }
                ring.admit(now);
                for _ in 0..takes.min(ring.fill()) {
                    taken.push(ring.take().time.as_picos());
                }
            }
            prop_assert!(taken.is_sorted());
            prop_assert_eq!(ring.arrivals, led);
            prop_assert_eq!(led, taken.len() as u64 + ring.fill() as u64 + ring.drops);
            prop_assert!(capacity.is_none_or(|most| ring.fill() <= most));
        }
    }
}
