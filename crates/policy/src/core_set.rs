//! A set of cores.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of cores of a machine.
pub const MAX_CORES: usize = 4096;
/// Bits per word of the mask.
const BITS: usize = u64::BITS as usize;
const WORDS: usize = MAX_CORES / BITS;

/// A set of cores, numbered from 0, as a bit mask; a list of numbers in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<usize>", into = "Vec<usize>")]
pub struct CoreSet {
    /// Number of words that may have bits, so that sets of usual machines cost no more than they
    /// need.
    used: usize,
    words: [u64; WORDS],
}

impl CoreSet {
    /// The empty set.
    pub const EMPTY: Self = Self { used: 0, words: [0; WORDS] };

    /// Returns the cores `0..count`; at most [`MAX_CORES`].
    pub const fn first(count: usize) -> Self {
        let count = if count > MAX_CORES { MAX_CORES } else { count };
        let mut set = Self { used: count.div_ceil(BITS), ..Self::EMPTY };
        let mut word = 0;
        while word < count / BITS {
            set.words[word] = u64::MAX;
            word += 1;
        }
        if word < set.used {
            set.words[word] = (1 << (count % BITS)) - 1;
        }
        set
    }
    /// Returns a set of one core; the empty set if there is no such number.
    pub const fn only(core: usize) -> Self {
        let mut set = Self::EMPTY;
        if core < MAX_CORES {
            set.words[core / BITS] = 1 << (core % BITS);
            set.used = core / BITS + 1;
        }
        set
    }
    /// Returns the words that may have bits.
    fn words(&self) -> &[u64] {
        self.words.get(..self.used).unwrap_or(&self.words)
    }
    /// Applies `of` to each pair of words; no other words have bits.
    fn with(mut self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let most = self.used.max(other.used);
        for (own, other) in self.words.iter_mut().zip(&other.words).take(most) {
            *own = of(*own, *other);
        }
        // Equal sets have equal numbers of words.
        self.used = most;
        while self.used > 0 && self.words[self.used - 1] == 0 {
            self.used -= 1;
        }
        self
    }
    /// Returns the number of cores.
    pub fn len(&self) -> usize {
        self.words().iter().map(|word| word.count_ones() as usize).sum()
    }
    /// Returns true if the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }
    /// Returns true if the set contains this core.
    pub const fn contains(&self, core: usize) -> bool {
        core < MAX_CORES && self.words[core / BITS] & (1 << (core % BITS)) != 0
    }
    /// Adds a core.
    pub fn insert(&mut self, core: usize) {
        if core < MAX_CORES {
            self.words[core / BITS] |= 1 << (core % BITS);
            self.used = self.used.max(core / BITS + 1);
        }
    }
    /// Removes a core.
    pub fn remove(&mut self, core: usize) {
        *self = self.without(Self::only(core));
    }
    /// Returns the cores of either set.
    pub fn union(self, other: Self) -> Self {
        self.with(&other, |own, other| own | other)
    }
    /// Returns the cores of both sets.
    pub fn intersection(self, other: Self) -> Self {
        self.with(&other, |own, other| own & other)
    }
    /// Returns the cores of this set that are not in the other.
    pub fn without(self, other: Self) -> Self {
        self.with(&other, |own, other| own & !other)
    }
    /// Returns the core with the lowest number.
    pub fn lowest(self) -> Option<usize> {
        self.iter().next()
    }
    /// Returns the core with the highest number.
    pub fn highest(&self) -> Option<usize> {
        let last = self.words().last()?;
        Some(self.used * BITS - 1 - last.leading_zeros() as usize)
    }
    /// Iterates over the cores in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let (mut word, mut rest) = (0, self.words[0]);
        std::iter::from_fn(move || {
            while rest == 0 {
                word += 1;
                rest = *self.words().get(word)?;
            }
            let core = word * BITS + rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(core)
        })
    }
}

impl Default for CoreSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<Vec<usize>> for CoreSet {
    fn from(cores: Vec<usize>) -> Self {
        cores.into_iter().collect()
    }
}

impl From<CoreSet> for Vec<usize> {
    fn from(set: CoreSet) -> Self {
        set.iter().collect()
    }
}

impl FromIterator<usize> for CoreSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> Self {
        let mut set = Self::EMPTY;
        cores.into_iter().for_each(|core| set.insert(core));
        set
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_of_the_range() {
        for count in [1, 63, 64, 65, 128, 384, MAX_CORES] {
            let first = CoreSet::first(count);
            assert_eq!((first.len(), first.highest()), (count, Some(count - 1)));
            assert_eq!(first, (0..count).collect());
            assert_eq!(first.without(CoreSet::first(count - 1)), CoreSet::only(count - 1));
            assert_eq!(CoreSet::only(count - 1).lowest(), Some(count - 1));
        }
        assert!(CoreSet::only(MAX_CORES).is_empty());
        assert_eq!(CoreSet::first(MAX_CORES + 1), CoreSet::first(MAX_CORES));
        assert_eq!(CoreSet::EMPTY.lowest(), None);
    }

    proptest! {
        #[test]
        fn iterates_over_inserted_cores(cores in prop::collection::btree_set(0..MAX_CORES, 0..20)) {
            let set: CoreSet = cores.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), cores.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), cores.len());
            prop_assert_eq!(set.highest(), cores.last().copied());
        }
    }
}
