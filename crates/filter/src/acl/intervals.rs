//! Sets of rules by the value of one field.
//!
//! The ranges of all rules cut the values of a field into intervals in which the same rules match.
//! Each interval has the set of these rules as a row of bits. The first rule that matches a packet is
//! the first bit in the intersection of the rows of its fields (T. V. Lakshman and D. Stiliadis,
//! "High-speed policy-based packet forwarding using efficient multi-dimensional range matching",
//! SIGCOMM 1998, section 4).

use std::collections::HashMap;

/// A value of a field.
pub trait Value: Copy + Ord {
    /// The least value.
    const LEAST: Self;
    /// Returns the next value; `None` after the greatest.
    fn next(self) -> Option<Self>;
}

macro_rules! values {
    ($($of:ty)*) => {$(
        impl Value for $of {
            const LEAST: Self = <$of>::MIN;
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )*};
}
values!(u8 u16 u32 u128);

/// Rows of bits, all of the same length.
#[derive(Debug, Default)]
pub struct Rows {
    words: usize,
    bits: Vec<u64>,
    known: HashMap<Box<[u64]>, u32>,
}

impl Rows {
    /// Makes an empty set of rows for `rules` rules.
    pub fn new(rules: usize) -> Self {
        Self { words: rules.div_ceil(64), ..Self::default() }
    }

    /// Adds a row and returns its number; equal rows have the same number.
    pub fn add(&mut self, row: &[u64]) -> u32 {
        if let Some(number) = self.known.get(row) {
            return *number;
        }
        let number = self.known.len() as u32;
        self.bits.extend_from_slice(row);
        self.known.insert(row.into(), number);
        number
    }

    /// Adds the row of the rules for which `holds` returns true.
    pub fn add_of(&mut self, rules: usize, holds: impl Fn(usize) -> bool) -> u32 {
        let mut row = vec![0; self.words];
        (0..rules).filter(|rule| holds(*rule)).for_each(|rule| row[rule / 64] |= 1 << (rule % 64));
        self.add(&row)
    }

    /// Returns the row with this number.
    #[inline]
    pub fn row(&self, number: u32) -> &[u64] {
        let start = number as usize * self.words;
        self.bits.get(start..start + self.words).unwrap_or_default()
    }

    /// Frees the parts that are needed only to add rows.
    pub fn finish(&mut self) {
        self.known = HashMap::new();
        self.bits.shrink_to_fit();
    }
}

/// The intervals of a field, with the row of each.
#[derive(Debug)]
pub struct Intervals<T> {
    /// First value of each interval, in order; the first is the least value.
    starts: Box<[T]>,
    rows: Box<[u32]>,
}

impl<T: Value> Intervals<T> {
    /// Makes the intervals from the ranges of each rule, both ends included. A rule without ranges
    /// matches no value.
    pub fn new(rules: &[Vec<(T, T)>], rows: &mut Rows) -> Self {
        // Rules that start or stop matching at a value.
        let mut changes: Vec<(T, usize)> = Vec::new();
        for (rule, ranges) in rules.iter().enumerate() {
            for (low, high) in merged(ranges) {
                changes.push((low, rule));
                changes.extend(high.next().map(|end| (end, rule)));
            }
        }
        changes.sort_unstable();
        let mut row = vec![0_u64; rows.words];
        let (mut starts, mut numbers) = (Vec::new(), Vec::new());
        let mut changes = changes.into_iter().peekable();
        let mut start = T::LEAST;
        loop {
            while let Some((_, rule)) = changes.next_if(|(value, _)| *value == start) {
                row[rule / 64] ^= 1 << (rule % 64);
            }
            let number = rows.add(&row);
            // Two rules may change at a value so that the row stays the same.
            if numbers.last() != Some(&number) {
                starts.push(start);
                numbers.push(number);
            }
            match changes.peek() {
                Some((next, _)) => start = *next,
                None => break,
            }
        }
        Self { starts: starts.into(), rows: numbers.into() }
    }

    /// Returns the number of a value's row.
    #[inline]
    pub fn row(&self, value: T) -> u32 {
        // The first interval begins at the least value, so every value has an interval.
        let place = self.starts.partition_point(|start| *start <= value).saturating_sub(1);
        self.rows.get(place).copied().unwrap_or(0)
    }
}

/// Ranges in order, without overlaps and neighbours.
fn merged<T: Value>(ranges: &[(T, T)]) -> Vec<(T, T)> {
    let mut ranges: Vec<(T, T)> =
        ranges.iter().copied().filter(|(low, high)| low <= high).collect();
    ranges.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::new();
    for (low, high) in ranges {
        match merged.last_mut() {
            Some((_, end)) if end.next().is_none_or(|next| low <= next) => *end = (*end).max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every value of a byte, compared with the ranges themselves.
        #[test]
        fn the_row_of_a_value_has_the_rules_whose_ranges_hold_it(
            rules in prop::collection::vec(
                prop::collection::vec((any::<u8>(), any::<u8>()), 0..4), 1..80),
        ) {
            let mut rows = Rows::new(rules.len());
            let intervals = Intervals::new(&rules, &mut rows);
            rows.finish();
            for value in 0..=u8::MAX {
                let row = rows.row(intervals.row(value));
                for (rule, ranges) in rules.iter().enumerate() {
                    let holds = ranges.iter().any(|(low, high)| (*low..=*high).contains(&value));
                    prop_assert_eq!(row[rule / 64] >> (rule % 64) & 1 == 1, holds);
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_widest_field_are_in_their_intervals() {
        let mut rows = Rows::new(2);
        let rules = [vec![(0, u128::MAX)], vec![(u128::MAX, u128::MAX), (0, 0)]];
        let intervals = Intervals::new(&rules, &mut rows);
        let of = |value: u128| rows.row(intervals.row(value))[0];
        assert_eq!([of(0), of(1), of(u128::MAX - 1), of(u128::MAX)], [3, 1, 1, 3]);
    }
}
