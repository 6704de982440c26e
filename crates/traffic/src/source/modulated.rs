//! A Poisson process whose rate changes in steps: the engine of several sources.

use super::{Content, Source};
use crate::capture::CaptureError;
use crate::packet::Block;
use crate::random::Random;

/// What sets the rate.
pub trait Modulator: Send {
    /// The next step: packets per second (may be 0), and for how many seconds (positive).
    fn next_step(&mut self) -> (f64, f64);
}

/// Poisson arrivals at the rate that a [`Modulator`] sets, step by step.
#[derive(Debug, Clone)]
pub struct Modulated<M> {
    content: Content,
    modulator: M,
    random: Random,
    mean_gap: f64,
    picos: f64,
    /// Where the present step ends.
    until: f64,
}

impl<M: Modulator> Modulated<M> {
    /// Begins with the modulator's first step at time zero.
    pub fn new(modulator: M, content: Content, seed: u64) -> Self {
        let random = Random::new(seed, 0x30d);
        Self { content, modulator, random, mean_gap: f64::INFINITY, picos: 0.0, until: 0.0 }
    }
}

impl<M: Modulator> Source for Modulated<M> {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        let Self { content, modulator, random, mean_gap, picos, until } = self;
        content.fill(out, |_| {
            // Exponential gaps have no memory: one that reaches past the end of its step
            // is drawn anew from there, at the rate of the next.
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
