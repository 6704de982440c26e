//! The anti-replay window (RFC 4303 section 3.4.3), shared by all workers without a lock.
//!
//! As in RFC 6479, the window is a ring of blocks, and whole blocks leave it when it moves on. Here
//! every block is one atomic word: 32 bits identify the lap of the ring, and 32 bits show which of
//! its numbers have been seen. To accept a number, a worker sets its bit in the word of its lap
//! with one compare-and-swap. A word only moves on to later laps. If several workers hold the same
//! packet at the same time, exactly one accepts it, however the window moves meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of sequence numbers per block.
const BLOCK: u64 = 32;

/// Set of received sequence numbers.
pub struct ReplayWindow {
    /// The highest number accepted.
    highest: AtomicU64,
    /// Blocks, indexed by block number modulo their count, a power of two.
    blocks: Box<[AtomicU64]>,
    size: u32,
}

/// Reason why a number is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// The number has been accepted before.
    Seen,
    /// The number is below the window, so its state is unknown.
    TooOld,
}

impl ReplayWindow {
    /// Makes a window of `size` numbers; all numbers up to `highest` count as received.
    pub fn new(size: u32, highest: u64) -> Self {
        // One block more than the window needs, since the window need not begin at a block
        // boundary.
        let count = (u64::from(size).div_ceil(BLOCK) + 1).next_power_of_two();
        let window = Self {
            highest: AtomicU64::new(highest),
            blocks: (0..count).map(|_| AtomicU64::new(0)).collect(),
            size,
        };
        let top = highest / BLOCK;
        for block in top.saturating_sub(count - 1)..=top {
            let seen = match highest - (block * BLOCK).min(highest) {
                rest if rest >= BLOCK - 1 => u32::MAX,
                rest => (1 << (rest + 1)) - 1,
            };
            let word = u64::from(window.run(block)) << 32 | u64::from(seen);
            window.word(block).store(word, Ordering::Relaxed);
        }
        window
    }

    /// Returns the size of the window in numbers.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the highest number accepted so far.
    pub fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }

    fn word(&self, block: u64) -> &AtomicU64 {
        &self.blocks[(block & (self.blocks.len() as u64 - 1)) as usize]
    }

    /// Returns the lap of the ring that a block belongs to, as many of its bits as fit. Laps with
    /// the same value are 2^32 laps apart, and no packet can be more than 2^32 numbers ahead.
    fn run(&self, block: u64) -> u32 {
        (block >> self.blocks.len().trailing_zeros()) as u32
    }

    fn is_old(&self, sequence: u64) -> bool {
        sequence == 0 || self.highest().saturating_sub(sequence) >= self.size.into()
    }

    /// Checks whether a number could still be accepted, before its packet is decrypted.
    ///
    /// # Errors
    /// Returns the reason if it cannot.
    pub fn check(&self, sequence: u64) -> Result<(), Replay> {
        if self.is_old(sequence) {
            return Err(Replay::TooOld);
        }
        let block = sequence / BLOCK;
        self.with(self.word(block).load(Ordering::Acquire), block, sequence).map(|_| ())
    }

    /// Accepts a number, at most once; only for packets that have proved authentic.
    ///
    /// # Errors
    /// Fails when the number was accepted before or is too old.
    pub fn accept(&self, sequence: u64) -> Result<(), Replay> {
        if self.is_old(sequence) {
            return Err(Replay::TooOld);
        }
        let block = sequence / BLOCK;
        let word = self.word(block);
        let mut before = word.load(Ordering::Acquire);
        loop {
            let after = self.with(before, block, sequence)?;
            match word.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(other) => before = other,
            }
        }
        self.highest.fetch_max(sequence, Ordering::AcqRel);
        Ok(())
    }

    /// Returns the word with the bit of `sequence` set.
    fn with(&self, word: u64, block: u64, sequence: u64) -> Result<u64, Replay> {
        let bit = 1 << (sequence % BLOCK);
        let (have, want) = ((word >> 32) as u32, self.run(block));
        if have == want {
            return if word & bit != 0 { Err(Replay::Seen) } else { Ok(word | bit) };
        }
        // Determines the later of two laps, even if they wrap.
        if have.wrapping_sub(want) < 1 << 31 {
            return Err(Replay::TooOld);
        }
        Ok(u64::from(want) << 32 | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_number_once_and_none_below_the_window() {
        let window = ReplayWindow::new(64, 0);
        assert_eq!(window.accept(0), Err(Replay::TooOld));
        assert_eq!(window.accept(1), Ok(()));
        assert_eq!(window.accept(1), Err(Replay::Seen));
        assert_eq!(window.accept(100), Ok(()));
        assert_eq!(window.accept(37), Ok(()));
        assert_eq!(window.check(36), Err(Replay::TooOld));
        // The largest step that an extended sequence number can show (RFC 4303 appendix A2).
        assert_eq!(window.accept(1 << 32), Ok(()));
        assert_eq!(window.check(100), Err(Replay::TooOld));
        assert_eq!(window.accept((1 << 32) - 63), Ok(()));
        assert_eq!(window.highest(), 1 << 32);
        let window = ReplayWindow::new(64, u64::MAX - 1);
        assert_eq!(window.accept(u64::MAX), Ok(()));
        assert_eq!(window.accept(u64::MAX), Err(Replay::Seen));
    }

    #[test]
    fn all_up_to_where_it_begins_has_been_seen() {
        for highest in [0, 1, 31, 32, 63, 64, 1000, (1 << 40) + 5] {
            let window = ReplayWindow::new(64, highest);
            for back in 0..highest.min(64) {
                assert!(window.accept(highest - back).is_err(), "{highest} - {back}");
            }
            assert_eq!(window.accept(highest + 1), Ok(()), "{highest}");
        }
    }

    /// Several threads offer the same numbers in different orders; each is accepted exactly once.
    #[test]
    fn workers_that_share_a_window_accept_nothing_twice() {
        const NUMBERS: u64 = 20_000;
        let window = ReplayWindow::new(1 << 15, 0);
        let taken: Vec<AtomicUsize> = (0..=NUMBERS).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for stride in [1, 7, 11, 13] {
                let (window, taken) = (&window, &taken);
                scope.spawn(move || {
                    for step in 0..NUMBERS {
                        let number = 1 + step * stride % NUMBERS;
                        if window.accept(number).is_ok() {
                            taken[number as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        for (number, count) in taken.iter().enumerate().skip(1) {
            assert_eq!(count.load(Ordering::Relaxed), 1, "{number}");
        }
    }

    /// The same with a window far too small for the reordering: no number is accepted twice.
    #[test]
    fn a_window_that_races_on_accepts_nothing_twice() {
        let window = ReplayWindow::new(32, 0);
        let taken: Vec<AtomicUsize> = (0..30_000).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (number, taken) in taken.iter().enumerate().skip(1) {
                        if window.accept(number as u64).is_ok() {
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) <= 1));
    }

    proptest! {
        /// Compared with a set of all accepted numbers.
        #[test]
        fn agrees_with_a_set(
            size in 1u32..200,
            start in prop_oneof![Just(0u64), any::<u64>().prop_map(|start| start >> 1)],
            steps in prop::collection::vec((0u64..400, any::<bool>()), 1..200),
        ) {
            let window = ReplayWindow::new(size, start);
            let mut seen = BTreeSet::new();
            let mut highest = start;
            for (step, back) in steps {
                let number = if back { highest.saturating_sub(step) } else { highest + step };
                let good = number > start
                    && number + u64::from(size) > highest
                    && !seen.contains(&number);
                prop_assert_eq!(window.check(number).is_ok(), good, "{} of {}", number, highest);
                prop_assert_eq!(window.accept(number).is_ok(), good);
                if good {
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
