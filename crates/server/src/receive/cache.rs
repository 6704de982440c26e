//! A set-associative cache with least-recently-used replacement.

/// Number of a line: its address divided by [`LINE_BYTES`]. The highest bit is not part of it.
pub type Line = u32;

/// Bytes per line.
pub const LINE_BYTES: u32 = 64;

const DIRTY: u32 = 1 << 31;
/// Marks an empty way: the only number that [`Cache::new`] reserves.
const EMPTY: u32 = DIRTY - 1;

/// Result of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The line was there.
    Hit,
    /// The line was absent and is now present; contains the modified line that it evicted, if any.
    Miss(Option<Line>),
}

/// The size and the ways do not give a valid cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cache of {bytes} B with {ways} ways has {sets} sets of {LINE_BYTES} B lines; allowed: 1 to 64 ways, and a power of two of sets"
)]
pub struct InvalidCache {
    bytes: u64,
    ways: usize,
    sets: u64,
}

/// The cache: the lines of each set, most recently used first.
///
/// A line and its dirty bit share a word, so that the 16 ways of a set fit one cache line of the
/// simulating machine.
#[derive(Debug, Clone)]
pub struct Cache {
    lines: Vec<u32>,
    ways: usize,
    set_mask: u32,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// Fails when the number of sets is no power of two, or the ways are not 1 to 64.
    pub fn new(bytes: u64, ways: usize) -> Result<Self, InvalidCache> {
        let sets = bytes / u64::from(LINE_BYTES) / ways.max(1) as u64;
        let whole = sets * ways as u64 * u64::from(LINE_BYTES) == bytes;
        if !(1..=64).contains(&ways) || !sets.is_power_of_two() || !whole || sets > 1 << 24 {
            return Err(InvalidCache { bytes, ways, sets });
        }
        Ok(Self { lines: vec![EMPTY; (sets as usize) * ways], ways, set_mask: (sets - 1) as u32 })
    }

    /// Number of lines in a full cache.
    pub fn capacity(&self) -> usize {
        self.lines.len()
    }

    /// Accesses a line: brings it in if it is absent, and makes it the most recent. `write` marks
    /// it modified.
    #[inline]
    pub fn access(&mut self, line: Line, write: bool) -> Found {
        let mark = if write { DIRTY } else { 0 };
        let set = self.set(line);
        match set.iter().position(|entry| entry & !DIRTY == line) {
            Some(at) => {
                let entry = set[at] | mark;
                set.copy_within(..at, 1);
                set[0] = entry;
                Found::Hit
            }
            None => {
                let last = set.len() - 1;
                let victim = set[last];
                set.copy_within(..last, 1);
                set[0] = line | mark;
                Found::Miss((victim & DIRTY != 0).then_some(victim & !DIRTY))
            }
        }
    }

    /// Whether the line is present; changes nothing.
    pub fn holds(&self, line: Line) -> bool {
        let start = (line & self.set_mask) as usize * self.ways;
        self.lines[start..start + self.ways].iter().any(|entry| entry & !DIRTY == line)
    }

    /// Removes a line; returns whether it was modified, or `None` if it was absent.
    pub fn invalidate(&mut self, line: Line) -> Option<bool> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry & !DIRTY == line)?;
        let dirty = set[at] & DIRTY != 0;
        // The empty way moves to the end, where the next line takes it.
        set.copy_within(at + 1.., at);
        let last = set.len() - 1;
        set[last] = EMPTY;
        Some(dirty)
    }

    /// Marks a line unmodified after it was written to memory; true if it was modified.
    pub fn clean(&mut self, line: Line) -> bool {
        let set = self.set(line);
        let Some(entry) = set.iter_mut().find(|entry| **entry & !DIRTY == line) else {
            return false;
        };
        let dirty = *entry & DIRTY != 0;
        *entry &= !DIRTY;
        dirty
    }

    fn set(&mut self, line: Line) -> &mut [u32] {
        debug_assert!(line < EMPTY, "a line's number has 31 bits");
        let start = (line & self.set_mask) as usize * self.ways;
        &mut self.lines[start..start + self.ways]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert_eq!(Cache::new(4 << 20, 16).unwrap().capacity(), 65_536);
        for (bytes, ways) in [(0, 1), (64, 0), (3 << 20, 16), (100, 1), (1 << 20, 65)] {
            let error = Cache::new(bytes, ways).unwrap_err().to_string();
            assert!(error.contains("allowed: 1 to 64 ways"), "{error}");
        }
    }

    #[test]
    fn the_least_recently_used_goes_and_modified_lines_are_told() {
        let mut cache = Cache::new(128, 2).unwrap();
        assert_eq!(cache.access(1, true), Found::Miss(None));
        assert_eq!(cache.access(2, false), Found::Miss(None));
        assert_eq!(cache.access(1, false), Found::Hit);
        assert_eq!(cache.access(3, false), Found::Miss(None));
        assert!(!cache.holds(2) && cache.holds(1));
        assert_eq!(cache.access(4, false), Found::Miss(Some(1)));
        assert_eq!(cache.invalidate(4), Some(false));
        assert_eq!(cache.invalidate(4), None);
        assert_eq!(cache.access(5, true), Found::Miss(None));
        assert!(cache.clean(5) && !cache.clean(5) && !cache.clean(9));
    }

    proptest! {
        /// Compared with a plain implementation that uses lists.
        #[test]
        fn it_does_what_a_list_for_each_set_does(
            steps in prop::collection::vec((0_u32..200, 0_u8..4), 1..600)
        ) {
            let (sets, ways) = (8_usize, 4_usize);
            let mut cache = Cache::new((sets * ways * 64) as u64, ways).unwrap();
            let mut lists: Vec<VecDeque<(u32, bool)>> = vec![VecDeque::new(); sets];
            for (line, what) in steps {
                let list = &mut lists[line as usize % sets];
                let at = list.iter().position(|(known, _)| *known == line);
                match what {
                    0 | 1 => {
                        let write = what == 1;
                        let expected = match at {
                            Some(at) => {
                                let (_, dirty) = list.remove(at).unwrap();
                                list.push_front((line, dirty || write));
                                Found::Hit
                            }
                            None => {
                                let full = list.len() == ways;
                                let victim = if full { list.pop_back() } else { None };
                                list.push_front((line, write));
                                Found::Miss(victim.filter(|v| v.1).map(|v| v.0))
                            }
                        };
                        prop_assert_eq!(cache.access(line, write), expected);
                    }
                    2 => {
                        let expected = at.and_then(|at| list.remove(at)).map(|entry| entry.1);
                        prop_assert_eq!(cache.invalidate(line), expected);
                    }
                    _ => {
                        let dirty = at.is_some_and(|at| std::mem::take(&mut list[at].1));
                        prop_assert_eq!(cache.clean(line), dirty);
                        prop_assert_eq!(cache.holds(line), at.is_some());
                    }
                }
            }
        }
    }
}
