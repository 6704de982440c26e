//! Random numbers for the sources.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp1};

/// A fast generator with a fixed algorithm. A seed always gives the same packets, which `SmallRng`
/// does not promise.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Generator number `stream` of a run with this seed; streams are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        // `seed_from_u64` mixes its argument well; this only makes the pairs distinct.
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Uniform in `0..bound`; the bias of at most `bound` / 2^32 is negligible here.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(bound)) >> 32) as u32
    }
    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.0)
    }
}

/// Draws an index by weight in constant time (Vose's alias method).
///
/// With integer thresholds and a single random number it is several times as fast as the general
/// method of `rand_distr`. It is used once or twice per packet.
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    /// Threshold below which the column's own index is taken; otherwise the alias is.
    threshold: u32,
    alias: u32,
}

impl Alias {
    /// Makes the table; `weights` must be finite, not negative, and not all zero.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let count = weights.len();
        let total: f64 = weights.iter().sum();
        let mut scaled: Vec<f64> = weights.iter().map(|w| w * count as f64 / total).collect();
        let (mut small, mut large): (Vec<_>, Vec<_>) = (0..count).partition(|&i| scaled[i] < 1.0);
        let mut columns: Vec<Column> =
            (0..count).map(|i| Column { threshold: u32::MAX, alias: i as u32 }).collect();
        while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
            small.pop();
            columns[s] = Column { threshold: (scaled[s] * 2f64.powi(32)) as u32, alias: l as u32 };
            scaled[l] -= 1.0 - scaled[s];
            if scaled[l] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        Self { columns }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let bits = random.bits();
        let index = (((bits >> 32) * self.columns.len() as u64) >> 32) as usize;
        let column = self.columns[index];
        if (bits as u32) < column.threshold { index } else { column.alias as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alias_method_keeps_the_weights() {
        let weights = [0.5, 0.0, 3.0, 1.5];
        let alias = Alias::new(&weights);
        let mut random = Random::new(1, 0);
        let mut counts = [0u32; 4];
        for _ in 0..1_000_000 {
            counts[alias.draw(&mut random)] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) / 1e6 - weight / 5.0).abs() < 0.002, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::new(1, 0).bits(), Random::new(1, 1).bits());
        assert_eq!(Random::new(1, 1).bits(), Random::new(1, 1).bits());
    }
}
