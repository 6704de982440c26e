//! Several queues of one port as a single queue.

use std::ops::Add;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortQueue};

/// The queues of a port that one worker serves, if the interface has more queues than workers.
/// Receives from each in turn, and sends by the first. Without any queue it stands for a port that
/// only another worker serves.
pub(super) struct Bundle<Q> {
    queues: Vec<Q>,
    /// Queue that is polled first next time, so that a busy queue does not starve the others.
    turn: usize,
}

impl<Q> Bundle<Q> {
    pub fn new(queues: Vec<Q>) -> Self {
        Self { queues, turn: 0 }
    }

    /// Replaces the queues, and returns the old ones.
    pub fn replace(&mut self, queues: Vec<Q>) -> Vec<Q> {
        self.turn = 0;
        std::mem::replace(&mut self.queues, queues)
    }
}

impl<Q: PortQueue> PortQueue for Bundle<Q> {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let count = self.queues.len();
        let mut received = 0;
        for offset in 0..count {
            let queue = &mut self.queues[(self.turn + offset) % count];
            received += queue.receive(pool, &mut frames[received..]);
        }
        self.turn = (self.turn + 1) % count.max(1);
        received
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        self.queues.first_mut().map_or(0, |queue| queue.transmit(pool, frames))
    }

    fn refuses(&self) -> DropReason {
        self.queues.first().map_or(DropReason::PortGone, PortQueue::refuses)
    }

    fn flush(&mut self, pool: &mut FramePool) {
        if let Some(queue) = self.queues.first_mut() {
            queue.flush(pool);
        }
    }

    fn recycle(&mut self, pool: &mut FramePool) {
        for queue in &mut self.queues {
            queue.recycle(pool);
        }
    }

    fn pending(&mut self) -> usize {
        self.queues.iter_mut().map(|queue| queue.pending()).sum()
    }

    fn unsent(&mut self) -> usize {
        self.queues.iter_mut().map(PortQueue::unsent).sum()
    }

    fn exhausted(&self) -> bool {
        self.queues.iter().all(|queue| queue.exhausted())
    }

    fn counters(&self) -> PortCounters {
        self.queues.iter().map(PortQueue::counters).fold(PortCounters::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::port::PortId;
    use wattline_ports::memory::wire;

    fn pool() -> FramePool {
        FramePool::zeroed(64, 2048, 256)
    }

    #[test]
    fn every_queue_is_served_even_when_one_is_never_empty() {
        let mut pool = pool();
        let (mut busy, near) = wire(64, 2048);
        let (mut quiet, other) = wire(64, 2048);
        let queues = [near, other].map(|end| end.into_queue(PortId(0)));
        let mut bundle = Bundle::new(queues.into());
        for _ in 0..8 {
            assert!(busy.send(&[1; 60]));
        }
        assert!(quiet.send(&[2; 60]));
        let mut seen = Vec::new();
        let mut frames = [Frame::default(); 2];
        while bundle.pending() > 0 {
            let count = bundle.receive(&mut pool, &mut frames);
            for frame in &frames[..count] {
                seen.push(pool.frame_bytes(frame)[0]);
                pool.free(frame.offset);
            }
        }
        assert_eq!(seen.len(), 9);
        assert!(seen[..4].contains(&2), "the quiet queue had to wait: {seen:?}");
        assert_eq!(bundle.counters().received_packets, 9);
    }

    #[test]
    fn nothing_is_received_or_sent_without_queues() {
        let mut pool = pool();
        let mut bundle = Bundle::<wattline_ports::memory::WireQueue>::new(Vec::new());
        assert!(bundle.exhausted());
        assert_eq!(bundle.receive(&mut pool, &mut [Frame::default(); 4]), 0);
        assert_eq!(bundle.transmit(&mut pool, &[Frame::default()]), 0);
    }
}
