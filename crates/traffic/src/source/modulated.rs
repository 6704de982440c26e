//! A Poisson process whose rate changes in steps; several sources use it.

use super::{Content, Source};
use crate::capture::CaptureError;
use crate::packet::Block;
use crate::random::Random;

/// Sets the rate of a modulated process.
pub trait Modulator: Send {
    /// The next step: packets per second (may be 0), and its duration in seconds (positive).
    fn next_step(&mut self) -> (f64, f64);
}

/// Poisson arrivals at the rate of a [`Modulator`].
#[derive(Debug, Clone)]
pub struct Modulated<M> {
    content: Content,
    modulator: M,
    random: Random,
    mean_gap: f64,
    picos: f64,
    /// End of the present step.
    until: f64,
}

impl<M: Modulator> Modulated<M> {
    /// Starts with the modulator's first step at time zero.
    pub fn new(modulator: M, content: Content, seed: u64) -> Self {
        let random = Random::new(seed, 0x30d);
        Self { content, modulator, random, mean_gap: f64::INFINITY, picos: 0.0, until: 0.0 }
    }
}

impl<M: Modulator> Source for Modulated<M> {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        let Self { content, modulator, random, mean_gap, picos, until } = self;
        content.fill(out, |_| {
            // Exponential gaps have no memory, so a gap that exceeds its step is drawn again from
            // the end of the step, at the rate of the next one.
            loop {
                let next = *picos + random.exponential() * *mean_gap;
                if next < *until {
                    *picos = next;
                    return next;
                }
                *picos = *until;
                let (rate, seconds) = modulator.next_step();
                *mean_gap = 1e12 / rate;
                *until += seconds * 1e12;
            }
        });
        Ok(())
    }
}
