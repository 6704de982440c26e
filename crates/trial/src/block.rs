//! Blocks: the time under one setting, without what is left of the other.

use crate::order::Order;

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since the block began.
    pub seconds: f64,
    /// Power in watts; `None` where the meter was away.
    pub watts: Option<f64>,
    /// Work per second, such as packets, requests or busy CPU seconds.
    pub work: f64,
}

/// Means of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Power in watts.
    pub watts: f64,
    /// Work per second.
    pub work: f64,
}

/// Two neighbouring blocks, one under each setting, in the order in which they ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The setting that ran first.
    pub order: Order,
    /// The first block.
    pub first: Block,
    /// The second block.
    pub second: Block,
}

/// The smallest share of a block's samples that need watts.
const LEAST_METERED: f64 = 0.8;

/// Means of a block after a washout of so many seconds, in which meter and machine still show the
/// setting before. `None` where the meter was away for more than a fifth of the rest, or nothing is left:
/// such a block is repeated.
pub fn mean_after(samples: &[Sample], washout_seconds: f64) -> Option<Block> {
    let kept = || samples.iter().filter(|sample| sample.seconds >= washout_seconds);
    let all = kept().count();
    let metered = || kept().filter_map(|sample| Some((sample.watts?, sample.work)));
    let metered = || metered().filter(|(watts, work)| watts.is_finite() && work.is_finite());
    let count = metered().count();
    if count == 0 || (count as f64) < LEAST_METERED * all as f64 {
        return None;
    }
    let sum = metered().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Some(Block { watts: sum.0 / count as f64, work: sum.1 / count as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(watts: impl Fn(u32) -> Option<f64>) -> Vec<Sample> {
        let one =
            |second: u32| Sample { seconds: f64::from(second), watts: watts(second), work: 2.0 };
        (0..60).map(one).collect()
    }

    #[test]
    fn a_block_leaves_its_washout_out_and_needs_its_meter() {
        let switched = samples(|second| Some(if second < 15 { 90.0 } else { 50.0 }));
        assert_eq!(mean_after(&switched, 15.0), Some(Block { watts: 50.0, work: 2.0 }));
        let some_missing = samples(|second| (second % 10 != 0).then_some(50.0));
        assert!(mean_after(&some_missing, 15.0).is_some());
        let away = samples(|second| (second < 45).then_some(50.0));
        assert_eq!(mean_after(&away, 15.0), None);
        assert_eq!(mean_after(&switched, 60.0), None);
        assert_eq!(mean_after(&samples(|_| Some(f64::NAN)), 0.0), None);
    }
}
