//! Poisson arrivals.

use super::{Content, Rate, Source};
use crate::capture::CaptureError;
use crate::packet::Block;
use crate::random::Random;

/// Independent arrivals at a constant mean rate, with exponential gaps. Links do not pace them,
/// since the result would not be a Poisson process.
#[derive(Debug, Clone)]
pub struct Poisson {
    content: Content,
    mean_gap: f64,
    picos: f64,
    random: Random,
}

impl Poisson {
    /// Makes the source; the rate must be positive.
    pub fn new(rate: Rate, content: Content, seed: u64) -> Self {
        let mean_gap = 1e12 / rate.packets_per_second(content.mean_bytes());
        Self { content, mean_gap, picos: 0.0, random: Random::new(seed, 0x0901) }
    }
}

impl Source for Poisson {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        let Self { content, mean_gap, picos, random } = self;
        content.fill(out, |_| {
            *picos += random.exponential() * *mean_gap;
            *picos
        });
        Ok(())
    }
}
