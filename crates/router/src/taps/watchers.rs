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

/// A worker, or the reader of what XDP programs copy, as far as taps go.
pub(crate) struct WorkerTaps {
    pub slots: TapSlots,
    /// None if it never sleeps for long.
    pub waker: Option<Waker>,
    /// Chunks of its memory.
    pub chunks: u32,
}

impl WorkerTaps {
    /// Makes it look into its slots.
    pub fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }
}

/// Present captures and traces.
#[derive(Default, Clone)]
pub(crate) struct Watchers {
    /// Most bytes of a frame that each needs.
    slots: Arc<Mutex<[Option<u16>; SLOTS]>>,
}

impl Watchers {
    /// Most bytes of a frame that any needs; `None` without one.
    pub fn snap(&self) -> Option<u16> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().max().copied()
    }

    /// A free slot of the workers; `None` if all are taken.
    pub fn take_slot(&self, snap: u16) -> Option<usize> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slots.iter().position(Option::is_none)?;
        slots[free] = Some(snap);
        Some(free)
    }

    /// The slot is free again.
    pub fn give_slot_back(&self, slot: usize) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)[slot] = None;
    }
}
