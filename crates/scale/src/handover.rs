//! Entries of an indirection table move from core to core, and every flow stays in order.
//!
//! After the move, the new core receives the packets of the entry. The old core may still hold
//! earlier ones. So packets that the new core has served wait at the egress port until the earlier
//! ones have left, even if the entry has passed through several cores meanwhile. Only sending
//! waits: all cores continue to serve. The simulator does the same (`wattline_cores`, `reorder`).
//!
//! A deadlock is impossible: a packet waits only for packets that were steered to a core before it.

use super::rss;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_packet::toeplitz::Toeplitz;

/// Place of a frame: an entry of a port's indirection table, and the entry's stay at the core that
/// received the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    port: usize,
    entry: u32,
    stay: u64,
}

impl Place {
    /// Returns the entry of its port's table.
    pub(super) fn entry(&self) -> u32 {
        self.entry
    }
}

/// Period in which an entry leads to one core.
#[derive(Debug)]
struct Stay {
    core: usize,
    since: Instant,
    /// Frames steered to the core and not yet taken by it.
    steered: u64,
    /// Frames taken by the core that have not left.
    inside: u64,
}

/// An entry: its present stay, and earlier ones that still have frames.
#[derive(Debug, Default)]
struct Entry {
    /// Number of the first stay.
    first: u64,
    stays: VecDeque<Stay>,
}

/// Contents of each core by entry; shared by the cores and the writer of the tables.
#[derive(Debug)]
pub struct Handover {
    /// Lowest bits of the hash that number the entry.
    mask: u32,
    toeplitz: Toeplitz,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Entries by port, then by number.
    entries: Vec<Vec<Entry>>,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    longest: Duration,
}

impl Handover {
    /// Creates the state for so many ports with tables of so many entries (a power of two).
    pub fn new(ports: usize, entries: usize) -> Self {
        let table = || (0..entries.max(1)).map(|_| Entry::default()).collect();
        let entries_by_port = (0..ports).map(|_| table()).collect();
        Self {
            mask: (entries.max(1) as u32).wrapping_sub(1),
            toeplitz: Toeplitz::default(),
            state: Mutex::new(State { entries: entries_by_port, sums: Sums::default() }),
        }
    }

    /// Notes that a frame with this hash is steered to a core, to which its entry now leads.
    pub(super) fn steer(&self, port: usize, hash: u32, core: usize) {
        self.with(port, hash & self.mask, |entry, sums| {
            entry.go_to(core, sums);
            if let Some(stay) = entry.stays.back_mut() {
                stay.steered += 1;
            }
        });
    }

    /// Withdraws the last frame with this hash that was steered to a core and not yet taken, so
    /// that it can be steered again.
    pub(super) fn take_back(&self, port: usize, hash: u32) {
        self.with(port, hash & self.mask, |entry, _| {
            if let Some(stay) = entry.stays.iter_mut().rev().find(|stay| stay.steered > 0) {
                stay.steered -= 1;
            }
        });
    }

    /// Notes that a core takes a frame, the first of its entry that was steered to it. Returns
    /// `None` if the frame was never steered.
    pub(super) fn take(&self, port: usize, frame: &[u8], core: usize) -> Option<Place> {
        self.take_hash(port, rss::hash(&self.toeplitz, frame), core)
    }

    /// Like [`Self::take`], by the frame's hash.
    pub(super) fn take_hash(&self, port: usize, hash: u32, core: usize) -> Option<Place> {
        let number = hash & self.mask;
        self.with(port, number, |entry, _| {
            let mut stays = entry.stays.iter_mut().zip(entry.first..);
            let (stay, at) = stays.find(|(stay, _)| stay.core == core && stay.steered > 0)?;
            (stay.steered, stay.inside) = (stay.steered - 1, stay.inside + 1);
            Some(Place { port, entry: number, stay: at })
        })
        .flatten()
    }

    /// Returns true if a frame may leave: no other core has earlier ones of its entry.
    pub(super) fn may_leave(&self, place: Place) -> bool {
        let first = self.with(place.port, place.entry, |entry, sums| {
            entry.remove_finished_stays(sums);
            entry.first
        });
        first.is_none_or(|first| place.stay <= first)
    }

    /// Notes that a frame has left, or never will. Returns the core that may have waited for it.
    pub(super) fn left(&self, place: Place) -> Option<usize> {
        self.with(place.port, place.entry, |entry, sums| {
            let stay = entry.stays.get_mut(place.stay.checked_sub(entry.first)? as usize)?;
            stay.inside = stay.inside.saturating_sub(1);
            let first = entry.first;
            entry.remove_finished_stays(sums);
            let next = entry.stays.front().filter(|_| entry.first != first)?;
            (next.inside > 0).then_some(next.core)
        })
        .flatten()
    }

    /// Returns the longest real time from an entry's move until its old core had no frames of it
    /// left.
    pub(super) fn longest(&self) -> Duration {
        self.state().sums.longest
    }

    fn with<R>(
        &self,
        port: usize,
        entry: u32,
        act: impl FnOnce(&mut Entry, &mut Sums) -> R,
    ) -> Option<R> {
        let mut state = self.state();
        let State { entries, sums } = &mut *state;
        let entry = entries.get_mut(port)?.get_mut(entry as usize)?;
        Some(act(entry, sums))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No holder leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Makes the entry lead to a core from now on, if it does not yet.
    fn go_to(&mut self, core: usize, sums: &mut Sums) {
        if self.stays.back().is_none_or(|stay| stay.core != core) {
            self.stays.push_back(Stay { core, since: Instant::now(), steered: 0, inside: 0 });
            self.remove_finished_stays(sums);
        }
    }

    /// Removes stays without frames, except the present one.
    fn remove_finished_stays(&mut self, sums: &mut Sums) {
        while self.stays.len() > 1
            && self.stays.front().is_some_and(|stay| stay.steered + stay.inside == 0)
        {
            self.stays.pop_front();
            self.first += 1;
            if let Some(next) = self.stays.front() {
                sums.longest = sums.longest.max(next.since.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frame_waits_for_earlier_ones_at_other_cores() {
        let handover = Handover::new(2, 128);
        let (old, new, third) = (0, 1, 2);
        handover.steer(0, 7, old);
        handover.steer(0, 7, old);
        let first = handover.take_hash(0, 7, old).unwrap();
        handover.steer(0, 128 + 7, new);
        let second = handover.take_hash(0, 7, new).unwrap();
        assert!(handover.may_leave(first) && !handover.may_leave(second));
        // Another entry, another port, and a frame that was never steered.
        handover.steer(0, 8, new);
        assert!(handover.may_leave(handover.take_hash(0, 8, new).unwrap()));
        handover.steer(1, 7, new);
        assert!(handover.may_leave(handover.take_hash(1, 7, new).unwrap()));
        assert_eq!(handover.take_hash(0, 9, new), None);
        assert_eq!(handover.take_hash(2, 7, new), None);
        // On to a third core and back to the old one.
        handover.steer(0, 7, third);
        handover.steer(0, 7, old);
        assert_eq!(handover.left(first), None);
        assert!(!handover.may_leave(second), "one more was steered to the old core");
        let late = handover.take_hash(0, 7, old).unwrap();
        assert_eq!((late.stay, handover.left(late)), (first.stay, Some(new)));
        assert!(handover.may_leave(second));
        let last = handover.take_hash(0, 7, old).unwrap();
        let between = handover.take_hash(0, 7, third).unwrap();
        assert!(!handover.may_leave(between) && !handover.may_leave(last));
        assert_eq!((handover.left(second), handover.left(between)), (Some(third), Some(old)));
        assert!(handover.may_leave(last));
    }

    #[test]
    fn withdrawn_frames_block_no_core() {
        let handover = Handover::new(1, 128);
        handover.steer(0, 7, 0);
        handover.take_back(0, 7);
        handover.steer(0, 7, 1);
        assert!(handover.may_leave(handover.take_hash(0, 7, 1).unwrap()));
    }

    proptest! {
        /// Frames are steered to changing cores; each core takes and releases its own in order, at
        /// any time. Entries must leave in order, and completely in the end.
        #[test]
        fn entries_leave_in_order(
            steered in prop::collection::vec((0u32..3, 0usize..4), 1..60),
            turns in prop::collection::vec(0usize..4, 0..200),
        ) {
            let handover = Handover::new(1, 4);
            let mut cores: Vec<VecDeque<(usize, u32)>> = vec![VecDeque::new(); 4];
            let mut left: Vec<Vec<usize>> = vec![Vec::new(); 3];
            let mut held: Vec<VecDeque<(usize, u32, Place)>> = vec![VecDeque::new(); 4];
            let mut turns = turns.into_iter();
            let mut turn = |core: usize, cores: &mut Vec<VecDeque<(usize, u32)>>| {
                if let Some((number, entry)) = cores[core].pop_front() {
                    let place = handover.take_hash(0, entry, core).unwrap();
                    held[core].push_back((number, entry, place));
                }
                held[core].retain(|&(number, entry, place)| {
                    let leaves = handover.may_leave(place);
                    if leaves {
                        left[entry as usize].push(number);
                        handover.left(place);
                    }
                    !leaves
                });
            };
            for (number, (entry, core)) in steered.iter().copied().enumerate() {
                handover.steer(0, entry, core);
                cores[core].push_back((number, entry));
                if let Some(core) = turns.next() {
                    turn(core, &mut cores);
                }
            }
            for _ in 0..steered.len() {
                (0..4).for_each(|core| turn(core, &mut cores));
            }
            prop_assert_eq!(left.iter().map(Vec::len).sum::<usize>(), steered.len());
            prop_assert!(left.iter().all(|numbers| numbers.is_sorted()));
        }
    }
}
