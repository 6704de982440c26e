//! Packet sampling: one in N packets (RFC 5475 section 5).

use std::hash::{BuildHasher, RandomState};

/// Choice of the sampled packet within a group of N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// The last of each group (systematic count-based sampling, RFC 5475 section 5.1).
    Deterministic,
    /// A random one of each group (n-out-of-N sampling, section 5.2.1, with n = 1).
    Random,
}

/// Chooses the packets to sample.
pub(super) struct Sampler {
    interval: u32,
    sampling: Sampling,
    /// Number of packets up to and including the chosen one of this group; 0 after it.
    until: u32,
    /// Remaining packets of this group.
    left: u32,
    state: u64,
}

impl Sampler {
    /// Makes a sampler of one packet in `interval`; 0 and 1 take every packet.
    pub fn new(interval: u32, sampling: Sampling) -> Self {
        let state = RandomState::new().hash_one(0) | 1;
        let mut sampler = Self { interval: interval.max(1), sampling, until: 0, left: 0, state };
        sampler.begin_group();
        sampler
    }

    /// Returns true if every packet is chosen.
    #[inline]
    pub fn takes_all(&self) -> bool {
        self.interval == 1
    }

    /// Returns true if the next packet is chosen.
    #[inline]
    pub fn take(&mut self) -> bool {
        let chosen = self.until == 1;
        self.until = self.until.wrapping_sub(1);
        self.left -= 1;
        if self.left == 0 {
            self.begin_group();
        }
        chosen
    }

    fn begin_group(&mut self) {
        self.left = self.interval;
        self.until = match self.sampling {
            Sampling::Deterministic => self.interval,
            Sampling::Random => {
                // Marsaglia's xorshift; its upper half is scaled to the interval.
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                1 + (((self.state >> 32) * u64::from(self.interval)) >> 32) as u32
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_gives_one() {
        for sampling in [Sampling::Deterministic, Sampling::Random] {
            let mut sampler = Sampler::new(10, sampling);
            let chosen: Vec<bool> = (0..10_000).map(|_| sampler.take()).collect();
            for group in chosen.chunks(10) {
                assert_eq!(group.iter().filter(|chosen| **chosen).count(), 1);
            }
            let fifth = chosen.iter().skip(4).step_by(10).filter(|chosen| **chosen).count();
            match sampling {
                Sampling::Deterministic => assert_eq!(fifth, 0),
                // The count is binomial with mean 100 and deviation 9.5; the bound is six
                // deviations.
                Sampling::Random => assert!((43..158).contains(&fifth), "{fifth}"),
            }
        }
        let mut all = Sampler::new(1, Sampling::Random);
        assert!(all.takes_all() && (0..10).all(|_| all.take()));
    }
}
