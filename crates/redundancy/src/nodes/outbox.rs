//! Outbox in which workers give the control thread the positions of records that were not offered
//! to the decoder yet. Its size is bounded: a worker that finds it full replaces the oldest entry.

use super::store::Position;
use crossbeam_utils::CachePadded;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Number of slots, enough for the packets of a worker in a tick of the control thread.
const CAPACITY: usize = 1 << 16;
/// Bit that distinguishes a position from an empty slot.
const PRESENT: u64 = 1 << 63;

pub(super) struct Outbox {
    slots: Box<[AtomicU64]>,
    next: CachePadded<AtomicU64>,
    /// Number of entries that the control thread has passed.
    taken: AtomicU64,
}

impl Outbox {
    pub fn new() -> Self {
        Self {
            slots: (0..CAPACITY).map(|_| AtomicU64::new(0)).collect(),
            next: CachePadded::new(AtomicU64::new(0)),
            taken: AtomicU64::new(0),
        }
    }

    /// Adds a position. Returns the position that it replaces, if the outbox is full.
    pub fn put(&self, at: Position) -> Option<Position> {
        let number = self.next.fetch_add(1, AcqRel);
        let before = self.slots.get(number as usize % CAPACITY)?.swap(at | PRESENT, AcqRel);
        (before != 0).then_some(before & !PRESENT)
    }

    /// Removes and returns the oldest positions, at most `most`; for the control thread only.
    pub fn take(&self, most: usize) -> Vec<Position> {
        let end = self.next.load(Acquire);
        let begin = self.taken.load(Relaxed).max(end.saturating_sub(CAPACITY as u64));
        let end = end.min(begin + most as u64);
        self.taken.store(end, Release);
        let slots = (begin..end).filter_map(|number| self.slots.get(number as usize % CAPACITY));
        let entries = slots.map(|slot| slot.swap(0, AcqRel));
        entries.filter(|entry| *entry != 0).map(|entry| entry & !PRESENT).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_taken_once_and_in_order() {
        let outbox = Outbox::new();
        assert!((0..10).all(|at| outbox.put(at).is_none()));
        assert_eq!(outbox.take(3), [0, 1, 2]);
        assert_eq!(outbox.take(100), [3, 4, 5, 6, 7, 8, 9]);
        assert!(outbox.take(100).is_empty());
    }

    #[test]
    fn full_outbox_replaces_the_oldest() {
        let outbox = Outbox::new();
        let replaced: Vec<_> = (0..CAPACITY as u64 + 3).filter_map(|at| outbox.put(at)).collect();
        assert_eq!(replaced, [0, 1, 2]);
        let taken = outbox.take(2 * CAPACITY);
        assert_eq!((taken.len(), taken[0]), (CAPACITY, 3));
    }
}
