//! The packets of a case, made once and played many times.

use crate::case::Case;
use crate::error::LeagueError;
use wattline_traffic::capture::CaptureError;
use wattline_traffic::{Block, Packet, Source};

/// All packets up to the end of the case, in the blocks in which the source made them: a replay
/// gives the same blocks as the source.
#[derive(Debug)]
pub(crate) struct Packets {
    packets: Vec<Packet>,
    /// End of each block.
    ends: Vec<usize>,
}

impl Packets {
    /// Generates the packets of a case.
    ///
    /// # Errors
    /// When they cannot be generated or read.
    pub fn of(case: &Case<'_>) -> Result<Self, LeagueError> {
        let mut source = case.traffic.build(case.seed)?;
        let until = (case.warmup + case.duration).as_picos();
        let mut made = Self { packets: Vec::new(), ends: Vec::new() };
        let mut block = Block::new();
        loop {
            source.next_block(&mut block)?;
            made.packets.extend(block.iter().copied());
            made.ends.push(made.packets.len());
            if block.last().is_none_or(|last| last.picos >= until) {
                return Ok(made);
            }
        }
    }

    /// Returns a source that replays them.
    pub fn replay(&self) -> Replay<'_> {
        Replay { all: self, block: 0 }
    }
}

/// A source that replays recorded packets.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    all: &'a Packets,
    block: usize,
}

impl Source for Replay<'_> {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        if let Some(&end) = self.all.ends.get(self.block) {
            let from = if self.block == 0 { 0 } else { self.all.ends[self.block - 1] };
            out.extend(self.all.packets[from..end].iter().copied());
            self.block += 1;
        }
        Ok(())
    }
}
