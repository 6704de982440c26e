//! Counts of values in buckets whose width grows with the value.

/// Logarithm of the value below which every value has its own bucket. Above, each doubling has 2^10
/// buckets, so that a value is known to three significant digits.
const EXACT_BITS: u32 = 11;
/// Number of doublings beyond the exact values: up to 2^37.
const DOUBLINGS: usize = 26;
const BUCKETS: usize = (DOUBLINGS + 2) << (EXACT_BITS - 1);
/// Largest value; higher values count as this one.
const HIGHEST: u64 = 100_000_000_000;

/// A histogram with the buckets of HdrHistogram (1 to 100e9, three digits). It is made for a value
/// per packet: recording increments one bucket, whose width follows from the leading zeros of the
/// value.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
}

/// Returns the bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    // Number of low bits that values in the same bucket do not share.
    let width = u64::BITS - EXACT_BITS - (value | ((1 << EXACT_BITS) - 1)).leading_zeros();
    ((width as usize) << (EXACT_BITS - 1)) + (value >> width) as usize
}

/// Returns the highest value of a bucket.
fn highest_of(bucket: usize) -> u64 {
    let half = 1 << (EXACT_BITS - 1);
    let width = (bucket / half).saturating_sub(1);
    (((bucket - width * half + 1) as u64) << width) - 1
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }

    #[inline]
    pub fn record(&mut self, value: u64) {
        match self.counts.get_mut(bucket(value)) {
            Some(count) => *count += 1,
            None => self.counts[bucket(HIGHEST)] += 1,
        }
    }

    /// Adds the values of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, other)| *mine += other);
    }

    /// Removes all values.
    pub fn reset(&mut self) {
        self.counts.fill(0);
    }

    /// Returns the number of values up to the end of the bucket that contains `value`.
    pub fn at_most(&self, value: u64) -> u64 {
        self.counts.iter().take(bucket(value.min(HIGHEST)) + 1).sum()
    }

    /// Returns the highest value of the bucket in which this fraction of all `values` is reached;
    /// at least one value counts.
    pub fn quantile(&self, fraction: f64, values: u64) -> u64 {
        let wanted = ((fraction * values as f64).ceil() as u64).max(1);
        let mut reached = 0;
        let bucket = self.counts.iter().position(|count| {
            reached += count;
            reached >= wanted
        });
        bucket.map_or(0, highest_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_have_no_gaps() {
        for bucket in 0..BUCKETS - 1 {
            let highest = highest_of(bucket);
            assert_eq!(super::bucket(highest), bucket);
            assert_eq!(super::bucket(highest + 1), bucket + 1);
        }
    }

    proptest! {
        #[test]
        fn quantiles_match_hdrhistogram(
            values in prop::collection::vec((0u32..63, any::<u64>()), 1..300),
            fractions in prop::collection::vec(0.001f64..=1.0, 1..10),
        ) {
            let mut reference =
                hdrhistogram::Histogram::<u64>::new_with_bounds(1, HIGHEST, 3).unwrap();
            let mut ours = [Histogram::new(), Histogram::new()];
            for (i, (shift, bits)) in values.iter().enumerate() {
                reference.saturating_record(bits >> shift);
                ours[i % 2].record(bits >> shift);
            }
            let [mut ours, other] = ours;
            ours.add(&other);
            for fraction in fractions {
                let quantile = ours.quantile(fraction, values.len() as u64);
                prop_assert_eq!(quantile, reference.value_at_quantile(fraction));
            }
        }
    }
}
