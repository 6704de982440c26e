//! What encoder and decoder know of each other, between workers and the control thread.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize};

/// The decoder as its encoder knows it; the control thread writes, workers read.
#[derive(Debug, Default)]
pub struct Peer {
    /// Words back to which the decoder remembers; 0 while nobody may be referred to anything.
    reach: AtomicU64,
    /// Nothing before this position is known to the decoder.
    floor: AtomicU64,
    generation: AtomicU16,
}

impl Peer {
    /// From now on packets may be referred to, up to `reach` words back but not before `floor`.
    pub(super) fn is_alive(&self, reach: u64, floor: u64, generation: u16) {
        self.floor.store(floor, Relaxed);
        self.generation.store(generation, Relaxed);
        self.reach.store(reach, Release);
    }

    /// From now on everything is sent as it is.
    pub fn is_gone(&self) {
        self.reach.store(0, Release);
    }

    /// Words back, lowest position, generation.
    pub(super) fn now(&self) -> (u64, u64, u16) {
        let reach = self.reach.load(Acquire);
        (reach, self.floor.load(Relaxed), self.generation.load(Relaxed))
    }

    /// Whether anything may be encoded now.
    pub fn is_usable(&self) -> bool {
        self.reach.load(Relaxed) > 0
    }
}

/// Names of packets that a decoder missed, from workers to the control thread. Bounded: where
/// more are missed than are fetched, the oldest are forgotten; they will be missed again.
#[derive(Debug)]
pub struct Misses {
    names: Box<[AtomicU64]>,
    next: AtomicUsize,
}

/// Tells a name from an empty slot: names have 48 bits.
const THERE: u64 = 1 << 63;

impl Misses {
    /// Room for so many.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            names: (0..room.max(1)).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Notes a name.
    pub fn note(&self, name: u64) {
        let slot = self.next.fetch_add(1, AcqRel) % self.names.len();
        if let Some(slot) = self.names.get(slot) {
            slot.store(name | THERE, Release);
        }
    }

    /// Fetches all, each once.
    pub fn fetch(&self) -> Vec<u64> {
        let taken = self.names.iter().map(|slot| slot.swap(0, AcqRel));
        let mut names: Vec<u64> = taken.filter(|name| *name != 0).map(|it| it & !THERE).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_fetched_once_and_bounded() {
        let misses = Misses::new(4);
        for name in [7, 0, 7, 9] {
            misses.note(name);
        }
        assert_eq!(misses.fetch(), [0, 7, 9]);
        assert!(misses.fetch().is_empty());
        (0..9).for_each(|name| misses.note(name));
        assert_eq!(misses.fetch(), [5, 6, 7, 8]);
    }
}
