//! A port queue whose far side shares its pool: two rings of descriptors.

use rtrb::{Consumer, Producer, RingBuffer};
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};

/// The worker's side.
pub struct DescriptorQueue {
    port: PortId,
    incoming: Consumer<Frame>,
    outgoing: Producer<Frame>,
    counters: PortCounters,
}

/// The far side: gives frames to the worker and takes sent frames.
///
/// Its holder owns the chunks of taken frames.
pub struct DescriptorPeer {
    to_worker: Producer<Frame>,
    from_worker: Consumer<Frame>,
}

/// Creates a port queue over rings of `slots` descriptors in each direction, and its far side.
pub fn descriptor_ring(port: PortId, slots: usize) -> (DescriptorQueue, DescriptorPeer) {
    let (to_worker, incoming) = RingBuffer::new(slots);
    let (outgoing, from_worker) = RingBuffer::new(slots);
    let counters = PortCounters::default();
    (
        DescriptorQueue { port, incoming, outgoing, counters },
        DescriptorPeer { to_worker, from_worker },
    )
}

impl DescriptorPeer {
    /// Gives frames to the worker; returns how many of them, from the first on, were accepted.
    #[inline]
    pub fn push(&mut self, frames: &[Frame]) -> usize {
        let (taken, _) = self.to_worker.push_partial_slice(frames);
        taken.len()
    }

    /// Takes frames that the worker sent, at most `frames.len()`; returns their number.
    #[inline]
    pub fn pop(&mut self, frames: &mut [Frame]) -> usize {
        let (taken, _) = self.from_worker.pop_partial_slice(frames);
        taken.len()
    }
}

impl PortQueue for DescriptorQueue {
    #[inline]
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let (taken, _) = self.incoming.pop_partial_slice(frames);
        let memory = &*pool.memory();
        for frame in taken.iter_mut() {
            frame.port_in = self.port;
            memory.prefetch(frame.offset as usize);
            self.counters.received_bytes += u64::from(frame.length);
        }
        self.counters.received_packets += taken.len() as u64;
        taken.len()
    }

    #[inline]
    fn transmit(&mut self, _pool: &mut FramePool, frames: &[Frame]) -> usize {
        let (taken, _) = self.outgoing.push_partial_slice(frames);
        self.counters.transmitted_packets += taken.len() as u64;
        self.counters.transmitted_bytes +=
            taken.iter().map(|frame| u64::from(frame.length)).sum::<u64>();
        taken.len()
    }

    fn flush(&mut self, _pool: &mut FramePool) {}

    fn recycle(&mut self, _pool: &mut FramePool) {}

    fn pending(&mut self) -> usize {
        self.incoming.slots()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_in_and_come_out_in_order_and_are_counted() {
        let mut pool = FramePool::zeroed(16, 2048, 256);
        let (mut queue, mut peer) = descriptor_ring(PortId(3), 4);
        let given: Vec<Frame> = (0..5)
            .map(|index| Frame { offset: index * 2048, length: 60, port_in: PortId(0) })
            .collect();
        assert_eq!(peer.push(&given), 4, "the ring has four slots");
        assert_eq!(queue.pending(), 4);

        let mut frames = [Frame::default(); 8];
        assert_eq!(queue.receive(&mut pool, &mut frames), 4);
        assert!(frames[..4].iter().all(|frame| frame.port_in == PortId(3)));
        assert_eq!(frames[3].offset, 3 * 2048);
        assert_eq!(queue.receive(&mut pool, &mut frames[..0]), 0);

        assert_eq!(queue.transmit(&mut pool, &frames[..4]), 4);
        assert_eq!(queue.transmit(&mut pool, &frames[..1]), 0, "full until the peer takes");
        let mut sent = [Frame::default(); 8];
        assert_eq!(peer.pop(&mut sent), 4);
        assert_eq!(sent[..4], frames[..4]);

        let counters = queue.counters();
        assert_eq!((counters.received_packets, counters.received_bytes), (4, 240));
        assert_eq!((counters.transmitted_packets, counters.transmitted_bytes), (4, 240));
    }
}
