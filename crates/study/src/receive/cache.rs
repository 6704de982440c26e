//! A set-associative cache with least-recently-used replacement.

use super::recency::Recency;

/// Number of a line: its address divided by [`LINE_BYTES`].
pub type Line = u32;

/// Bytes per line.
pub const LINE_BYTES: u32 = 64;

/// Limit on the ways of a cache: the capacity of a [`Recency`].
pub const MOST_WAYS: usize = 16;

/// Marks an empty way: the only number that is not a line.
const EMPTY: Line = Line::MAX;

/// Result of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The line was present.
    Hit,
    /// The line was absent and is now present; contains the modified line that it evicted, if any.
    Miss(Option<Line>),
}

/// The size and the ways do not give a valid cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cache of {bytes} B with {ways} ways has {sets} sets of {LINE_BYTES} B lines; allowed: 1 to {MOST_WAYS} ways, and a power of two of sets"
)]
pub struct InvalidCache {
    bytes: u64,
    ways: usize,
    sets: u64,
}

/// The cache: the way of each line, the lines of each set, and the order of their use.
///
/// A table holds the way of every line, so that sets are never searched. It takes a byte for each
/// number up to the highest line, so lines should be numbered without large gaps. Lines never move:
/// an access changes only the order, which is one word per set.
#[derive(Debug, Clone)]
pub struct Cache {
    /// State by line: 0 if it is absent, otherwise its way plus 1, with [`MODIFIED`].
    states: Vec<u8>,
    /// Lines by set and way.
    lines: Vec<Line>,
    order: Vec<Recency>,
    ways: usize,
    set_mask: u32,
}

/// Bit of a line's state: modified.
const MODIFIED: u8 = 1 << 7;

impl Cache {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// Fails when the number of sets is not a power of two, or the ways are not 1 to [`MOST_WAYS`].
    pub fn new(bytes: u64, ways: usize) -> Result<Self, InvalidCache> {
        let sets = bytes / u64::from(LINE_BYTES) / ways.max(1) as u64;
        let whole = sets * ways as u64 * u64::from(LINE_BYTES) == bytes;
        if !(1..=MOST_WAYS).contains(&ways) || !sets.is_power_of_two() || !whole || sets > 1 << 24 {
            return Err(InvalidCache { bytes, ways, sets });
        }
        Ok(Self {
            states: Vec::new(),
            lines: vec![EMPTY; sets as usize * ways],
            order: vec![Recency::default(); sets as usize],
            ways,
            set_mask: (sets - 1) as u32,
        })
    }

    /// Returns the number of lines in a full cache.
    pub fn capacity(&self) -> usize {
        self.lines.len()
    }

    /// Accesses a line: loads it if it is absent, and makes it the most recent. `write` marks it
    /// modified.
    #[inline]
    pub fn access(&mut self, line: Line, write: bool) -> Found {
        let mark = u8::from(write) * MODIFIED;
        match self.states.get_mut(line as usize) {
            Some(state) if *state != 0 => {
                *state |= mark;
                let way = way_of(*state);
                self.order[(line & self.set_mask) as usize].renew(way);
                Found::Hit
            }
            _ => Found::Miss(self.replace(line, mark)),
        }
    }

    /// Loads a line if it is absent. Unlike an access, this does not make a present line more
    /// recent.
    #[inline]
    pub fn bring(&mut self, line: Line) -> Found {
        if self.holds(line) { Found::Hit } else { Found::Miss(self.replace(line, 0)) }
    }

    /// Returns true if the line is present, without changing its recency.
    #[inline]
    pub fn holds(&self, line: Line) -> bool {
        self.states.get(line as usize).is_some_and(|state| *state != 0)
    }

    /// Removes a line; returns true if it was modified, or `None` if it was absent.
    #[inline]
    pub fn invalidate(&mut self, line: Line) -> Option<bool> {
        let state = self.states.get_mut(line as usize).filter(|state| **state != 0)?;
        let (dirty, way) = (*state & MODIFIED != 0, way_of(*state));
        *state = 0;
        let set = (line & self.set_mask) as usize;
        self.lines[set * self.ways + way] = EMPTY;
        // The next line takes the empty way.
        self.order[set].expire(way, self.ways);
        Some(dirty)
    }

    /// Marks a line unmodified after it was written to memory; returns true if it was modified.
    pub fn clean(&mut self, line: Line) -> bool {
        let Some(state) = self.states.get_mut(line as usize) else { return false };
        let dirty = *state & MODIFIED != 0;
        *state &= !MODIFIED;
        dirty
    }

    /// Replaces the least recent line by this one, and returns the evicted line if it was modified.
    #[inline]
    fn replace(&mut self, line: Line, mark: u8) -> Option<Line> {
        let set = (line & self.set_mask) as usize;
        let way = self.order[set].renew_oldest(self.ways);
        let victim = std::mem::replace(&mut self.lines[set * self.ways + way], line);
        let dirty = match self.states.get_mut(victim as usize) {
            Some(state) => std::mem::take(state) & MODIFIED != 0,
            None => false,
        };
        if self.states.len() <= line as usize {
            self.grow(line);
        }
        self.states[line as usize] = (way as u8 + 1) | mark;
        dirty.then_some(victim)
    }

    #[cold]
    fn grow(&mut self, line: Line) {
        self.states.resize((line as usize + 1).next_power_of_two(), 0);
    }
}

/// Returns the way in the state of a present line.
#[inline]
fn way_of(state: u8) -> usize {
    usize::from(state & !MODIFIED) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn impossible_shapes_are_refused() {
        assert_eq!(Cache::new(4 << 20, 16).unwrap().capacity(), 65_536);
        for (bytes, ways) in
            [(0, 1), (64, 0), (3 << 20, 16), (100, 1), (1 << 20, 17), (1 << 20, 32)]
        {
            let error = Cache::new(bytes, ways).unwrap_err().to_string();
            assert!(error.contains("allowed: 1 to 16 ways"), "{error}");
        }
    }

    #[test]
    fn least_recently_used_line_is_evicted_and_modified_ones_are_returned() {
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
        /// Compares with a plain implementation that uses lists, for all numbers of ways.
        #[test]
        fn cache_equals_a_list_per_set(
            ways in 1..=MOST_WAYS,
            steps in prop::collection::vec((0_u32..400, 0_u8..6), 1..1500)
        ) {
            let sets = 8_usize;
            let mut cache = Cache::new((sets * ways * 64) as u64, ways).unwrap();
            let mut plain = Plain::new(sets, ways);
            for (line, kind) in steps {
                match kind {
                    0..=2 => {
                        prop_assert_eq!(cache.access(line, kind == 1), plain.access(line, kind == 1));
                    }
                    3 => {
                        let there = plain.holds(line);
                        let expected = if there { Found::Hit } else { plain.access(line, false) };
                        prop_assert_eq!(cache.bring(line), expected);
                    }
                    4 => prop_assert_eq!(cache.invalidate(line), plain.invalidate(line)),
                    _ => {
                        prop_assert_eq!(cache.clean(line), plain.clean(line));
                        prop_assert_eq!(cache.holds(line), plain.holds(line));
                    }
                }
            }
        }
    }

    /// Compares at the size of a last-level cache, with enough accesses to fill it several times.
    #[test]
    fn large_cache_equals_lists() {
        let (mut cache, mut plain) = (Cache::new(1 << 20, 16).unwrap(), Plain::new(1024, 16));
        let mut at = 1_u32;
        for _ in 0..200_000 {
            at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let line = if at & 1 == 0 { at >> 17 } else { at >> 27 };
            match at >> 1 & 7 {
                0 => assert_eq!(cache.invalidate(line), plain.invalidate(line)),
                kind => {
                    assert_eq!(cache.access(line, kind == 1), plain.access(line, kind == 1));
                }
            }
        }
    }

    /// The plain implementation: a list for each set, most recent first.
    struct Plain {
        sets: Vec<VecDeque<(u32, bool)>>,
        ways: usize,
    }

    impl Plain {
        fn new(sets: usize, ways: usize) -> Self {
            Self { sets: vec![VecDeque::new(); sets], ways }
        }

        fn at(&mut self, line: u32) -> (&mut VecDeque<(u32, bool)>, Option<usize>) {
            let sets = self.sets.len();
            let list = &mut self.sets[line as usize % sets];
            let at = list.iter().position(|(known, _)| *known == line);
            (list, at)
        }

        fn access(&mut self, line: u32, write: bool) -> Found {
            let ways = self.ways;
            let (list, at) = self.at(line);
            if let Some((_, dirty)) = at.and_then(|at| list.remove(at)) {
                list.push_front((line, dirty || write));
                return Found::Hit;
            }
            let victim = if list.len() == ways { list.pop_back() } else { None };
            list.push_front((line, write));
            Found::Miss(victim.filter(|victim| victim.1).map(|victim| victim.0))
        }

        fn holds(&mut self, line: u32) -> bool {
            self.at(line).1.is_some()
        }

        fn invalidate(&mut self, line: u32) -> Option<bool> {
            let (list, at) = self.at(line);
            at.and_then(|at| list.remove(at)).map(|entry| entry.1)
        }

        fn clean(&mut self, line: u32) -> bool {
            let (list, at) = self.at(line);
            at.is_some_and(|at| std::mem::take(&mut list[at].1))
        }
    }
}
