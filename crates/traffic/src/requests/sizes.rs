//! Lengths drawn from any distribution in constant time.

use crate::random::Random;

const CELLS: usize = 1024;

/// Quantiles of a distribution; a draw is one table look-up.
#[derive(Debug, Clone)]
pub(super) struct Quantiles {
    cells: Vec<u32>,
}

impl Quantiles {
    /// Quantiles from the inverse of a distribution function.
    pub fn from_inverse(inverse: impl Fn(f64) -> f64) -> Self {
        let cell = |index: usize| inverse((index as f64 + 0.5) / CELLS as f64).round() as u32;
        let cells: Vec<u32> = (0..CELLS).map(cell).collect();
        // If there is only one length, nothing needs to be drawn.
        let one = cells.iter().all(|bytes| *bytes == cells[0]);
        Self { cells: if one { vec![cells[0]] } else { cells } }
    }

    pub fn mean(&self) -> f64 {
        self.cells.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / self.cells.len() as f64
    }

    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        match self.cells.as_slice() {
            [one] => *one,
            cells => cells[random.below(CELLS as u32) as usize],
        }
    }
}
