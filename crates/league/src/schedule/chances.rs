//! Random choice of the changes of a schedule to try next.

use super::moves::{MOVES, Move};
use crate::draws::Draws;

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
