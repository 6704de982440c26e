//! The place of a port in a worker, whose AF_XDP queues can be replaced while it runs.

use super::bundle::Bundle;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortQueue};
use wattline_ports::afxdp::AfXdpQueue;

/// A queue that a slot can hold.
pub(super) trait Replaceable: PortQueue {
    /// Gives the chunks back that are lent to an interface which is gone.
    fn give_back(&mut self, pool: &mut FramePool);
}

impl Replaceable for AfXdpQueue {
    fn give_back(&mut self, pool: &mut FramePool) {
        Self::give_back(self, pool);
    }
}

/// The queues of an interface that one worker serves. Without any it takes nothing, and gives
/// nothing before there are some again.
pub(super) struct Slot<Q> {
    queues: Bundle<Q>,
    /// What queues counted that are no longer there.
    earlier: PortCounters,
    handover: Arc<Handover<Q>>,
}

/// Where the control thread leaves queues for a worker, and the worker those that it had.
pub(super) struct Handover<Q> {
    /// Whether something lies there: looked at in every round of the worker.
    waits: AtomicBool,
    table: Mutex<Table<Q>>,
}

struct Table<Q> {
    /// For the worker.
    new: Vec<Q>,
    /// From the worker, so that sockets are closed, which takes a while, where nobody waits.
    old: Vec<Q>,
}

impl<Q> Handover<Q> {
    fn table(&self) -> MutexGuard<'_, Table<Q>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves queues that are to take the place of those that the worker has. The worker should be
    /// woken.
    pub fn offer(&self, queues: Vec<Q>) {
        let mut table = self.table();
        let never_taken = std::mem::replace(&mut table.new, queues);
        table.old.extend(never_taken);
        self.waits.store(true, Ordering::Release);
    }

    /// Whether the worker has taken what was offered last. What it had is dropped.
    pub fn is_taken(&self) -> bool {
        let mut table = self.table();
        let old = std::mem::take(&mut table.old);
        drop(table);
        drop(old);
        !self.waits.load(Ordering::Acquire)
    }
}

impl<Q: Replaceable> Slot<Q> {
    pub fn new(queues: Vec<Q>) -> Self {
        let table = Table { new: Vec::new(), old: Vec::new() };
        let handover = Handover { waits: AtomicBool::new(false), table: Mutex::new(table) };
        let handover = Arc::new(handover);
        Self { queues: Bundle::new(queues), earlier: PortCounters::default(), handover }
    }

    pub fn handover(&self) -> Arc<Handover<Q>> {
        self.handover.clone()
    }

    #[cold]
    fn replace(&mut self, pool: &mut FramePool) {
        let handover = self.handover.clone();
        let mut table = handover.table();
        self.queues.iter_mut().for_each(|queue| queue.give_back(pool));
        let counted = PortCounters { waiting: 0, ..self.queues.counters() };
        self.earlier = self.earlier + counted;
        let new = std::mem::take(&mut table.new);
        table.old.extend(self.queues.replace(new));
        handover.waits.store(false, Ordering::Release);
    }
}

impl<Q: Replaceable> PortQueue for Slot<Q> {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        self.queues.receive(pool, frames)
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        self.queues.transmit(pool, frames)
    }

    fn refuses(&self) -> DropReason {
        self.queues.refuses()
    }

    fn flush(&mut self, pool: &mut FramePool) {
        self.queues.flush(pool);
    }

    fn recycle(&mut self, pool: &mut FramePool) {
        if self.handover.waits.load(Ordering::Acquire) {
            self.replace(pool);
        }
        self.queues.recycle(pool);
    }

    fn pending(&mut self) -> usize {
        self.queues.pending()
    }

    fn unsent(&mut self) -> usize {
        self.queues.unsent()
    }

    /// Never: an interface may come back.
    fn exhausted(&self) -> bool {
        false
    }

    fn counters(&self) -> PortCounters {
        self.earlier + self.queues.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::port::PortId;
    use wattline_ports::memory::{WireEnd, WireQueue, wire};

    impl Replaceable for WireQueue {
        fn give_back(&mut self, _: &mut FramePool) {}
    }

    fn queue() -> (WireEnd, WireQueue) {
        let (far, near) = wire(64, 2048);
        (far, near.into_queue(PortId(0)))
    }

    fn receive(slot: &mut Slot<WireQueue>, pool: &mut FramePool) -> usize {
        let mut frames = [Frame::default(); 4];
        let count = slot.receive(pool, &mut frames);
        frames[..count].iter().for_each(|frame| pool.free(frame.offset));
        slot.recycle(pool);
        count
    }

    #[test]
    fn queues_are_replaced_and_what_they_counted_stays() {
        let mut pool = FramePool::new(Box::new(vec![0; 64 * 2048]), 2048, 256);
        let ((mut far, near), (mut far_again, near_again)) = (queue(), queue());
        let mut slot = Slot::new(vec![near]);
        let handover = slot.handover();
        assert!(far.send(&[1; 60]));
        assert_eq!(receive(&mut slot, &mut pool), 1);

        handover.offer(Vec::new());
        assert!(!handover.is_taken());
        assert_eq!(receive(&mut slot, &mut pool), 0);
        assert!(handover.is_taken());
        assert_eq!(slot.transmit(&mut pool, &[Frame::default()]), 0);
        assert_eq!(slot.refuses(), DropReason::PortGone);
        assert!(!slot.exhausted(), "it may come back");

        handover.offer(vec![near_again]);
        assert_eq!(receive(&mut slot, &mut pool), 0);
        assert!(handover.is_taken());
        assert!(far_again.send(&[1; 60]));
        assert_eq!(receive(&mut slot, &mut pool), 1);
        assert_eq!(slot.counters().received_packets, 2);
    }

    #[test]
    fn what_a_worker_never_took_is_dropped() {
        let ((_far, near), (_, other)) = (queue(), queue());
        let slot = Slot::new(vec![near]);
        let handover = slot.handover();
        handover.offer(vec![other]);
        handover.offer(Vec::new());
        assert!(!handover.is_taken());
        assert!(handover.table().old.is_empty());
    }
}
