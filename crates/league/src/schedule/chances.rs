//! Random choice of the changes of a schedule to try next.

use super::moves::{MOVES, Move};

/// Reproducible pseudorandom numbers (SplitMix64: Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(super) struct Draws(pub u64);

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

/// Moves, with counts of their successes and trials.
#[derive(Debug, Clone)]
pub(super) struct Chances {
    moves: Vec<(Move, f64, f64)>,
}

impl Chances {
    pub fn new(donors: usize) -> Self {
        let moves = MOVES.into_iter().chain((0..donors).map(Move::Donor));
        Self { moves: moves.map(|of| (of, 1.0, 4.0)).collect() }
    }

    /// Draws a move; one that helped often is more likely.
    pub fn draw(&self, draws: &mut Draws) -> usize {
        draws.by_weight(self.moves.iter().map(|(_, helped, tried)| (helped / tried).max(0.01)))
    }

    pub fn at(&self, index: usize) -> Move {
        self.moves[index].0
    }

    pub fn helped(&mut self, index: usize) {
        self.moves[index].1 += 1.0;
    }

    pub fn tried(&mut self, index: usize) {
        let (_, helped, tried) = &mut self.moves[index];
        *tried += 1.0;
        // Old successes count less.
        if *tried > 200.0 {
            (*helped, *tried) = (*helped * 0.5, *tried * 0.5);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpful_changes_are_drawn_more_often_and_reproducibly() {
        let mut chances = Chances::new(2);
        assert_eq!(chances.at(MOVES.len() + 1), Move::Donor(1));
        for _ in 0..100 {
            chances.tried(3);
            chances.helped(3);
            chances.tried(5);
        }
        let drawn = |chances: &Chances| -> Vec<usize> {
            let mut draws = Draws(1);
            (0..1000).map(|_| chances.draw(&mut draws)).collect()
        };
        let often = |of| drawn(&chances).iter().filter(|index| **index == of).count();
        assert!(often(3) > 50 && often(3) > 8 * often(5), "{} {}", often(3), often(5));
        assert_eq!(drawn(&chances), drawn(&chances));
    }
}
