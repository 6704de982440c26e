//! How a tap reaches a worker that runs, and comes back.
//!
//! The control thread leaves a tap at one of a few places and counts up; the worker compares the count
//! once per iteration, and only when it has changed looks what is there. Both hold the lock for as long
//! as it takes to move a pointer; a worker that finds it taken looks again in its next iteration.

use super::tap::Tap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Taps that a worker can have at once.
pub const PLACES: usize = 4;

/// What lies at a place.
#[derive(Default)]
pub(super) enum Parcel {
    /// Nothing to do.
    #[default]
    None,
    /// A tap for the worker; replaces the one that it has.
    Put(Box<Tap>),
    /// The worker shall give its tap back.
    Ask,
    /// A tap that the worker has given back.
    Back(#[expect(dead_code, reason = "kept until it is dropped by the control thread")] Box<Tap>),
}

/// The places of one worker.
#[derive(Default)]
struct Places {
    changes: AtomicU64,
    places: [Mutex<Parcel>; PLACES],
}

/// The control thread's side of a worker's places.
#[derive(Clone, Default)]
pub struct Door(Arc<Places>);

/// The worker's side.
pub(super) struct Inside {
    door: Door,
    seen: u64,
}

impl Door {
    /// Gives the worker a tap at a place below [`PLACES`]. One that it has there is replaced.
    pub fn put(&self, place: usize, tap: Tap) {
        self.leave(place, Parcel::Put(Box::new(tap)));
    }

    /// Takes the tap at a place from the worker, in its next iteration.
    pub fn take(&self, place: usize) {
        self.leave(place, Parcel::Ask);
    }

    fn leave(&self, place: usize, parcel: Parcel) {
        let Some(at) = self.0.places.get(place) else { return };
        // A tap that lay there is dropped here and not by the worker.
        let old = {
            let mut at = at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::replace(&mut *at, parcel)
        };
        self.0.changes.fetch_add(1, Ordering::Release);
        drop(old);
    }

    pub(super) fn inside(&self) -> Inside {
        Inside { door: self.clone(), seen: 0 }
    }
}

impl Inside {
    /// Whether something may have changed.
    #[inline]
    pub fn rings(&self) -> bool {
        self.door.0.changes.load(Ordering::Relaxed) != self.seen
    }

    /// Brings the worker's taps up to date.
    pub fn look(&mut self, taps: &mut [Option<Box<Tap>>; PLACES]) {
        let changes = self.door.0.changes.load(Ordering::Acquire);
        for (at, tap) in self.door.0.places.iter().zip(taps) {
            let Ok(mut at) = at.try_lock() else { return };
            let parcel = std::mem::take(&mut *at);
            let back = match parcel {
                Parcel::Put(new) => tap.replace(new),
                Parcel::Ask => tap.take(),
                Parcel::None | Parcel::Back(_) => {
                    *at = parcel;
                    continue;
                }
            };
            if let Some(back) = back {
                *at = Parcel::Back(back);
            }
        }
        self.seen = changes;
    }
}
