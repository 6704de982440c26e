//! A set of cores.

use serde::{Deserialize, Serialize};
use std::fmt;

pub use wattline_server::MAX_CORES;

/// A set of cores, numbered from 0, as a bit mask.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CoreSet(u128);

impl CoreSet {
    /// No core.
    pub const EMPTY: Self = Self(0);

    /// The cores `0..count`; at most [`MAX_CORES`].
    pub const fn first(count: usize) -> Self {
        if count >= MAX_CORES { Self(u128::MAX) } else { Self((1 << count) - 1) }
    }
    /// One core; the empty set when there is no such number.
    pub const fn only(core: usize) -> Self {
        if core < MAX_CORES { Self(1 << core) } else { Self::EMPTY }
    }
    /// Counts its cores.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }
    /// Whether no core is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether this core is in it.
    pub const fn contains(self, core: usize) -> bool {
        core < MAX_CORES && self.0 & (1 << core) != 0
    }
    /// Adds a core.
    pub fn insert(&mut self, core: usize) {
        *self = self.union(Self::only(core));
    }
    /// Takes a core away.
    pub fn remove(&mut self, core: usize) {
        *self = self.without(Self::only(core));
    }
    /// The cores of either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// The cores of both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// The cores of this set that are not in the other.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// The lowest numbered core.
    pub fn lowest(self) -> Option<usize> {
        (!self.is_empty()).then(|| self.0.trailing_zeros() as usize)
    }
    /// The highest numbered core.
    pub fn highest(self) -> Option<usize> {
        (!self.is_empty()).then(|| MAX_CORES - 1 - self.0.leading_zeros() as usize)
    }
    /// The cores in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let core = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(core)
        })
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
        assert_eq!(CoreSet::first(128).len(), 128);
        assert_eq!(CoreSet::first(128).highest(), Some(127));
        assert!(CoreSet::only(128).is_empty());
        assert_eq!(CoreSet::EMPTY.lowest(), None);
    }

    proptest! {
        #[test]
        fn iterates_what_was_inserted(cores in prop::collection::btree_set(0usize..128, 0..20)) {
            let set: CoreSet = cores.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), cores.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), cores.len());
            prop_assert_eq!(set.highest(), cores.last().copied());
        }
    }
}
