//! Self-similar traffic: many on/off sources with heavy-tailed times.

use super::Modulator;
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sum of many independent sources, each on and off for Pareto-distributed times.
///
/// The sum tends to fractional Gaussian noise with Hurst parameter H = (3 - alpha) / 2 (Taqqu,
/// Willinger and Sherman 1997). A largest time bounds the self-similarity to shorter scales, but it
/// gives the process a mean that a run of a few such times reaches.
#[derive(Debug, Clone)]
pub struct SelfSimilar {
    /// Next switch of each source in picoseconds, soonest first.
    switches: BinaryHeap<Reverse<(u64, usize)>>,
    on: Vec<bool>,
    active: u32,
    /// Rate of a source that is on, in packets per second.
    peak: f64,
    alpha: f64,
    shortest: f64,
    longest: f64,
    now: u64,
    random: Random,
}

impl SelfSimilar {
    /// Makes the source from the mean rate in packets per second, the Hurst parameter between 0.5
    /// and 1, the number of sources, and the shortest and longest on or off time in seconds.
    pub fn new(
        rate: f64,
        hurst: f64,
        sources: u32,
        shortest: f64,
        longest: f64,
        seed: u64,
    ) -> Self {
        let mut source = Self {
            switches: BinaryHeap::with_capacity(sources as usize),
            on: vec![false; sources as usize],
            active: 0,
            // On and off times have the same distribution, so each source is on half of the time.
            peak: 2.0 * rate / f64::from(sources),
            alpha: 3.0 - 2.0 * hurst,
            shortest,
            longest,
            now: 0,
            random: Random::new(seed, 0x5e1f),
        };
        for index in 0..source.on.len() {
            source.on[index] = source.random.unit() < 0.5;
            source.active += u32::from(source.on[index]);
            let remaining = source.remaining();
            source.switches.push(Reverse((remaining, index)));
        }
        source
    }

    /// Draws an on or off time in seconds: Pareto, cut off at `longest`, by inversion.
    fn seconds(&mut self) -> f64 {
        let tail = (self.shortest / self.longest).powf(self.alpha);
        self.shortest * (1.0 - self.random.unit() * (1.0 - tail)).powf(-1.0 / self.alpha)
    }

    /// Draws the remaining time of a source's state at a random moment, in picoseconds. Long times
    /// are met in proportion to their length.
    fn remaining(&mut self) -> u64 {
        loop {
            let seconds = self.seconds();
            if self.random.unit() * self.longest < seconds {
                return (seconds * self.random.unit() * 1e12) as u64;
            }
        }
    }
}

impl Modulator for SelfSimilar {
    fn next_step(&mut self) -> (f64, f64) {
        let rate = f64::from(self.active) * self.peak;
        // There is at least one source, and each always has a next switch.
        let Some(Reverse((when, index))) = self.switches.pop() else { return (rate, 1.0) };
        let span = when.saturating_sub(self.now).max(1);
        self.now = when;
        self.on[index] = !self.on[index];
        self.active = if self.on[index] { self.active + 1 } else { self.active - 1 };
        let next = when.saturating_add((self.seconds() * 1e12) as u64);
        self.switches.push(Reverse((next, index)));
        (rate, span as f64 / 1e12)
    }
}
