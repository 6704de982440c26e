//! Where punted packets go.

use crate::frame::{Frame, FramePool};

/// Takes packets that the data plane leaves to the kernel.
pub trait PuntSink: Send {
    /// Takes frames, in order; returns how many, the first ones. Their chunks are then
    /// the sink's, which gives them back to the pool (at once, if it copied the bytes).
    fn punt(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize;
}

/// For ports without a kernel behind them: the packets are counted as punted, no more.
#[derive(Debug, Default)]
pub struct Discard;

impl PuntSink for Discard {
    fn punt(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        for frame in frames {
            pool.free(frame.offset);
        }
        frames.len()
    }
}
