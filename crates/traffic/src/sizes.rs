//! Packet lengths.

use crate::random::{Alias, Random};

/// Distribution of packet lengths in bytes, as they count for rates in bit/s.
#[derive(Debug, Clone)]
pub struct Sizes {
    pick: Pick,
    mean: f64,
}

#[derive(Debug, Clone)]
enum Pick {
    Fixed(u16),
    Weighted { sizes: Vec<u16>, alias: Alias },
}

impl Sizes {
    /// The "simple IMIX" of 7 packets of 40, 4 of 576 and 1 of 1500 bytes, as Ethernet
    /// frames with check sequence (the shortest one padded to 64).
    pub const IMIX: [(u16, f64); 3] = [(64, 7.0), (594, 4.0), (1518, 1.0)];

    /// All packets have the same length.
    pub fn fixed(bytes: u16) -> Self {
        Self { pick: Pick::Fixed(bytes), mean: bytes.into() }
    }

    /// Lengths with weights. `None` if the list is empty, a weight is negative or NaN, or all are
    /// zero.
    pub fn weighted(list: &[(u16, f64)]) -> Option<Self> {
        let weights: Vec<f64> = list.iter().map(|&(_, weight)| weight).collect();
        let total: f64 = weights.iter().sum();
        if weights.iter().any(|w| !w.is_finite() || *w < 0.0) || !total.is_normal() {
            return None;
        }
        let sizes = list.iter().map(|&(bytes, _)| bytes).collect();
        let mean = list.iter().map(|&(bytes, weight)| f64::from(bytes) * weight).sum::<f64>();
        Some(Self {
            pick: Pick::Weighted { sizes, alias: Alias::new(&weights) },
            mean: mean / total,
        })
    }

    /// Mean length in bytes.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The common length, if all packets have the same one.
    pub(crate) fn same(&self) -> Option<u16> {
        match self.pick {
            Pick::Fixed(bytes) => Some(bytes),
            Pick::Weighted { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn next(&self, random: &mut Random) -> u16 {
        match &self.pick {
            Pick::Fixed(bytes) => *bytes,
            Pick::Weighted { sizes, alias } => sizes[alias.draw(random)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_has_its_mean() {
        let sizes = Sizes::weighted(&Sizes::IMIX).unwrap();
        let expected = (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0;
        assert!((sizes.mean() - expected).abs() < 1e-9);
        let mut random = Random::new(1, 1);
        let seen = (0..400_000).map(|_| f64::from(sizes.next(&mut random))).sum::<f64>() / 4e5;
        assert!((seen / expected - 1.0).abs() < 0.01, "{seen} for {expected}");
    }

    #[test]
    fn weights_that_make_no_sense_are_refused() {
        assert!(Sizes::weighted(&[]).is_none());
        assert!(Sizes::weighted(&[(64, 0.0)]).is_none());
        assert!(Sizes::weighted(&[(64, 1.0), (128, -0.5)]).is_none());
        assert!(Sizes::weighted(&[(64, f64::NAN)]).is_none());
    }
}
