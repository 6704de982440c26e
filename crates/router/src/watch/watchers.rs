//! Common part of a router's captures and traces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wattline_dataplane::tap::slots::{SLOTS, TapSlots};
use wattline_ports::waiter::Waker;

/// Obstacle to forwarding in XDP programs while a watcher needs all packets.
pub(crate) const OBSTACLE: &str = "a capture or trace looks at all packets";

/// Kind of watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Capture,
    Trace,
}

/// A worker, as far as taps go.
pub(crate) struct WorkerTaps {
    pub slots: TapSlots,
    pub waker: Waker,
    /// Chunks of its memory.
    pub chunks: u32,
}

/// Present captures and traces.
#[derive(Default, Clone)]
pub(crate) struct Watchers {
    slots: Arc<Mutex<[bool; SLOTS]>>,
    /// Those that see what XDP programs would forward.
    diverting: Arc<AtomicUsize>,
}

impl Watchers {
    /// Whether XDP programs have to leave everything to workers.
    pub fn divert(&self) -> bool {
        self.diverting.load(Ordering::Relaxed) > 0
    }

    /// From now on one more sees, or ceases to see, what XDP programs would forward.
    pub fn count_diverting(&self, one_more: bool) {
        match one_more {
            true => self.diverting.fetch_add(1, Ordering::Relaxed),
            false => self.diverting.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// A free slot of the workers; `None` if all are taken.
    pub fn take_slot(&self) -> Option<usize> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slots.iter().position(|taken| !taken)?;
        slots[free] = true;
        Some(free)
    }

    /// The slot is free again.
    pub fn give_slot_back(&self, slot: usize) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)[slot] = false;
    }
}
