//! State that workers and control thread exchange about the other side.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize};

/// State of the decoder at its encoder; the control thread writes it, workers read it.
#[derive(Debug, Default)]
pub struct Peer {
    /// Distance in words up to which the decoder has packets; 0 while references are not allowed.
    reach: AtomicU64,
    /// Lowest position that the decoder may have.
    floor: AtomicU64,
    generation: AtomicU16,
}

impl Peer {
    /// Allows references to packets up to `reach` words back, but not before `floor`.
    pub(super) fn is_alive(&self, reach: u64, floor: u64, generation: u16) {
        self.floor.store(floor, Relaxed);
        self.generation.store(generation, Relaxed);
        self.reach.store(reach, Release);
    }

    /// Forbids references: all packets are sent unencoded.
    pub fn is_gone(&self) {
        self.reach.store(0, Release);
    }

    /// Returns the present state: words back, lowest position, generation.
    pub(super) fn now(&self) -> (u64, u64, u16) {
        let reach = self.reach.load(Acquire);
        (reach, self.floor.load(Relaxed), self.generation.load(Relaxed))
    }

    /// Returns true if packets may be encoded now.
    pub fn is_usable(&self) -> bool {
        self.reach.load(Relaxed) > 0
    }
}

/// Names of packets that a decoder missed, from workers to the control thread. The size is bounded:
/// if more are missed than fetched, the oldest are lost, and will be missed again.
#[derive(Debug)]
pub struct Misses {
    names: Box<[AtomicU64]>,
    next: AtomicUsize,
}

/// Bit that distinguishes a name from an empty slot; names have 48 bits.
const THERE: u64 = 1 << 63;

impl Misses {
    /// Makes a list with room for this many names.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            names: (0..room.max(1)).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Adds a name.
    pub fn note(&self, name: u64) {
        let slot = self.next.fetch_add(1, AcqRel) % self.names.len();
        if let Some(slot) = self.names.get(slot) {
            slot.store(name | THERE, Release);
        }
    }

    /// Returns true if there are names.
    pub fn are_there(&self) -> bool {
        self.names.iter().any(|slot| slot.load(Acquire) != 0)
    }

    /// Removes and returns all names, each once.
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
