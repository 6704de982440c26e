//! Keeps flows in order on interfaces, where the packets steered to each core are not counted.
//!
//! The table of a card (real or emulated) is rewritten at once, while packets steered by the old
//! table may still be in the kernel's queues. So the cores that receive an entry hold its frames
//! back until the core that loses it has passed three steps:
//!
//! 1. a grace time, in which the packets under way arrive;
//! 2. its queues are found empty: it now holds every packet that the old table steered to it;
//! 3. those frames have left, and another grace time has passed for their transmission.
//!
//! One rewriting runs at a time; a second one is deferred.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_policy::CoreSet;

/// Real time until frames sent by the old table have reached their queue, and sent frames have
/// passed the kernel.
const GRACE: Duration = Duration::from_millis(2);

/// Place of a frame: the core that took it, and the table in force then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    core: usize,
    /// Number of rewrites before it was taken.
    rewritings: u64,
    /// True if the table before the last of these may have steered it to the core.
    old: bool,
}

/// The rewrite in progress.
#[derive(Debug)]
struct Rewriting {
    since: Instant,
    givers: Vec<Giver>,
}

#[derive(Debug)]
struct Giver {
    core: usize,
    /// Cores that received entries from this core.
    to: CoreSet,
    /// True if the core has taken all frames that the old table steered to it.
    complete: bool,
    /// Number of these frames that have not left.
    old: u64,
    /// Time since which there have been none.
    empty_since: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    /// Frames taken by each core that have not left.
    inside: Vec<u64>,
    rewritings: u64,
    present: Option<Rewriting>,
    longest: Duration,
}

/// Cores that wait for other cores.
#[derive(Debug)]
pub(super) struct Transit {
    state: Mutex<State>,
}

impl Transit {
    pub fn new(cores: usize) -> Self {
        Self { state: Mutex::new(State { inside: vec![0; cores], ..State::default() }) }
    }

    /// Returns true if the last rewrite is over, so that another may begin.
    pub fn is_over(&self) -> bool {
        self.state().present.is_none()
    }

    /// Starts a rewrite of tables in which entries move from core to core.
    pub fn begin(&self, moves: impl Iterator<Item = (usize, usize)>) {
        let mut state = self.state();
        state.rewritings += 1;
        let mut givers: Vec<Giver> = Vec::new();
        for (from, to) in moves {
            match givers.iter_mut().find(|giver| giver.core == from) {
                Some(giver) => giver.to.insert(to),
                None => givers.push(Giver {
                    core: from,
                    to: CoreSet::only(to),
                    complete: false,
                    old: state.inside.get(from).copied().unwrap_or(0),
                    empty_since: None,
                }),
            }
        }
        state.present = (!givers.is_empty()).then(|| Rewriting { since: Instant::now(), givers });
    }

    /// Notes that a core takes a frame.
    pub fn take(&self, core: usize) -> Option<Place> {
        let mut state = self.state();
        let rewritings = state.rewritings;
        *state.inside.get_mut(core)? += 1;
        let giver = state.giver(core).filter(|giver| !giver.complete);
        let old = giver.is_some();
        if let Some(giver) = giver {
            giver.old += 1;
        }
        Some(Place { core, rewritings, old })
    }

    /// Returns true if a frame may leave: the cores that gave entries to its core have no older
    /// ones.
    pub fn may_leave(&self, place: Place) -> bool {
        let state = self.state();
        let Some(present) = &state.present else { return true };
        place.rewritings < state.rewritings
            || !present.givers.iter().any(|giver| giver.to.contains(place.core))
    }

    /// Notes that a frame has left, or never will.
    pub fn left(&self, place: Place) {
        let mut state = self.state();
        if let Some(inside) = state.inside.get_mut(place.core) {
            *inside = inside.saturating_sub(1);
        }
        let before = place.rewritings < state.rewritings;
        if let Some(giver) = state.giver(place.core).filter(|_| before || place.old) {
            giver.old = giver.old.saturating_sub(1);
        }
    }

    /// Notes that a core has polled all its queues and forwarded its frames; `found_none` if they
    /// were empty. Returns the cores that no longer wait for it. Call it often while
    /// [`Self::awaits`] that core.
    pub fn look(&self, core: usize, found_none: bool) -> CoreSet {
        let mut state = self.state();
        let Some(since) = state.present.as_ref().map(|present| present.since) else {
            return CoreSet::EMPTY;
        };
        let Some(giver) = state.giver(core) else { return CoreSet::EMPTY };
        giver.complete |= found_none && since.elapsed() >= GRACE;
        if !giver.complete || giver.old > 0 {
            return CoreSet::EMPTY;
        }
        if giver.empty_since.get_or_insert_with(Instant::now).elapsed() < GRACE {
            return CoreSet::EMPTY;
        }
        let to = giver.to;
        if let Some(present) = &mut state.present {
            present.givers.retain(|giver| giver.core != core);
            if present.givers.is_empty() {
                state.present = None;
                state.longest = state.longest.max(since.elapsed());
            }
        }
        to
    }

    /// Notes that a core ends, so that no core waits for it any longer.
    pub fn forget(&self, core: usize) -> CoreSet {
        let mut state = self.state();
        let to = state.giver(core).map_or(CoreSet::EMPTY, |giver| giver.to);
        if let Some(present) = &mut state.present {
            present.givers.retain(|giver| giver.core != core);
            if present.givers.is_empty() {
                state.present = None;
            }
        }
        to
    }

    /// Returns true if others wait for a core.
    pub fn awaits(&self, core: usize) -> bool {
        self.state().giver(core).is_some()
    }

    /// Returns the longest duration of a rewrite.
    pub fn longest(&self) -> Duration {
        self.state().longest
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No holder leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn giver(&mut self, core: usize) -> Option<&mut Giver> {
        self.present.as_mut()?.givers.iter_mut().find(|giver| giver.core == core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait() {
        std::thread::sleep(GRACE + Duration::from_millis(1));
    }

    #[test]
    fn new_core_waits_until_the_old_one_is_empty() {
        let transit = Transit::new(3);
        let before = transit.take(0).unwrap();
        let early = transit.take(1).unwrap();
        transit.begin([(0, 1), (0, 1)].into_iter());
        assert!(!transit.is_over() && transit.awaits(0) && !transit.awaits(1));
        let late = transit.take(0).unwrap();
        let held = transit.take(1).unwrap();
        let third = transit.take(2).unwrap();
        assert!(transit.may_leave(before) && transit.may_leave(late) && transit.may_leave(early));
        assert!(!transit.may_leave(held) && transit.may_leave(third));
        assert!(transit.look(0, true).is_empty(), "some may still be on their way");
        wait();
        assert!(transit.look(0, false).is_empty(), "it has not seen all");
        assert!(transit.look(0, true).is_empty());
        let new = transit.take(0).unwrap();
        transit.left(before);
        assert!(transit.look(0, true).is_empty());
        transit.left(late);
        assert!(transit.look(0, true).is_empty(), "not out of the kernel yet");
        wait();
        assert_eq!(transit.look(0, false), CoreSet::only(1));
        assert!(transit.is_over() && transit.may_leave(held) && transit.may_leave(new));
        assert!(transit.longest() >= GRACE * 2);
    }

    #[test]
    fn core_that_gains_and_loses_entries_waits_and_is_waited_for() {
        let transit = Transit::new(3);
        // The first core is removed, the third added.
        transit.begin([(0, 1), (1, 2)].into_iter());
        let (middle, last) = (transit.take(1).unwrap(), transit.take(2).unwrap());
        assert!(!transit.may_leave(middle) && !transit.may_leave(last));
        wait();
        assert!(transit.look(1, true).is_empty() && transit.look(0, true).is_empty());
        wait();
        assert_eq!(transit.look(0, true), CoreSet::only(1));
        assert!(transit.may_leave(middle) && !transit.may_leave(last));
        transit.left(middle);
        transit.look(1, true);
        assert_eq!(transit.forget(1), CoreSet::only(2));
        assert!(transit.may_leave(last) && transit.is_over());
    }
}
