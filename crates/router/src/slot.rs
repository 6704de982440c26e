//! The place of a port in a worker, whose AF_XDP queues can be replaced while it runs.

use super::bundle::Bundle;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortQueue};
use wattline_ports::afxdp::{AfXdpQueue, LentChunks};

/// A queue that a slot can hold.
pub(super) trait Replaceable: PortQueue + Sized {
    /// The worker's memory that the other side still holds after the queue is closed.
    type Lent: Send;
    /// Closes the queue, in the control thread since that takes a while.
    fn close(self) -> Self::Lent;
    /// Returns the time from then until the memory may be used again.
    fn settled_after(lent: &Self::Lent) -> Duration;
    /// Gives the memory to the worker's pool.
    fn give_back(lent: Self::Lent, pool: &mut FramePool);
}

impl Replaceable for AfXdpQueue {
    type Lent = LentChunks;

    fn close(self) -> LentChunks {
        Self::close(self)
    }

    fn settled_after(lent: &LentChunks) -> Duration {
        lent.settled_after()
    }

    fn give_back(lent: LentChunks, pool: &mut FramePool) {
        lent.give_back(pool);
    }
}

/// The queues of an interface that one worker serves. While it has none, nothing is sent or
/// received.
pub(super) struct Slot<Q: Replaceable> {
    queues: Bundle<Q>,
    /// Counts of queues that are no longer there.
    earlier: PortCounters,
    handover: Arc<Handover<Q>>,
}

/// Exchange of queues: the control thread offers new queues, and the worker returns its old ones.
///
/// The control thread closes the old ones, and then returns their memory, to which the kernel may
/// have written until then, to the worker.
pub(super) struct Handover<Q: Replaceable> {
    /// True if an offer or memory is waiting. Read in every round of the worker.
    waits: AtomicBool,
    table: Mutex<Table<Q>>,
}

struct Table<Q: Replaceable> {
    /// For the worker.
    new: Option<Offer<Q>>,
    /// From the worker. The control thread reserves room before each offer, so that the worker
    /// allocates nothing.
    old: Vec<Vec<Q>>,
    /// Memory of closed queues, and the times from which it may be used.
    settling: Vec<(Instant, Q::Lent)>,
    /// For the worker: memory that may be used again.
    settled: Vec<Q::Lent>,
}

/// Queues that replace those of a worker.
struct Offer<Q> {
    queues: Vec<Q>,
    /// True if the worker first empties its present queues.
    drains: bool,
    /// True if the counters restart, because they belong to a removed port.
    forgets: bool,
}

impl<Q: Replaceable> Handover<Q> {
    fn table(&self) -> MutexGuard<'_, Table<Q>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers queues that replace those of the worker. The worker should be woken.
    pub fn offer(&self, queues: Vec<Q>) {
        self.leave(Offer { queues, drains: false, forgets: false });
    }

    /// Takes the worker's queues once they are empty.
    pub fn empty(&self) {
        self.leave(Offer { queues: Vec::new(), drains: true, forgets: false });
    }

    /// Takes the worker's queues and clears its counters, since the port is removed. With `drains`
    /// only once the queues are empty.
    pub fn take_away(&self, drains: bool) {
        self.leave(Offer { queues: Vec::new(), drains, forgets: true });
    }

    fn leave(&self, offer: Offer<Q>) {
        let mut table = self.table();
        table.old.reserve(2);
        if let Some(never_taken) = table.new.replace(offer) {
            table.old.push(never_taken.queues);
        }
        self.waits.store(true, Ordering::Release);
    }

    /// Returns true if the worker has taken the last offer. Closes the queues that it returned.
    pub fn is_taken(&self) -> bool {
        let now = Instant::now();
        let mut table = self.table();
        // Read once: queues that the worker returns while these are closed are closed by the next
        // call.
        let is_taken = table.new.is_none();
        let old = std::mem::take(&mut table.old);
        drop(table);
        let closed = old.into_iter().flatten().map(Q::close);
        let closed: Vec<_> = closed.map(|lent| (now + Q::settled_after(&lent), lent)).collect();
        let mut table = self.table();
        table.settling.extend(closed);
        let Table { settling, settled, .. } = &mut *table;
        settled.extend(settling.extract_if(.., |(at, _)| *at <= now).map(|(_, lent)| lent));
        if !settled.is_empty() {
            self.waits.store(true, Ordering::Release);
        }
        is_taken
    }
}

impl<Q: Replaceable> Slot<Q> {
    pub fn new(queues: Vec<Q>) -> Self {
        let (old, settling, settled) = (Vec::new(), Vec::new(), Vec::new());
        let table = Mutex::new(Table { new: None, old, settling, settled });
        let handover = Arc::new(Handover { waits: AtomicBool::new(false), table });
        Self { queues: Bundle::new(queues), earlier: PortCounters::default(), handover }
    }

    pub fn handover(&self) -> Arc<Handover<Q>> {
        self.handover.clone()
    }

    #[cold]
    fn replace(&mut self, pool: &mut FramePool) {
        let handover = self.handover.clone();
        let mut table = handover.table();
        for lent in table.settled.drain(..) {
            Q::give_back(lent, pool);
        }
        let is_busy = |queues: &mut Bundle<Q>| queues.pending() + queues.unsent() > 0;
        if table.new.as_ref().is_some_and(|offer| offer.drains) && is_busy(&mut self.queues) {
            return;
        }
        if let Some(Offer { queues, forgets, .. }) = table.new.take() {
            let counted = PortCounters { waiting: 0, ..self.queues.counters() };
            self.earlier = if forgets { PortCounters::default() } else { self.earlier + counted };
            table.old.push(self.queues.replace(queues));
        }
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

    /// Never: an interface may return.
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
    use std::cell::Cell;
    use wattline_dataplane::port::PortId;
    use wattline_ports::memory::{WireEnd, WireQueue, wire};

    thread_local! {
        /// Action during the closing of the next queue, which takes a while.
        static WHILE_CLOSING: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    impl Replaceable for WireQueue {
        type Lent = ();
        fn close(self) {
            if let Some(happens) = WHILE_CLOSING.take() {
                happens();
            }
        }
        fn settled_after((): &()) -> Duration {
            Duration::ZERO
        }
        fn give_back((): (), _: &mut FramePool) {}
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
    fn queues_are_replaced_and_their_counts_are_kept() {
        let mut pool = FramePool::zeroed(64, 2048, 256);
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

    /// A removed port loses no packet of its rings, and the next port in its place counts from 0.
    #[test]
    fn removed_port_is_emptied_first_and_then_forgotten() {
        let mut pool = FramePool::zeroed(64, 2048, 256);
        let (mut far, near) = queue();
        let mut slot = Slot::new(vec![near]);
        let handover = slot.handover();
        assert!(far.send(&[1; 60]));
        handover.take_away(true);
        slot.recycle(&mut pool);
        assert!(!handover.is_taken(), "a frame waits");
        assert_eq!(receive(&mut slot, &mut pool), 1);
        assert!(handover.is_taken());
        assert_eq!(slot.counters(), PortCounters::default());
        // After the longest wait the queue is taken with its packets.
        let (mut far, near) = queue();
        handover.offer(vec![near]);
        slot.recycle(&mut pool);
        assert!(far.send(&[1; 60]));
        handover.take_away(true);
        handover.take_away(false);
        slot.recycle(&mut pool);
        assert!(handover.is_taken());
    }

    #[test]
    fn unclaimed_offer_is_dropped() {
        let ((_far, near), (_, other)) = (queue(), queue());
        let slot = Slot::new(vec![near]);
        let handover = slot.handover();
        handover.offer(vec![other]);
        handover.offer(Vec::new());
        assert!(!handover.is_taken());
        assert!(handover.table().old.is_empty(), "it is closed here");
    }

    /// Otherwise its socket would stay open, and the interface's queue in use, until the next
    /// offer.
    #[test]
    fn queue_given_up_during_closing_is_closed_as_well() {
        let mut pool = FramePool::zeroed(64, 2048, 256);
        let ((_far, near), (_, other)) = (queue(), queue());
        let mut slot = Slot::new(vec![near]);
        let handover = slot.handover();
        handover.offer(vec![other]);
        handover.take_away(false);
        WHILE_CLOSING.set(Some(Box::new(move || slot.recycle(&mut pool))));
        assert!(!handover.is_taken(), "its queue is still open");
        assert!(handover.is_taken() && handover.table().old.is_empty());
    }
}
