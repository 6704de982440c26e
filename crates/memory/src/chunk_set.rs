//! A set of chunks, such as those of one owner.

/// One bit for each chunk of a memory. A chunk is named by the offset of any of its bytes.
#[derive(Debug, Clone)]
pub struct ChunkSet {
    words: Vec<u64>,
    /// Number of chunks in the memory.
    chunks: u64,
    chunk: u64,
    /// Binary logarithm of the chunk size if it is a power of two, as in any UMEM.
    shift: Option<u32>,
}

impl ChunkSet {
    /// Creates an empty set for a memory of `bytes` bytes, of which only whole chunks count.
    ///
    /// # Panics
    /// Panics when `chunk` is zero.
    pub fn none(bytes: u64, chunk: u32) -> Self {
        let shift = chunk.is_power_of_two().then_some(chunk.trailing_zeros());
        let chunk = u64::from(chunk);
        let chunks = bytes / chunk;
        Self { words: vec![0; chunks.div_ceil(64) as usize], chunks, chunk, shift }
    }

    /// Creates a set of all chunks of a memory.
    ///
    /// # Panics
    /// As [`Self::none`].
    pub fn all(bytes: u64, chunk: u32) -> Self {
        let mut set = Self::none(bytes, chunk);
        for index in 0..set.chunks {
            set.insert(index * set.chunk);
        }
        set
    }

    /// Returns the number of a chunk; `None` outside the memory.
    #[inline]
    fn number(&self, offset: u64) -> Option<u64> {
        let number = self.shift.map_or_else(|| offset / self.chunk, |shift| offset >> shift);
        (number < self.chunks).then_some(number)
    }

    /// Returns the number of a chunk, its word, and its bit there; `None` outside the memory.
    #[inline]
    fn place(&mut self, offset: u64) -> Option<(u64, &mut u64, u64)> {
        let number = self.number(offset)?;
        self.words.get_mut((number / 64) as usize).map(|word| (number, word, 1 << (number % 64)))
    }

    /// Returns true if a chunk is in the set.
    #[inline]
    pub fn contains(&self, offset: u64) -> bool {
        let bit =
            |number: u64| self.words.get((number / 64) as usize).map(|it| it >> (number % 64));
        self.number(offset).and_then(bit).is_some_and(|word| word & 1 != 0)
    }

    /// Adds a chunk and returns its number; `None` if it was in the set already, or is outside the
    /// memory.
    #[inline]
    pub fn insert(&mut self, offset: u64) -> Option<u64> {
        let (number, word, bit) = self.place(offset)?;
        let was_in = *word & bit != 0;
        *word |= bit;
        (!was_in).then_some(number)
    }

    /// Removes a chunk; returns false if it was not in the set.
    #[inline]
    pub fn remove(&mut self, offset: u64) -> bool {
        let Some((_, word, bit)) = self.place(offset) else { return false };
        let was_in = *word & bit != 0;
        *word &= !bit;
        was_in
    }

    /// Removes all chunks, and passes the offset of the first byte of each to `each`.
    pub fn drain(&mut self, mut each: impl FnMut(u64)) {
        for (index, word) in (0_u64..).zip(&mut self.words) {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                let chunk = 64 * index + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                each(chunk * self.chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_is_in_the_set_once() {
        let mut set = ChunkSet::none(100 * 2048, 2048);
        for offset in [0, 2048 + 256, 99 * 2048] {
            assert_eq!(set.insert(offset), Some(offset / 2048));
        }
        assert_eq!(set.insert(2048 + 7), None, "twice, wherever in the chunk");
        assert!(set.contains(2048 + 9) && !set.contains(5 * 2048));
        assert!(set.remove(2048));
        assert!(!set.remove(2048 + 256), "twice");
        assert!(!set.remove(5 * 2048), "never added");
        let mut left = Vec::new();
        set.drain(|offset| left.push(offset));
        assert_eq!(left, [0, 99 * 2048]);
        set.drain(|_| panic!("all are gone"));
    }

    #[test]
    fn offsets_outside_the_memory_are_never_in_the_set() {
        // The last word has room for 28 chunks that the memory does not have.
        let sets = [(100 * 4096 + 17, 4096), (100 * 2112 + 17, 2112)];
        for (bytes, chunk) in sets {
            let (none, all) = (ChunkSet::none(bytes, chunk), ChunkSet::all(bytes, chunk));
            let numbers = [100, 127, 128].map(|number| number * u64::from(chunk));
            for (mut set, offset) in [none, all].into_iter().flat_map(|set| {
                numbers.into_iter().chain([u64::MAX]).map(move |offset| (set.clone(), offset))
            }) {
                assert!(set.insert(offset).is_none() && !set.contains(offset), "{offset}");
                assert!(!set.remove(offset), "{offset}");
            }
        }
        let mut offsets = Vec::new();
        ChunkSet::all(100 * 2112, 2112).drain(|offset| offsets.push(offset));
        assert_eq!((offsets.len(), offsets[99]), (100, 99 * 2112));
    }
}
