//! Handover of a tap to a running worker, and back.
//!
//! The control thread leaves a tap in one of a few slots and increments a counter. The worker
//! compares the counter once per iteration, and reads the slots only if it has changed. Both hold
//! the lock for as long as it takes to move a pointer. A worker that finds it taken tries again in
//! its next iteration.

use super::tap::Tap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Most taps that a worker can have at once.
pub const SLOTS: usize = 4;

/// Contents of a slot.
#[derive(Default)]
pub(super) enum SlotState {
    /// Nothing to do.
    #[default]
    None,
    /// A tap for the worker; replaces its present one.
    Put(Box<Tap>),
    /// The worker must give its tap back.
    Ask,
    /// A tap that the worker has given back.
    Back(#[expect(dead_code, reason = "kept until it is dropped by the control thread")] Box<Tap>),
}

/// The slots of one worker.
#[derive(Default)]
struct Slots {
    changes: AtomicU64,
    slots: [Mutex<SlotState>; SLOTS],
}

/// The control thread's side of a worker's slots.
#[derive(Clone, Default)]
pub struct TapSlots(Arc<Slots>);

/// The worker's side.
pub(super) struct WorkerSlots {
    shared: TapSlots,
    seen: u64,
}

impl TapSlots {
    /// Gives the worker a tap in a slot below [`SLOTS`]. It replaces the one there.
    pub fn put(&self, slot: usize, tap: Tap) {
        self.leave(slot, SlotState::Put(Box::new(tap)));
    }

    /// Takes the tap in a slot from the worker, in its next iteration.
    pub fn take(&self, slot: usize) {
        self.leave(slot, SlotState::Ask);
    }

    fn leave(&self, slot: usize, state: SlotState) {
        let Some(at) = self.0.slots.get(slot) else { return };
        // Dropped here, not by the worker, if it still lies there.
        let old = {
            let mut at = at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::replace(&mut *at, state)
        };
        self.0.changes.fetch_add(1, Ordering::Release);
        drop(old);
    }

    pub(super) fn worker_side(&self) -> WorkerSlots {
        WorkerSlots { shared: self.clone(), seen: 0 }
    }
}

impl WorkerSlots {
    /// Returns true if something may have changed.
    #[inline]
    pub fn have_changed(&self) -> bool {
        self.shared.0.changes.load(Ordering::Relaxed) != self.seen
    }

    /// Updates the worker's taps.
    pub fn update(&mut self, taps: &mut [Option<Box<Tap>>; SLOTS]) {
        let changes = self.shared.0.changes.load(Ordering::Acquire);
        for (at, tap) in self.shared.0.slots.iter().zip(taps) {
            let Ok(mut at) = at.try_lock() else { return };
            let state = std::mem::take(&mut *at);
            let back = match state {
                SlotState::Put(new) => tap.replace(new),
                SlotState::Ask => tap.take(),
                SlotState::None | SlotState::Back(_) => {
                    *at = state;
                    continue;
                }
            };
            if let Some(back) = back {
                *at = SlotState::Back(back);
            }
        }
        self.seen = changes;
    }
}
