//! Sequence numbers of packets that are sent (RFC 4303 section 3.3.3), shared by all workers.
//!
//! A worker takes as many numbers as a batch needs with one atomic operation. No number is ever
//! given twice, since the nonce of GCM and the IV of CBC are made from it. Numbers are given only
//! up to a bound that has been written to disk before ([`Sequence::reserve`]). A router that starts
//! again, even after a crash, therefore continues above all numbers that it may have used.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sequence number counter of one sending SA.
#[derive(Debug)]
pub struct Sequence {
    /// Number given last.
    last: AtomicU64,
    /// Highest number that may be given now.
    reserved: AtomicU64,
    /// Highest number that may ever be given.
    most: u64,
}

/// Consecutive numbers that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// First number.
    pub first: u64,
    /// Count of numbers; fewer than requested at the end.
    pub count: u32,
}

impl Sequence {
    /// Makes a counter that continues above `last`; it gives no number before some are reserved.
    pub fn new(last: u64, extended: bool) -> Self {
        let most = if extended { u64::MAX } else { u32::MAX.into() };
        Self { last: AtomicU64::new(last), reserved: AtomicU64::new(last.min(most)), most }
    }

    /// Limits the counter to numbers up to `most`.
    #[must_use]
    pub fn up_to(self, most: u64) -> Self {
        Self { most: most.min(self.most), ..self }
    }

    /// Allows numbers up to `bound`, and never lowers the bound; returns the bound in force.
    pub fn reserve(&self, bound: u64) -> u64 {
        let bound = bound.min(self.most);
        self.reserved.fetch_max(bound, Ordering::AcqRel).max(bound)
    }

    /// Takes `count` numbers, or as many as are left.
    pub fn take(&self, count: u32) -> Taken {
        let reserved = self.reserved.load(Ordering::Acquire);
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let given = u64::from(count).min(reserved.saturating_sub(last));
            // Relaxed: only the number matters; no other memory depends on it.
            match self.last.compare_exchange_weak(
                last,
                last + given,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Taken { first: last.wrapping_add(1), count: given as u32 },
                Err(other) => last = other,
            }
        }
    }

    /// Returns the number given last.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Returns the highest number that may be given now.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Returns the highest number that may ever be given.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns true once no number can ever be given again.
    pub fn is_exhausted(&self) -> bool {
        self.last() >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_the_end() {
        let sequence = Sequence::new(u64::from(u32::MAX) - 5, false);
        assert_eq!(sequence.take(1).count, 0, "nothing is reserved yet");
        sequence.reserve(u64::MAX);
        let taken = sequence.take(3);
        assert_eq!((taken.first, taken.count), (u64::from(u32::MAX) - 4, 3));
        assert_eq!(sequence.take(64).count, 2);
        assert!(sequence.is_exhausted());
        assert_eq!(sequence.take(64).count, 0);

        let sequence = Sequence::new(u64::MAX - 1, true);
        sequence.reserve(u64::MAX);
        assert_eq!(sequence.take(9), Taken { first: u64::MAX, count: 1 });
        assert_eq!(sequence.take(9).count, 0, "it does not begin again at 0");
    }

    #[test]
    fn no_number_beyond_the_reserved_ones_is_given() {
        let sequence = Sequence::new(0, true);
        assert_eq!(sequence.reserve(10), 10);
        assert_eq!(sequence.reserve(4), 10, "nothing is taken back");
        assert_eq!(sequence.take(64), Taken { first: 1, count: 10 });
        assert_eq!((sequence.take(1).count, sequence.is_exhausted()), (0, false));
        sequence.reserve(11);
        assert_eq!(sequence.take(2), Taken { first: 11, count: 1 });
    }

    #[test]
    fn workers_that_share_it_never_get_the_same_number() {
        let sequence = Sequence::new(0, false);
        sequence.reserve(100_000);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=4)
                .map(|size| {
                    let sequence = &sequence;
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        loop {
                            let taken = sequence.take(size * 7);
                            if taken.count == 0 {
                                return mine;
                            }
                            mine.extend(taken.first..taken.first + u64::from(taken.count));
                        }
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (1..=100_000).collect::<Vec<_>>());
    }
}
