//! Which chunks the kernel has of a queue.
//!
//! Each chunk that goes into a fill or transmit ring is noted, and again when it comes out of a
//! receive or completion ring. So what a socket whose interface is gone will never give back is
//! known to the last chunk (a driver keeps some outside of all rings), and a descriptor that names
//! a chunk which was not lent, or names one twice, gives nothing back.

/// One bit for each chunk of the frame memory.
pub(super) struct Lent {
    words: Vec<u64>,
    /// Binary logarithm of the chunk size, a power of two in any UMEM.
    shift: u32,
}

impl Lent {
    /// None of a memory of so many bytes, in chunks of `chunk` bytes.
    pub(super) fn new(bytes: u64, chunk: u32) -> Self {
        debug_assert!(chunk.is_power_of_two());
        let shift = chunk.trailing_zeros();
        Self { words: vec![0; (bytes >> shift).div_ceil(64) as usize], shift }
    }

    fn place(&self, address: u64) -> (usize, u64) {
        let chunk = address >> self.shift;
        ((chunk / 64) as usize, 1 << (chunk % 64))
    }

    /// The chunk with this address goes to the kernel.
    #[inline]
    pub(super) fn lend(&mut self, address: u64) {
        let (word, bit) = self.place(address);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// It comes back; false when it was not away.
    #[inline]
    pub(super) fn take_back(&mut self, address: u64) -> bool {
        let (word, bit) = self.place(address);
        let Some(word) = self.words.get_mut(word) else { return false };
        let was_away = *word & bit != 0;
        *word &= !bit;
        was_away
    }

    /// Takes all back that are away, by the address of their first byte.
    pub(super) fn take_all(&mut self, mut each: impl FnMut(u32)) {
        for (index, word) in (0_u64..).zip(&mut self.words) {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                let chunk = 64 * index + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                // Frame memory has at most 4 GiB.
                each((chunk << self.shift) as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_away_comes_back_once() {
        let mut lent = Lent::new(100 * 2048, 2048);
        for address in [0, 2048 + 256, 99 * 2048] {
            lent.lend(address);
        }
        assert!(lent.take_back(2048), "wherever in the chunk the frame began");
        assert!(!lent.take_back(2048 + 256), "twice");
        assert!(!lent.take_back(5 * 2048), "never lent");
        let mut left = Vec::new();
        lent.take_all(|address| left.push(address));
        assert_eq!(left, [0, 99 * 2048]);
        lent.take_all(|_| panic!("all are back"));
    }

    #[test]
    fn addresses_outside_the_memory_are_none() {
        let mut lent = Lent::new(64 * 4096, 4096);
        lent.lend(u64::MAX);
        assert!(!lent.take_back(u64::MAX));
        assert!(!lent.take_back(64 * 4096));
    }
}
