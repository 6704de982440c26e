//! What the data plane asks of a port.

use crate::drop_reason::DropReason;
use crate::frame::{Frame, FramePool};

pub use crate::port_id::PortId;

/// One queue pair (receive and transmit) of one port, owned by one worker.
///
/// Nothing here blocks, and no call makes more than one system call per batch.
/// Chunks travel: pool → fill ring → [`PortQueue::receive`] → graph →
/// [`PortQueue::transmit`] → completion ([`PortQueue::recycle`]) → pool.
pub trait PortQueue: Send {
    /// Takes received frames, at most `frames.len()`, into `frames`; returns how many.
    /// Their chunks then belong to the caller.
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize;

    /// Queues frames for transmission, in order; returns how many were taken, the first
    /// ones. The rest still belongs to the caller (who counts and frees them).
    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize;

    /// Why [`Self::transmit`] takes fewer frames than it is given.
    fn refuses(&self) -> DropReason {
        DropReason::TransmitRingFull
    }

    /// Sends off what [`Self::transmit`] queued (the kick of a ring).
    fn flush(&mut self, pool: &mut FramePool);

    /// Gives chunks of sent frames back to the pool and tops up the fill ring from it.
    fn recycle(&mut self, pool: &mut FramePool);

    /// Frames that wait now, as far as the port can tell: received ones (ring fill level), and
    /// those that the last kick could not send and the next may. None: the worker may block.
    fn pending(&mut self) -> usize;

    /// When the oldest frame that waits arrived, or will, by the port's own time stamps; `None`
    /// when nothing waits or the port does not stamp. One that is still to come may be received
    /// all the same: whoever asks this keeps to it.
    fn next_arrival(&mut self) -> Option<wattline_units::Time> {
        None
    }

    /// True once no frame will ever come again (a capture that has been read).
    fn exhausted(&self) -> bool {
        false
    }

    /// The descriptor that becomes readable when frames arrive, for a blocking worker;
    /// `None` when the port can only be polled.
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// What the port itself counted since it was opened.
    fn counters(&self) -> PortCounters;
}

/// What a port queue counts by itself; all since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames handed to the worker.
    pub received_packets: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames taken for transmission.
    pub transmitted_packets: u64,
    /// Bytes of those.
    pub transmitted_bytes: u64,
    /// Frames lost before the worker saw them: receive ring full.
    pub receive_ring_full: u64,
    /// Frames lost before the worker saw them: no free chunk in the fill ring.
    pub fill_ring_empty: u64,
    /// Frames that the port refused because they were malformed or too long for a chunk.
    pub receive_invalid: u64,
    /// Frames that the receive ring held when it was last asked, those taken then included: no
    /// count but a level.
    pub waiting: u64,
}

/// What blocks a worker when there is no work (poll(2) over all its ports and a wake-up).
pub trait Waiter: Send {
    /// Blocks until a port may have frames, the wake-up was rung or `timeout` is over.
    fn wait(&mut self, timeout: std::time::Duration);
}
