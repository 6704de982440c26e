//! A receive ring with the packets that are still on their way to it.

use wattline_policy::QueueView;
use wattline_traffic::Packet;
use wattline_units::Span;

/// A receive queue of one core: packets that wait in the ring, and, beyond the present
/// time, those that the redirect table has already led here.
///
/// Both lie in one list, so that admitting a packet copies it only where others were dropped
/// before it, and a batch is a slice.
///
/// The places of a batch are free once it is taken, and no others become free until the next
/// one is. So arrivals may be admitted at any time up to the core's next look, and the tail
/// drop is exact whenever that is done.
#[derive(Debug)]
pub struct Ring {
    /// In order of time: up to `head` those that were taken out, up to `tail` those that wait,
    /// from `next` on those on their way; between `tail` and `next` lies what dropped ones left.
    packets: Vec<Packet>,
    head: usize,
    tail: usize,
    next: usize,
    /// Packets of the batch that is being served: their places are free already.
    in_service: usize,
    /// Packets that the ring holds at most.
    capacity: usize,
    /// Packets that arrived, dropped ones included.
    pub arrivals: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Packets that found it full.
    pub drops: u64,
    /// Numbers of the dropped packets, counted from 1 in order of arrival, where someone
    /// asked for them.
    dropped: Option<Vec<u64>>,
    /// Sum of the arrival times of accepted packets, modulo 2^64.
    pub arrival_sum: u64,
    /// When the queue may raise its next interrupt, by its moderation.
    pub(crate) interrupt_allowed: u64,
}

impl Ring {
    const WORTH_COMPACTING: usize = 32;

    /// An empty one; `None` for one without bound.
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

    /// Leads a packet here; not earlier than the one led here before.
    #[inline]
    pub fn lead(&mut self, packet: Packet) {
        self.packets.push(packet);
    }

    /// Makes room for the next block: forgets what was taken out or dropped, once that is
    /// worth the while, and no less than what stays and has to be moved.
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

    /// Takes back the packets that arrive after `now`: they are led anew.
    pub fn take_back_after(&mut self, now: u64) -> impl Iterator<Item = Packet> {
        let ahead = &self.packets[self.next..];
        let kept = ahead.partition_point(|packet| packet.picos <= now);
        self.packets.drain(self.next + kept..)
    }

    /// Admits what has arrived by `now`; what finds the ring full is dropped.
    #[inline]
    pub fn admit(&mut self, now: u64) {
        // At low load most looks find nothing.
        if self.packets.get(self.next).is_some_and(|packet| packet.picos <= now) {
            self.admit_arrived(now);
        }
    }

    fn admit_arrived(&mut self, now: u64) {
        let ahead = &self.packets[self.next..];
        let arrived = ahead.iter().take_while(|packet| packet.picos <= now).count();
        let room = self.capacity.saturating_sub(self.fill() - self.in_service);
        let accepted = arrived.min(room);
        self.bytes += ahead[..arrived].iter().map(|packet| u64::from(packet.length)).sum::<u64>();
        if self.tail < self.next {
            self.packets.copy_within(self.next..self.next + accepted, self.tail);
        }
        for packet in &self.packets[self.tail..self.tail + accepted] {
            self.arrival_sum = self.arrival_sum.wrapping_add(packet.picos);
        }
        self.tail += accepted;
        self.next += arrived;
        self.arrivals += arrived as u64;
        self.drop_last(arrived - accepted);
    }

    /// The last so many of those that arrived find the ring full.
    #[inline]
    fn drop_last(&mut self, count: usize) {
        self.drops += count as u64;
        if let Some(dropped) = &mut self.dropped {
            dropped.extend(self.arrivals - count as u64 + 1..=self.arrivals);
        }
    }

    /// The core takes a batch of the packets that wait longest; it then serves [`Self::batch`].
    #[inline]
    pub fn begin_batch(&mut self, packets: u32) {
        self.in_service = (packets as usize).min(self.fill());
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
        self.arrivals - self.drops - self.fill() as u64
    }

    /// Packets that wait, of those admitted, and those of a batch that are not served yet.
    #[inline]
    pub fn fill(&self) -> usize {
        self.tail - self.head
    }

    /// When the oldest packet came that waits, or the next one will come.
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        let first = if self.head < self.tail { self.head } else { self.next };
        self.packets.get(first).map(|packet| packet.picos)
    }

    /// When it raises an interrupt, if its core sleeps: for the oldest packet that waits or the
    /// next one, as soon as moderation allows.
    #[inline]
    pub(crate) fn interrupt_due(&self) -> Option<u64> {
        Some(self.earliest()?.max(self.interrupt_allowed))
    }

    /// The packets of the batch that are not served yet, the oldest first.
    #[inline]
    pub(crate) fn batch(&self) -> &[Packet] {
        &self.packets[self.head..self.head + self.in_service]
    }

    /// The first so many packets of the batch are served.
    #[inline]
    pub(crate) fn served(&mut self, count: usize) {
        debug_assert!(count <= self.in_service, "no more than the batch");
        self.head += count;
        self.in_service -= count;
    }

    /// Takes the packet that waits longest, which there must be.
    #[inline]
    pub fn take(&mut self) -> Packet {
        debug_assert!(self.fill() > 0, "a batch holds no more than what waits");
        let packet = self.packets[self.head];
        self.head += 1;
        self.in_service = self.in_service.saturating_sub(1);
        packet
    }

    /// The packets on their way here, in order of time: those after the last that was admitted.
    pub fn ahead(&self) -> &[Packet] {
        &self.packets[self.next..]
    }

    /// When the packet arrived that waits longest, of those admitted, in picoseconds.
    pub fn oldest(&self) -> Option<u64> {
        self.waiting().first().map(|packet| packet.picos)
    }

    /// As policies see it at `now`, in picoseconds.
    pub fn view(&self, now: u64) -> QueueView {
        QueueView {
            fill: u32::try_from(self.fill()).unwrap_or(u32::MAX),
            arrivals: self.arrivals,
            drops: self.drops,
            bytes: Some(self.bytes),
            oldest: self.oldest().map(|at| Span::from_picos(now.saturating_sub(at))),
        }
    }

    /// The packets that wait, the oldest first.
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
    fn what_finds_the_ring_full_is_dropped() {
        let mut ring = Ring::new(Some(2));
        ring.watch_drops();
        (1..=5).for_each(|time| ring.lead(packet(time)));
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

    /// Whether somebody looks while a batch is served must not matter.
    #[test]
    fn a_batch_leaves_its_places_at_once() {
        let of = |looks: bool| {
            let mut ring = Ring::new(Some(4));
            (1..=4).for_each(|time| ring.lead(packet(time)));
            ring.admit(4);
            ring.begin_batch(3);
            (5..=9).for_each(|time| ring.lead(packet(time)));
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
                    ring.lead(packet(now));
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
