//! Grace periods: they determine when memory that readers may have used can be reused.
//!
//! This is quiescent-state-based reclamation. Each reader owns a slot. Between batches it stores
//! there the newest epoch that it has seen ([`ReaderSlot::quiescent`]): one relaxed load, and one
//! store in its own cache line. The writer starts an epoch when it retires something, and may reuse
//! it once every slot has reached that epoch. A reader that blocks announces this first
//! ([`ReaderSlot::offline`]), and the writer does not wait for it.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};

const OFFLINE: u64 = u64::MAX;

#[repr(align(128))]
#[derive(Debug)]
struct Slot(AtomicU64);

#[derive(Debug, Default)]
struct Shared {
    epoch: AtomicU64,
    slots: Mutex<Vec<Weak<Slot>>>,
}

/// The writers' side: all readers that may hold references into shared tables.
#[derive(Debug, Clone, Default)]
pub struct Grace(Arc<Shared>);

/// The readers' side: one slot per worker, whatever the number of tables that it reads.
#[derive(Debug)]
pub struct ReaderSlot {
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

/// An epoch that a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

impl Grace {
    /// Makes a domain without readers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a reader, which is online at once. Dropping the slot unregisters it.
    pub fn register(&self) -> ReaderSlot {
        let slot = Arc::new(Slot(AtomicU64::new(self.0.epoch.load(Ordering::SeqCst))));
        self.0.slots.lock().expect("no panic while held").push(Arc::downgrade(&slot));
        let reader = ReaderSlot { slot, shared: self.0.clone() };
        reader.online();
        reader
    }

    /// Starts an epoch after something was unlinked. When [`Grace::passed`] is true for the result,
    /// no reader can use the unlinked memory any more.
    pub fn retire(&self) -> Epoch {
        fence(Ordering::SeqCst);
        Epoch(self.0.epoch.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Returns true once every online reader has been quiescent since `epoch` began.
    pub fn passed(&self, epoch: Epoch) -> bool {
        let mut slots = self.0.slots.lock().expect("no panic while held");
        slots.retain(|slot| slot.strong_count() > 0);
        slots
            .iter()
            .all(|slot| slot.upgrade().is_none_or(|slot| slot.0.load(Ordering::SeqCst) >= epoch.0))
    }
}

impl ReaderSlot {
    /// Reports that this reader holds no reference; call this between batches.
    #[inline]
    pub fn quiescent(&self) {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        // Release order: the reads of the last batch are complete.
        if self.slot.0.load(Ordering::Relaxed) != epoch {
            self.slot.0.store(epoch, Ordering::Release);
        }
    }

    /// Reports that this reader holds no reference and will read nothing until [`Self::online`].
    pub fn offline(&self) {
        self.slot.0.store(OFFLINE, Ordering::Release);
    }

    /// Ends [`Self::offline`].
    pub fn online(&self) {
        self.slot.0.store(self.shared.epoch.load(Ordering::SeqCst), Ordering::SeqCst);
        // Later reads must not move before the slot is visible as online.
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_online_readers_only() {
        let grace = Grace::new();
        let (a, b) = (grace.register(), grace.register());
        let epoch = grace.retire();
        assert!(!grace.passed(epoch));
        a.quiescent();
        assert!(!grace.passed(epoch));
        b.offline();
        assert!(grace.passed(epoch));
        b.online();
        let next = grace.retire();
        a.quiescent();
        assert!(!grace.passed(next));
        drop(b);
        assert!(grace.passed(next));
    }
}
