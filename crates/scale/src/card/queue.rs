//! One queue of a card, from which a worker receives and to which it sends.

use super::{Arriving, Card, Wires};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};
use wattline_units::Time;

/// The queue of a [`Card`] for one port and one core.
pub struct CardQueue {
    card: Arc<Card>,
    port: PortId,
    core: usize,
    counters: PortCounters,
}

impl CardQueue {
    pub(super) fn new(card: Arc<Card>, port: PortId, core: usize) -> Self {
        Self { card, port, core, counters: PortCounters::default() }
    }

    fn with<R>(
        &self,
        look: impl FnOnce(&mut VecDeque<Arriving>, &mut Vec<Vec<u8>>) -> R,
    ) -> Option<R> {
        let mut wires = self.card.wires();
        let Wires { queues, spare, .. } = &mut *wires;
        let queue = queues.get_mut(usize::from(self.port.0))?.get_mut(self.core)?;
        Some(look(queue, spare))
    }
}

impl PortQueue for CardQueue {
    /// Takes frames that have arrived or are on the wire: see [`PortQueue::next_arrival`].
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let room = (pool.chunk_size() - pool.headroom()) as usize;
        let (port, mut invalid, mut bytes_received) = (self.port, 0, 0);
        let (order, core) = (&self.card.order, self.core);
        let count = self.with(|queue, spare| {
            let mut count = 0;
            while count < frames.len() && !queue.is_empty() {
                // Without a free chunk the frame stays queued; it is not lost.
                let Some(chunk) = pool.take_chunk() else { break };
                let Some(frame) = queue.pop_front() else { break };
                let length = frame.bytes.len();
                if length == 0 || length > room.min(usize::from(u16::MAX)) {
                    invalid += 1;
                    // The frame goes no further.
                    if let Some(handover) = order.counted() {
                        let place = handover.take_hash(usize::from(port.0), frame.hash, core);
                        place.and_then(|place| handover.left(place));
                    }
                    pool.free(chunk);
                } else {
                    let offset = chunk + pool.headroom();
                    frames[count] = Frame { offset, length: length as u16, port_in: port };
                    pool.frame_bytes(&frames[count]).copy_from_slice(&frame.bytes);
                    bytes_received += length as u64;
                    count += 1;
                }
                spare.push(frame.bytes);
            }
            count
        });
        let count = count.unwrap_or(0);
        self.counters.receive_invalid += invalid;
        self.counters.received_bytes += bytes_received;
        self.counters.received_packets += count as u64;
        count
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        let mut far_end = self.card.far_end.lock().unwrap_or_else(PoisonError::into_inner);
        for frame in frames {
            far_end.receive(self.port, pool.frame_bytes(frame));
            pool.free(frame.offset);
            self.counters.transmitted_bytes += u64::from(frame.length);
        }
        self.counters.transmitted_packets += frames.len() as u64;
        frames.len()
    }

    fn flush(&mut self, _pool: &mut FramePool) {}

    fn recycle(&mut self, _pool: &mut FramePool) {}

    fn pending(&mut self) -> usize {
        self.with(|queue, _| queue.len()).unwrap_or(0)
    }

    fn next_arrival(&mut self) -> Option<Time> {
        self.with(|queue, _| queue.front().map(|frame| frame.at)).flatten()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
