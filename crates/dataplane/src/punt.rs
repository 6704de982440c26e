//! Where punted packets go.

use crate::drop_reason::DropReason;
use crate::frame::{Frame, FramePool};

/// Takes packets that the data plane leaves to the kernel.
pub trait PuntSink: Send {
    /// Takes a frame. Its chunk is then the sink's, which gives it back to the pool (at once, if
    /// it copied the bytes).
    ///
    /// # Errors
    /// Why it is not taken; its chunk stays the caller's.
    fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason>;
}

/// For ports without a kernel behind them: the packets are counted as punted, no more.
#[derive(Debug, Default)]
pub struct Discard;

impl PuntSink for Discard {
    fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason> {
        pool.free(frame.offset);
        Ok(())
    }
}
