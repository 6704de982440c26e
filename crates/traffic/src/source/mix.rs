//! Several sources combined into one.

use super::Source;
use crate::capture::CaptureError;
use crate::packet::Block;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wattline_units::Time;

/// Merges the packets of several sources in order of time; at equal times, the source listed first
/// comes first. It ends when all sources have ended.
pub struct Mix {
    inputs: Vec<Input>,
    /// Time of the next packet of every source that has one, with the number of the source.
    heads: BinaryHeap<Reverse<(Time, usize)>>,
    started: bool,
}

struct Input {
    source: Box<dyn Source>,
    block: Block,
    next: usize,
}

impl Input {
    /// The time of the next packet, if there is one.
    fn head(&mut self) -> Result<Option<Time>, CaptureError> {
        if self.next == self.block.len() {
            self.source.next_block(&mut self.block)?;
            self.next = 0;
        }
        Ok(self.block.get(self.next).map(|packet| packet.time()))
    }
}

impl Mix {
    /// Merges the sources.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Self {
        let heads = BinaryHeap::with_capacity(sources.len());
        let inputs = sources
            .into_iter()
            .map(|source| Input { source, block: Block::new(), next: 0 })
            .collect();
        Self { inputs, heads, started: false }
    }

    fn queue(&mut self, index: usize) -> Result<(), CaptureError> {
        if let Some(time) = self.inputs[index].head()? {
            self.heads.push(Reverse((time, index)));
        }
        Ok(())
    }
}

impl Source for Mix {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        if !self.started {
            self.started = true;
            for index in 0..self.inputs.len() {
                self.queue(index)?;
            }
        }
        while !out.is_full() {
            let Some(Reverse((_, index))) = self.heads.pop() else { break };
            let input = &mut self.inputs[index];
            out.push(input.block[input.next]);
            input.next += 1;
            self.queue(index)?;
        }
        Ok(())
    }
}
