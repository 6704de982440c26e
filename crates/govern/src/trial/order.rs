//! The order of the blocks.

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// The order of the two blocks of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A, then B.
    AFirst,
    /// B, then A.
    BFirst,
}

impl Order {
    /// Returns 1 if B is the second block, -1 if it is the first.
    pub(crate) fn sign(self) -> f64 {
        match self {
            Self::AFirst => 1.0,
            Self::BFirst => -1.0,
        }
    }
}

/// Returns the orders of `pairs` pairs in random sequence: equally many of each kind, and one more
/// of a random kind if the number is odd. The same seed gives the same orders.
pub fn orders(pairs: usize, seed: u64) -> Vec<Order> {
    draw(pairs, &mut Xoshiro256PlusPlus::seed_from_u64(seed))
}

pub(crate) fn draw(pairs: usize, random: &mut Xoshiro256PlusPlus) -> Vec<Order> {
    let odd = random.random_range(0..2);
    let kind =
        |place: usize| if (place + odd).is_multiple_of(2) { Order::AFirst } else { Order::BFirst };
    let mut orders: Vec<Order> = (0..pairs).map(kind).collect();
    orders.shuffle(random);
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_balanced_random_and_repeatable() {
        for pairs in [2, 12, 13] {
            let all: Vec<Vec<Order>> = (0..200).map(|seed| orders(pairs, seed)).collect();
            for (seed, one) in (0..).zip(&all) {
                let first = one.iter().filter(|order| **order == Order::AFirst).count();
                assert!(first.abs_diff(pairs - first) <= pairs % 2);
                assert_eq!(*one, orders(pairs, seed));
            }
            for place in 0..pairs {
                let first = all.iter().filter(|one| one[place] == Order::AFirst).count();
                assert!((60..=140).contains(&first), "pair {place}: {first} of 200");
            }
        }
    }
}
