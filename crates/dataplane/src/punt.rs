//! Destination of punted packets.

use crate::drop_reason::DropReason;
use crate::frame::{Frame, FramePool};

/// Receives the packets that the data plane leaves to the kernel.
pub trait PuntSink: Send {
    /// Accepts a frame. Its chunk then belongs to the sink, which returns it to the pool (at once
    /// if it has copied the bytes).
    ///
    /// # Errors
    /// Returns the reason if the frame is not accepted; its chunk still belongs to the caller.
    fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason>;
}

/// Sink for captures, which have no kernel: counts packets as punted and discards them.
#[derive(Debug, Default)]
pub struct Discard;

impl PuntSink for Discard {
    fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason> {
        pool.free(frame.offset);
        Ok(())
    }
}

/// Sink of a router without a device through which packets reach the kernel: accepts none.
#[derive(Debug, Default)]
pub struct Unavailable;

impl PuntSink for Unavailable {
    fn punt(&mut self, _: &mut FramePool, _: &Frame) -> Result<(), DropReason> {
        Err(DropReason::PuntUnavailable)
    }
}
