//! A receive ring, together with future packets directed to it.

use wattline_policy::QueueView;
use wattline_traffic::Packet;
use wattline_units::Span;

/// A receive queue of one core: the packets that wait in the ring, and later ones that the
/// indirection table has already directed here.
///
/// Both are in one list. Admitting a packet therefore copies it only if packets before it were
/// dropped, and a batch is a slice.
///
/// The slots of a batch become free when it is taken, and no other slots until the next batch is
/// taken. So arrivals may be admitted at any time up to the core's next poll, and tail drop is
/// always exact.
#[derive(Debug)]
pub struct Ring {
    /// Packets in order of time: taken ones before `head`, waiting ones before `tail`, coming ones
    /// from `next` on. Between `tail` and `next` are the gaps of dropped packets.
    packets: Vec<Packet>,
    head: usize,
    tail: usize,
    next: usize,
    /// Number of packets of the batch in service; their slots are already free.
    in_service: usize,
    /// Capacity of the ring in packets.
    capacity: usize,
    /// Number of packets that arrived, dropped ones included.
    pub arrivals: u64,
    /// Bytes of the packets that arrived, dropped ones included.
    pub bytes: u64,
    /// Number of packets dropped because the ring was full.
    pub drops: u64,
    /// Numbers of the dropped packets, counted from 1 in order of arrival; `None` unless asked for.
    dropped: Option<Vec<u64>>,
    /// Sum of the arrival times of accepted packets, modulo 2^64.
    pub arrival_sum: u64,
    /// Earliest time of the queue's next interrupt according to its moderation.
    pub(crate) interrupt_allowed: u64,
}

impl Ring {
    const WORTH_COMPACTING: usize = 32;

    /// An empty ring; `None` for unbounded capacity.
    pub fn new(capacity: Option<usize>) -> Self {
        Self {
            packets: Vec::new(),
            head: 0,
            tail: 0,
            next: 0,
            in_service: 0,
            capacity: capacity.unwrap_or(usize::MAX),
            arrivals: 0,
            bytes: 0,
            drops: 0,
            dropped: None,
            arrival_sum: 0,
            interrupt_allowed: 0,
        }
    }

    /// Adds a packet that is directed here; its time must not be before that of the last one.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.packets.push(packet);
    }

    /// Removes taken and dropped packets to make room for the next block, if at least as many can
    /// be removed as must be moved.
    pub fn compact(&mut self) {
        let stay = self.fill() + self.packets.len() - self.next;
        if self.packets.len() < Self::WORTH_COMPACTING.max(2 * stay) {
            return;
        }
        if self.tail < self.next {
            self.packets.drain(self.tail..self.next);
        }
        self.packets.drain(..self.head);
        (self.head, self.tail) = (0, self.fill());
        self.next = self.tail;
    }

    /// Removes and returns the packets that arrive after `now`, so that they can be redirected.
    pub fn take_back_after(&mut self, now: u64) -> impl Iterator<Item = Packet> {
        let ahead = &self.packets[self.next..];
        let kept = ahead.partition_point(|packet| packet.picos <= now);
        self.packets.drain(self.next + kept..)
    }

    /// Admits the packets that have arrived by `now`; drops those that find the ring full.
    #[inline]
    pub fn admit(&mut self, now: u64) {
        // At low load, most polls find nothing.
        if self.packets.get(self.next).is_some_and(|packet| packet.picos <= now) {
            self.admit_arrived(now);
        }
    }

    fn admit_arrived(&mut self, now: u64) {
        let ahead = &self.packets[self.next..];
        let room = self.capacity.saturating_sub(self.fill() - self.in_service);
        // One pass over the packets: few arrive at a time.
        let (mut arrived, mut bytes, mut arrival_sum) = (0, 0, 0_u64);
        for packet in ahead.iter().take_while(|packet| packet.picos <= now) {
            bytes += u64::from(packet.length);
            arrival_sum = arrival_sum.wrapping_add(if arrived < room { packet.picos } else { 0 });
            arrived += 1;
        }
        let accepted = arrived.min(room);
        if self.tail < self.next {
            self.packets.copy_within(self.next..self.next + accepted, self.tail);
        }
        self.bytes += bytes;
        self.arrival_sum = self.arrival_sum.wrapping_add(arrival_sum);
        self.tail += accepted;
        self.next += arrived;
        self.arrivals += arrived as u64;
        self.drop_last(arrived - accepted);
    }

    /// Drops the last `count` of the packets that have arrived.
    #[inline]
    fn drop_last(&mut self, count: usize) {
        self.drops += count as u64;
        if let Some(dropped) = &mut self.dropped {
            dropped.extend(self.arrivals - count as u64 + 1..=self.arrivals);
        }
    }

    /// Takes a batch of the packets that wait longest; the core then serves [`Self::batch`].
    #[inline]
    pub fn begin_batch(&mut self, packets: u32) {
        self.in_service = (packets as usize).min(self.fill());
    }

    /// Starts recording which packets are dropped.
    pub fn watch_drops(&mut self) {
        self.dropped = Some(Vec::new());
    }

    /// Numbers of the packets dropped since the last call, ascending, counted from 1 in order of
    /// arrival. Empty unless [`Self::watch_drops`] was called.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = u64> {
        self.dropped.iter_mut().flat_map(|dropped| dropped.drain(..))
    }

    /// Number of packets taken out for service.
    pub fn taken(&self) -> u64 {
        self.arrivals - self.drops - self.fill() as u64
    }

    /// Returns the number of waiting packets, including unserved packets of a batch.
    #[inline]
    pub fn fill(&self) -> usize {
        self.tail - self.head
    }

    /// Arrival time of the oldest waiting packet, or of the next one to come.
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        let first = if self.head < self.tail { self.head } else { self.next };
        self.packets.get(first).map(|packet| packet.picos)
    }

    /// Time at which the ring raises an interrupt if its core sleeps: for the oldest waiting packet
    /// or the next one, as soon as moderation allows.
    #[inline]
    pub(crate) fn interrupt_due(&self) -> Option<u64> {
        Some(self.earliest()?.max(self.interrupt_allowed))
    }

    /// Packets of the batch that are not served yet, oldest first.
    #[inline]
    pub(crate) fn batch(&self) -> &[Packet] {
        &self.packets[self.head..self.head + self.in_service]
    }

    /// Marks the first `count` packets of the batch as served.
    #[inline]
    pub(crate) fn served(&mut self, count: usize) {
        debug_assert!(count <= self.in_service, "no more than the batch");
        self.head += count;
        self.in_service -= count;
    }

    /// Takes the packet that waits longest. The ring must not be empty.
    #[inline]
    pub fn take(&mut self) -> Packet {
        debug_assert!(self.fill() > 0, "a batch holds no more than what waits");
        let packet = self.packets[self.head];
        self.head += 1;
        self.in_service = self.in_service.saturating_sub(1);
        packet
    }

    /// Packets on their way here, in order of time, after the last admitted one.
    pub fn ahead(&self) -> &[Packet] {
        &self.packets[self.next..]
    }

    /// Arrival time of the admitted packet that waits longest, in picoseconds.
    pub fn oldest(&self) -> Option<u64> {
        self.waiting().first().map(|packet| packet.picos)
    }

    /// State of the ring at `now` (picoseconds) as policies see it.
    pub fn view(&self, now: u64) -> QueueView {
        QueueView {
            fill: u32::try_from(self.fill()).unwrap_or(u32::MAX),
            arrivals: self.arrivals,
            drops: self.drops,
            bytes: Some(self.bytes),
            oldest: self.oldest().map(|at| Span::from_picos(now.saturating_sub(at))),
            age: Span::ZERO,
        }
    }

    /// Waiting packets, oldest first.
    pub fn waiting(&self) -> &[Packet] {
        &self.packets[self.head..self.tail]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(time: u64) -> Packet {
        Packet { picos: time, flow: 0, length: 0, port: 0 }
    }

    #[test]
    fn packet_for_a_full_ring_is_dropped() {
        let mut ring = Ring::new(Some(2));
        ring.watch_drops();
        (1..=5).for_each(|time| ring.push(packet(time)));
        ring.admit(3);
        assert_eq!((ring.fill(), ring.arrivals, ring.drops), (2, 3, 1));
        assert_eq!(ring.take().picos, 1);
        ring.admit(9);
        assert_eq!((ring.fill(), ring.arrivals, ring.drops), (2, 5, 2));
        assert_eq!(ring.take_dropped().collect::<Vec<_>>(), [3, 5]);
        assert_eq!(ring.take_dropped().count(), 0);
        let left: Vec<u64> = ring.waiting().iter().map(|packet| packet.picos).collect();
        assert_eq!(left, [2, 4]);
        assert_eq!(ring.taken(), 1);
    }

    /// The result must not depend on calls during the service of a batch.
    #[test]
    fn slots_of_a_batch_become_free_at_once() {
        let of = |looks: bool| {
            let mut ring = Ring::new(Some(4));
            (1..=4).for_each(|time| ring.push(packet(time)));
            ring.admit(4);
            ring.begin_batch(3);
            (5..=9).for_each(|time| ring.push(packet(time)));
            for time in 5..8 {
                if looks {
                    ring.admit(time);
                }
                ring.take();
            }
            ring.admit(9);
            (ring.fill(), ring.drops)
        };
        assert_eq!(of(true), (4, 2));
        assert_eq!(of(false), (4, 2));
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
                    ring.push(packet(now));
                }
                ring.admit(now);
                for _ in 0..takes.min(ring.fill()) {
                    taken.push(ring.take().picos);
                }
            }
            prop_assert!(taken.is_sorted());
            prop_assert_eq!(ring.arrivals, led);
            prop_assert_eq!(led, taken.len() as u64 + ring.fill() as u64 + ring.drops);
            prop_assert!(capacity.is_none_or(|most| ring.fill() <= most));
        }
    }
}
