//! Interface between the data plane and a port.

use crate::drop_reason::DropReason;
use crate::frame::{Frame, FramePool};

pub use crate::counters::PortCounters;
pub use crate::port_id::PortId;

/// One queue pair (receive and transmit) of one port, owned by one worker.
///
/// No method blocks, and no call makes more than one system call per batch. Chunks travel in a
/// circle: pool → fill ring → [`PortQueue::receive`] → graph → [`PortQueue::transmit`] → completion
/// ([`PortQueue::recycle`]) → pool.
pub trait PortQueue: Send {
    /// Receives up to `frames.len()` frames into `frames` and returns their number. Their chunks
    /// then belong to the caller.
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize;

    /// Queues frames for transmission, in order, and returns how many of the first ones were
    /// accepted. The rest still belongs to the caller, who counts and frees it.
    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize;

    /// Returns the drop reason of the frames that [`Self::transmit`] does not accept.
    fn refuses(&self) -> DropReason {
        DropReason::TransmitRingFull
    }

    /// Sends the frames that [`Self::transmit`] queued (the kick of a ring).
    fn flush(&mut self, pool: &mut FramePool);

    /// Returns the chunks of sent frames to the pool, and refills the fill ring from it.
    fn recycle(&mut self, pool: &mut FramePool);

    /// Returns the number of frames that wait now, as far as the port knows: received frames (ring
    /// fill level), and frames that the last kick could not send. The worker may block only if it
    /// is zero.
    fn pending(&mut self) -> usize;

    /// Returns the number of frames that were accepted for transmission and would be lost if the
    /// port were closed now. A draining worker waits until it is zero.
    fn unsent(&mut self) -> usize {
        0
    }

    /// Returns the arrival time of the oldest waiting or next frame by the port's time stamps;
    /// `None` if no frame waits or the port has no time stamps. A frame with a later time can be
    /// received at once, so the caller itself must wait for that time.
    fn next_arrival(&mut self) -> Option<wattline_units::Time> {
        None
    }

    /// Returns true once no frame can ever arrive again (the end of a capture).
    fn exhausted(&self) -> bool {
        false
    }

    /// Returns the descriptor that becomes readable when frames arrive, for a blocking worker;
    /// `None` when the port can only be polled.
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Returns the counters of the port since it was opened.
    fn counters(&self) -> PortCounters;
}

/// Blocks a worker that has no work (poll(2) on all its ports and a wake-up).
pub trait Waiter: Send {
    /// Blocks until a port may have frames, the wake-up is triggered, or `timeout` has passed.
    fn wait(&mut self, timeout: std::time::Duration);

    /// Sleeps for a time, regardless of arriving frames.
    fn nap(&mut self, time: std::time::Duration) {
        std::thread::sleep(time);
    }
}
