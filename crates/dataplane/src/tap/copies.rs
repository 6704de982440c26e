//! Taps on copies of packets that XDP programs forward.
//!
//! The reader of the copies stands for a worker in captures and traces. Each copy is complete: the
//! packet as received, as sent, and the decision.

pub use super::forwarded::{End, Forwarded};
use super::slots::{SLOTS, TapSlots, WorkerSlots};
use super::tap::{Moment, Tap};

/// Name of the node at which traces show such packets.
pub const NODE: &str = "xdp-forward";

/// The taps of a reader of copies.
pub struct CopyTaps {
    /// Number of the place as a node.
    node: u8,
    slots: TapSlots,
    reader_slots: WorkerSlots,
    taps: [Option<Box<Tap>>; SLOTS],
}

impl CopyTaps {
    /// Makes an empty set; [`NODE`] gets the number after those of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        let slots = TapSlots::default();
        let node = nodes.try_into().unwrap_or(u8::MAX);
        Self { node, reader_slots: slots.worker_side(), slots, taps: Default::default() }
    }

    /// Returns the slots in which the control thread leaves taps: [`Tap`]s with one chunk.
    pub fn slots(&self) -> TapSlots {
        self.slots.clone()
    }

    /// Takes new taps from the slots, and gives back those that are requested.
    #[inline]
    pub fn update(&mut self) {
        if self.reader_slots.have_changed() {
            self.reader_slots.update(&mut self.taps);
        }
    }

    /// Records a packet in all taps.
    pub fn forwarded(&mut self, packet: &Forwarded<'_>) {
        for tap in self.taps.iter_mut().flatten() {
            tap.forwarded(self.node, packet);
        }
    }

    /// Ends a round of records, at `wall_nanos` nanoseconds since 1970.
    pub fn end_round(&mut self, wall_nanos: u64) {
        let moment = Moment { wall_nanos, ..Moment::default() };
        for tap in self.taps.iter_mut().flatten() {
            tap.end_round(moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::filter::Filter;
    use super::super::record::{Kind, Record, Records};
    use super::super::tap::{TapCounters, TapOptions};
    use super::*;
    use crate::drop_reason::DropReason;
    use crate::testing::{MAC_A, frame4};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use wattline_units::Time;

    /// Returns a tap with this filter, which begins at the next update.
    fn tap(taps: &CopyTaps, slot: usize, options: &TapOptions) -> (Records, Arc<TapCounters>) {
        let (tap, records, counters) = Tap::new(options.clone(), 1);
        taps.slots().put(slot, tap);
        (records, counters)
    }

    fn options(filter: &str, nodes: bool) -> TapOptions {
        let filter = Filter::parse(filter, &|name| name.parse().ok()).unwrap();
        TapOptions { filter, nodes, snap: 50, rate: u32::MAX }
    }

    fn packet<'a>(received: &'a [u8], sent: Result<&'a [u8], DropReason>) -> Forwarded<'a> {
        Forwarded {
            now: Time::ZERO,
            wall_nanos: 5,
            received: End::whole(0, received),
            sent: sent.map(|bytes| End::whole(1, bytes)).map_err(|reason| reason as u8),
            next_hop: &[192, 0, 2, 9],
        }
    }

    fn read(records: &mut Records) -> Vec<Record> {
        std::iter::from_fn(|| records.read()).collect()
    }

    fn kinds(records: &mut Records) -> Vec<(Kind, u16, usize)> {
        read(records).iter().map(|it| (it.kind, it.port, it.bytes.len())).collect()
    }

    #[test]
    fn copies_are_filtered_at_both_ends_and_cut() {
        let mut taps = CopyTaps::new(7);
        let (mut all, counted) = tap(&taps, 0, &options("udp", false));
        let (mut right, _) = tap(&taps, 1, &options("interface 1", false));
        let (mut none, uncounted) = tap(&taps, 2, &options("tcp", false));
        let (mut trace, _) = tap(&taps, 3, &options("all", true));
        let [received, sent] = [64, 63].map(|ttl| frame4(MAC_A, ttl, &[7; 60]));
        taps.update();
        taps.forwarded(&packet(&received, Ok(&sent)));
        taps.end_round(9);
        let round = (Kind::Round, 0, 0);
        let both = [(Kind::Received, 0, 50), (Kind::Sent, 1, 50), round];
        assert_eq!(kinds(&mut all), both);
        assert_eq!(kinds(&mut right), [(Kind::Sent, 1, 50), round]);
        assert_eq!(kinds(&mut none), []);
        let way = [
            (Kind::Received, 0, 50),
            (Kind::Visits(7), 0, 0),
            (Kind::NextHop, 0, 4),
            (Kind::Sent, 1, 0),
            round,
        ];
        assert_eq!(kinds(&mut trace), way);
        let count = |of: &TapCounters| of.matched.load(Ordering::Relaxed);
        assert_eq!((count(&counted), count(&uncounted)), (1, 0));
    }

    #[test]
    fn dropped_packet_has_its_reason_and_the_next_one_another_number() {
        let mut taps = CopyTaps::new(7);
        let (mut records, _) = tap(&taps, 0, &options("all", false));
        let frame = frame4(MAC_A, 64, b"x");
        taps.update();
        for _ in 0..2 {
            taps.forwarded(&packet(&frame, Err(DropReason::PortGone)));
        }
        let dropped = Kind::Dropped(DropReason::PortGone as u8);
        let seen: Vec<_> = read(&mut records).iter().map(|it| (it.packet, it.kind)).collect();
        let expected = [(1, Kind::Received), (1, dropped), (2, Kind::Received), (2, dropped)];
        assert_eq!(seen, expected);
        taps.slots().take(0);
        taps.update();
        taps.forwarded(&packet(&frame, Err(DropReason::PortGone)));
        assert_eq!(read(&mut records), []);
    }

    #[test]
    fn copies_beyond_the_rate_are_missed() {
        let mut taps = CopyTaps::new(7);
        let slow = TapOptions { rate: 10, ..options("all", false) };
        let (mut records, counters) = tap(&taps, 0, &slow);
        let frame = frame4(MAC_A, 64, b"x");
        taps.update();
        for _ in 0..5 {
            taps.forwarded(&packet(&frame, Ok(&frame)));
        }
        assert_eq!(read(&mut records).len(), 2, "the packets of a tenth of a second");
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        assert_eq!((count(&counters.matched), count(&counters.missed)), (5, 4));
    }
}
