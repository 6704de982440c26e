//! Common part of a router's captures and traces.

use std::sync::{Arc, Mutex, PoisonError};
use wattline_dataplane::tap::slots::{SLOTS, TapSlots};
use wattline_ports::waiter::Waker;

/// Kind of watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Capture,
    Trace,
}

/// The taps of a worker, or of the reader of XDP programs' copies.
pub(crate) struct WorkerTaps {
    pub slots: TapSlots,
    /// `None` if it never sleeps for long.
    pub waker: Option<Waker>,
    /// Chunks of its memory.
    pub chunks: u32,
}

impl WorkerTaps {
    /// Wakes it, so that it checks its slots.
    pub fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }
}

/// The present captures and traces.
#[derive(Default, Clone)]
pub(crate) struct Watchers {
    /// Most bytes of a frame that each needs.
    slots: Arc<Mutex<[Option<u16>; SLOTS]>>,
}

impl Watchers {
    /// Returns the most bytes of a frame that any of them needs; `None` if there are none.
    pub fn snap(&self) -> Option<u16> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().max().copied()
    }

    /// Takes a free slot of the workers; `None` if all are taken.
    pub fn take_slot(&self, snap: u16) -> Option<usize> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slots.iter().position(Option::is_none)?;
        slots[free] = Some(snap);
        Some(free)
    }

    /// Frees the slot.
    pub fn give_slot_back(&self, slot: usize) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)[slot] = None;
    }
}
