//! Markov-modulated Poisson arrivals with two states.

use super::Modulator;
use crate::random::Random;

/// Switches between a high and a low rate after exponentially distributed times
/// (a two-state Markov-modulated Poisson process).
#[derive(Debug, Clone)]
pub struct Mmpp {
    /// Rate and mean time of the low and of the high state.
    states: [(f64, f64); 2],
    high: bool,
    random: Random,
}

impl Mmpp {
    /// Makes the source from the mean rate in packets per second, the ratio of the high to the low
    /// rate, and the mean times in the high and in the low state in seconds. All must be positive.
    pub fn new(rate: f64, ratio: f64, high: f64, low: f64, seed: u64) -> Self {
        let low_rate = rate * (high + low) / (ratio * high + low);
        let mut random = Random::new(seed, 0x33b);
        // The process is in equilibrium from the start.
        let begins_high = random.unit() < high / (high + low);
        Self { states: [(low_rate, low), (ratio * low_rate, high)], high: !begins_high, random }
    }
}

impl Modulator for Mmpp {
    fn next_step(&mut self) -> (f64, f64) {
        self.high = !self.high;
        let (rate, mean) = self.states[usize::from(self.high)];
        (rate, mean * self.random.exponential())
    }
}
