//! IVs that were used with a key, and the choice of those that a start uses.
//!
//! Every start takes consecutive IVs from a random place among those that no earlier start has
//! used. As long as the record is intact, no IV comes twice, whatever the random numbers are. If an
//! old record is put back, the places of the starts that it lacks are unknown; a new place then
//! meets one of them only by chance (`docs/explanation/esp.md` derives the probability).

/// Number of IVs that must be free in front of a start: eleven months at 10 million packets per
/// second.
pub(super) const ROOM: u64 = 1 << 48;
/// Most ranges of a record. Beyond it, the narrowest gaps count as used.
const MOST: usize = 4096;
/// Number of random places that are tried. While 1/16 of all places have enough room, less than one
/// key in 10^28 is refused.
const TRIES: usize = 1000;

/// Consecutive IVs, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IvRange {
    pub first: u64,
    pub last: u64,
}

/// Ranges of used IVs in ascending order, neither overlapping nor adjacent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IvRanges(Vec<IvRange>);

impl IvRanges {
    /// Ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = IvRange> + '_ {
        self.0.iter().copied()
    }

    /// Marks a range as used.
    pub fn add(&mut self, range: IvRange) {
        let begin = self.0.partition_point(|it| it.last < range.first.saturating_sub(1));
        let end = self.0.partition_point(|it| it.first <= range.last.saturating_add(1));
        let mut whole = range;
        // Empty, with `begin` after `end`, never occurs: the ranges are in order.
        if let Some(touched) = self.0.get(begin..end)
            && let (Some(low), Some(high)) = (touched.first(), touched.last())
        {
            whole.first = whole.first.min(low.first);
            whole.last = whole.last.max(high.last);
        }
        self.0.splice(begin..end, [whole]);
        while self.0.len() > MOST {
            let gap = |at: usize| self.0[at + 1].first - self.0[at].last;
            let Some(narrowest) = (0..self.0.len() - 1).min_by_key(|at| gap(*at)) else { return };
            let high = self.0.remove(narrowest + 1);
            self.0[narrowest].last = high.last;
        }
    }

    /// Chooses free IVs from a random place on, up to the next used one; `None` if there is too
    /// little room left.
    pub fn choose(&self, mut random: impl FnMut() -> Option<u64>) -> Option<IvRange> {
        for _ in 0..TRIES {
            let first = random()?;
            let next = self.0.partition_point(|it| it.last < first);
            let last = match self.0.get(next) {
                Some(used) if used.first <= first => continue,
                Some(used) => used.first - 1,
                None => u64::MAX,
            };
            if last - first >= ROOM {
                return Some(IvRange { first, last });
            }
        }
        None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reproducible random numbers (SplitMix64).
    pub struct Random(pub u64);

    impl Random {
        pub fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }
    }

    fn range(first: u64, last: u64) -> IvRange {
        IvRange { first, last }
    }

    proptest! {
        /// The ranges overlap, touch, repeat, and lie at both ends.
        #[test]
        fn ranges_hold_exactly_the_added_numbers(
            added in prop::collection::vec((0u8..=255, 0u8..=255), 0..20),
        ) {
            let place = |at: u8| if at < 128 { u64::from(at) } else { u64::MAX - u64::from(255 - at) };
            let mut ranges = IvRanges::default();
            let mut used = [false; 256];
            for (one, other) in added {
                let (low, high) = (one.min(other), one.max(other));
                // The middle of all numbers lies between 127 and 128.
                if (low < 128) != (high < 128) {
                    continue;
                }
                ranges.add(range(place(low), place(high)));
                used[usize::from(low)..=usize::from(high)].fill(true);
            }
            for at in 0..=255u8 {
                let is_used = ranges.iter().any(|it| (it.first..=it.last).contains(&place(at)));
                prop_assert_eq!(is_used, used[usize::from(at)]);
            }
            let list: Vec<IvRange> = ranges.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
        }
    }

    #[test]
    fn choice_avoids_used_ivs_and_narrow_gaps() {
        let mut ranges = IvRanges::default();
        ranges.add(range(0, 99));
        ranges.add(range(100 + ROOM, u64::MAX - 10));
        let choose = |places: &[u64]| {
            let mut places = places.iter().copied();
            ranges.choose(|| places.next())
        };
        assert_eq!(choose(&[0, 99, 101, u64::MAX, 100 + ROOM]), None);
        assert_eq!(choose(&[5, 100]), None, "one IV is missing");
        let mut ranges = IvRanges::default();
        ranges.add(range(101 + ROOM, 101 + ROOM));
        assert_eq!(ranges.choose(|| Some(100)), Some(range(100, 100 + ROOM)));
        assert_eq!(ranges.choose(|| Some(102 + ROOM)), Some(range(102 + ROOM, u64::MAX)));
    }

    /// 10,000 starts that sent something: one a day for 27 years.
    #[test]
    fn many_starts_never_meet_and_leave_half_of_all_ivs() {
        let mut random = Random(1);
        let mut ranges = IvRanges::default();
        for start in 0..10_000u64 {
            let free = ranges.choose(|| Some(random.next())).unwrap();
            let used = range(free.first, free.first + (random.next() >> 24));
            assert!(ranges.iter().all(|it| it.last < used.first || used.last < it.first));
            ranges.add(used);
            assert!(ranges.iter().count() <= MOST, "{start}");
        }
        let used: u128 = ranges.iter().map(|it| u128::from(it.last - it.first) + 1).sum();
        println!("given up: {:.1} % of all IVs", used as f64 / 2f64.powi(64) * 100.0);
        assert!(used < 1 << 63);
    }

    /// Two starts from the same record, of n packets each, meet with a probability of at most
    /// 2n / 2^64 if nearly all places are free.
    #[test]
    fn independent_starts_meet_as_seldom_as_derived() {
        let mut random = Random(7);
        let mut record = IvRanges::default();
        record.add(range(0, 1 << 40));
        let n = 1u64 << 57;
        let trials = 100_000;
        let mut place = || record.choose(|| Some(random.next())).unwrap().first;
        let meet = (0..trials).filter(|_| place().abs_diff(place()) < n).count();
        let bound = 2.0 * n as f64 / 2f64.powi(64) * f64::from(trials);
        // Of the expected 1560, with a standard deviation of 39.
        assert!((meet as f64 - bound).abs() < 5.0 * bound.sqrt(), "{meet} of {bound}");
    }
}
