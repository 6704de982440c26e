//! Pseudorandom numbers for searches and injected faults.

/// Reproducible pseudorandom numbers (SplitMix64: Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Draws(pub u64);

impl Draws {
    /// Draws a number from zero to below one.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.fraction() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// Draws an index in proportion to the weights.
    pub fn by_weight(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let mut left = self.fraction() * weights.clone().sum::<f64>();
        let mut last = 0;
        for (index, weight) in weights.enumerate() {
            last = index;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}
