//! A port queue at the end of a cable: frames are copied between pool and cable.

use rtrb::{Consumer, Producer, RingBuffer};
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};

/// A frame under way. Buffers circulate, full ones forward and empty ones back, so that nothing is
/// allocated after the creation of the cable.
type Buffer = Vec<u8>;

/// Sending end of a cable.
struct Inlet {
    full: Producer<Buffer>,
    empty: Consumer<Buffer>,
}

/// Receiving end of a cable.
struct Outlet {
    full: Consumer<Buffer>,
    empty: Producer<Buffer>,
}

/// Creates one direction of a cable of `slots` frames of at most `longest` bytes.
fn one_way(slots: usize, longest: usize) -> (Inlet, Outlet) {
    let (full_in, full_out) = RingBuffer::new(slots);
    let (mut empty_in, empty_out) = RingBuffer::new(slots);
    for _ in 0..slots {
        // All fit: the ring has as many slots.
        let _ = empty_in.push(Vec::with_capacity(longest));
    }
    (Inlet { full: full_in, empty: empty_out }, Outlet { full: full_out, empty: empty_in })
}

impl Inlet {
    /// Copies a frame into the cable; returns false if it is full.
    fn put(&mut self, frame: &[u8]) -> bool {
        let Ok(mut buffer) = self.empty.pop() else { return false };
        buffer.clear();
        buffer.extend_from_slice(frame);
        // There is room: no more buffers exist than slots.
        self.full.push(buffer).is_ok()
    }
}

impl Outlet {
    /// Passes the next frame to `use_frame`; `None` if there is none.
    fn take<R>(&mut self, use_frame: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let buffer = self.full.pop().ok()?;
        let result = use_frame(&buffer);
        // There is room: no more buffers exist than slots.
        let _ = self.empty.push(buffer);
        Some(result)
    }
}

/// The end of a cable for a test or generator: plain bytes.
pub struct WireEnd {
    inlet: Inlet,
    outlet: Outlet,
}

impl WireEnd {
    /// Sends a frame; returns false if the cable is full.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        self.inlet.put(frame)
    }

    /// Takes the next frame that arrived.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        self.outlet.take(<[u8]>::to_vec)
    }

    /// Passes the next frame that arrived to `use_frame`, without a copy.
    pub fn receive_with<R>(&mut self, use_frame: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.outlet.take(use_frame)
    }

    /// Turns this end into a port queue.
    pub fn into_queue(self, port: PortId) -> WireQueue {
        WireQueue { port, end: self, counters: PortCounters::default() }
    }
}

/// Creates both ends of a cable that holds `slots` frames in each direction, of up to `longest`
/// bytes without further allocation.
pub fn wire(slots: usize, longest: usize) -> (WireEnd, WireEnd) {
    let (inlet_a, outlet_b) = one_way(slots, longest);
    let (inlet_b, outlet_a) = one_way(slots, longest);
    (WireEnd { inlet: inlet_a, outlet: outlet_a }, WireEnd { inlet: inlet_b, outlet: outlet_b })
}

/// A port queue at the end of a cable.
pub struct WireQueue {
    port: PortId,
    end: WireEnd,
    counters: PortCounters,
}

impl PortQueue for WireQueue {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let room = (pool.chunk_size() - pool.headroom()) as usize;
        let room = room.min(usize::from(u16::MAX));
        let mut count = 0;
        while count < frames.len() {
            let Ok(waiting) = self.end.outlet.full.peek() else { break };
            if waiting.is_empty() || waiting.len() > room {
                self.counters.receive_invalid += 1;
                self.end.outlet.take(|_| ());
                continue;
            }
            // Without a chunk the frame stays in the cable; it is not lost.
            let Some(chunk) = pool.take_chunk() else { break };
            let offset = chunk + pool.headroom();
            let mut frame = Frame { offset, length: 0, port_in: self.port };
            self.end.outlet.take(|bytes| {
                // It fits: `room` was checked.
                frame.length = bytes.len() as u16;
                pool.frame_bytes(&frame).copy_from_slice(bytes);
            });
            frames[count] = frame;
            pool.memory().prefetch(offset as usize);
            self.counters.received_bytes += u64::from(frame.length);
            count += 1;
        }
        self.counters.received_packets += count as u64;
        count
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        let mut count = 0;
        for frame in frames {
            if !self.end.inlet.put(pool.frame_bytes(frame)) {
                break;
            }
            pool.free(frame.offset);
            self.counters.transmitted_bytes += u64::from(frame.length);
            count += 1;
        }
        self.counters.transmitted_packets += count as u64;
        count
    }

    fn flush(&mut self, _pool: &mut FramePool) {}

    fn recycle(&mut self, _pool: &mut FramePool) {}

    fn pending(&mut self) -> usize {
        self.end.outlet.full.slots()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(chunks: u32) -> FramePool {
        FramePool::zeroed(chunks, 512, 64)
    }

    #[test]
    fn frames_are_copied_through_both_ways() {
        let (mut near, far) = wire(4, 1500);
        let mut queue = far.into_queue(PortId(1));
        let mut pool = pool(8);
        assert!(near.send(&[1, 2, 3]) && near.send(&[4]));
        assert_eq!(queue.pending(), 2);

        let mut frames = [Frame::default(); 4];
        assert_eq!(queue.receive(&mut pool, &mut frames), 2);
        assert_eq!(pool.frame_bytes(&frames[0]), [1, 2, 3]);
        assert_eq!(pool.free_chunks(), 6);
        pool.frame_bytes(&frames[0])[0] = 9;

        assert_eq!(queue.transmit(&mut pool, &frames[..2]), 2);
        assert_eq!(pool.free_chunks(), 8);
        assert_eq!(near.receive(), Some(vec![9, 2, 3]));
        assert_eq!(near.receive_with(<[u8]>::len), Some(1));
        assert_eq!(near.receive(), None);
        assert_eq!(queue.counters().transmitted_bytes, 4);
    }

    #[test]
    fn full_cable_takes_no_more_until_it_is_emptied() {
        let (mut near, mut far) = wire(2, 64);
        for round in 0..10 {
            assert!(near.send(&[round]) && near.send(&[round]));
            assert!(!near.send(&[round]));
            assert_eq!((far.receive(), far.receive()), (Some(vec![round]), Some(vec![round])));
        }
    }

    #[test]
    fn frames_too_long_for_a_chunk_and_empty_ones_are_counted_not_taken() {
        let (mut near, far) = wire(4, 64);
        let mut queue = far.into_queue(PortId(0));
        let mut pool = pool(2);
        assert!(near.send(&[0; 449]) && near.send(&[]) && near.send(&[0; 448]));
        let mut frames = [Frame::default(); 4];
        assert_eq!(queue.receive(&mut pool, &mut frames), 1);
        assert_eq!(frames[0].length, 448);
        assert_eq!(queue.counters().receive_invalid, 2);
    }

    #[test]
    fn without_a_free_chunk_frames_wait() {
        let (mut near, far) = wire(4, 64);
        let mut queue = far.into_queue(PortId(0));
        let mut pool = pool(1);
        assert!(near.send(&[1]) && near.send(&[2]));
        let mut frames = [Frame::default(); 4];
        assert_eq!(queue.receive(&mut pool, &mut frames), 1);
        assert_eq!(queue.receive(&mut pool, &mut frames[1..]), 0);
        pool.free(frames[0].offset);
        assert_eq!(queue.receive(&mut pool, &mut frames), 1);
        assert_eq!(pool.frame_bytes(&frames[0]), [2]);
    }
}
