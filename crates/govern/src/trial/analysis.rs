//! The difference between two settings at equal work, with its confidence interval.
//!
//! The differences of the pairs are fitted by least squares: the effect of B with the sign of the
//! pair's order, the difference of work, and a constant for the drift from one block to the next.
//! The interval contains every effect that a randomisation test does not reject. If an effect were
//! the true one, the order would make no difference to the residuals, and other orders that could
//! have been drawn would often enough give as large a statistic (R. A. Fisher, "The design of
//! experiments", 1935; with covariates: P. R. Rosenbaum, "Covariance adjustment in randomized
//! experiments", Statistical Science 17 (2002)). The statistic is the partial correlation of signs
//! and watts. Noise, autocorrelation and drift may have any form. Assumed is that B changes the
//! power by the same watts in each pair, and that the work does not depend on the setting.

use crate::trial::block::{Figure, Pair};
use crate::trial::order;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

/// Name of the method, for reports.
pub const METHOD: &str = "randomisation test over the order of blocks within pairs, inverted; \
                          adjusted for work and drift";
/// Share of orders that may give as large a statistic. A little below the nominal 5 %, so that even
/// a sample of 1,000 trials without a difference rarely shows one in more than 5 %.
const ALPHA: f64 = 0.042;
/// Number of orders drawn for the test.
const DRAWS: usize = 1_999;
/// Fewest pairs: with fewer, too few orders exist to reject anything with 95 % confidence.
pub const LEAST_PAIRS: usize = 8;

/// Difference of B to A at equal work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Watts that B draws more than A; negative for a saving.
    pub watts: f64,
    /// Lower end of the 95 % confidence interval.
    pub lower_watts: f64,
    /// Upper end.
    pub upper_watts: f64,
    /// Number of pairs.
    pub pairs: usize,
}

impl Difference {
    /// Returns true if the interval excludes zero.
    pub fn is_shown(&self) -> bool {
        self.lower_watts > 0.0 || self.upper_watts < 0.0
    }

    /// Returns the largest difference in either direction that the trial does not exclude.
    pub fn hidden_watts(&self) -> f64 {
        self.lower_watts.abs().max(self.upper_watts.abs())
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { watts, lower_watts: lower, upper_watts: upper, .. } = self;
        if self.is_shown() {
            write!(formatter, "B draws {watts:+.2} W ({lower:+.2} to {upper:+.2} W, 95 %)")
        } else if !self.hidden_watts().is_finite() {
            write!(formatter, "no difference shown, and none can be excluded: run more pairs")
        } else {
            let hidden = self.hidden_watts();
            write!(formatter, "no difference shown: up to {hidden:.2} W could be hidden")
        }
    }
}

/// Largest share of the differences of work that the setting may explain.
const MOST_EXPLAINED: f64 = 0.75;

/// Difference of B to A, and whether it is at equal work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Difference of the power.
    pub power: Difference,
    /// The measure of work.
    pub work: Option<Figure>,
    /// True if the power is compared at equal work. False without a measure of work, and if the
    /// work follows the setting so closely that their effects cannot be separated.
    pub at_equal_work: bool,
}

/// Compares the power under two settings, at equal work if possible.
///
/// # Errors
/// [`TooFewPairs`].
pub fn compare(pairs: &[Pair], work: Option<Figure>, seed: u64) -> Result<Comparison, TooFewPairs> {
    let signs: Vec<f64> = pairs.iter().map(|pair| pair.order.sign()).collect();
    let differences = pairs.iter().map(|pair| pair.second.work - pair.first.work).collect();
    let unexplained = Adjustment::by(differences).residuals(&signs);
    let none = Adjustment::by(vec![0.0; pairs.len()]).residuals(&signs);
    let explained = 1.0 - dot(&unexplained, &unexplained) / dot(&none, &none);
    let at_equal_work = work.is_some() && explained <= MOST_EXPLAINED;
    let mut pairs = pairs.to_vec();
    if !at_equal_work {
        for pair in &mut pairs {
            (pair.first.work, pair.second.work) = (0.0, 0.0);
        }
    }
    Ok(Comparison { power: difference(&pairs, seed)?, work, at_equal_work })
}

/// A trial with too few pairs for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewPairs {
    /// Number of pairs that it has.
    pub pairs: usize,
}

impl std::fmt::Display for TooFewPairs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs = self.pairs;
        write!(formatter, "{pairs} pairs of blocks were run; at least {LEAST_PAIRS} are needed")
    }
}

impl std::error::Error for TooFewPairs {}

/// Returns the difference that the pairs show. The seed is for the orders drawn for the test.
///
/// # Errors
/// [`TooFewPairs`].
pub fn difference(pairs: &[Pair], seed: u64) -> Result<Difference, TooFewPairs> {
    let count = pairs.len();
    if count < LEAST_PAIRS {
        return Err(TooFewPairs { pairs: count });
    }
    let watts: Vec<f64> = pairs.iter().map(|pair| pair.second.watts - pair.first.watts).collect();
    let work: Vec<f64> = pairs.iter().map(|pair| pair.second.work - pair.first.work).collect();
    let signs: Vec<f64> = pairs.iter().map(|pair| pair.order.sign()).collect();
    let adjusted = Adjustment::by(work);
    let (left, own) = (adjusted.residuals(&watts), adjusted.residuals(&signs));
    let (a, b) = (dot(&signs, &left), dot(&signs, &own));
    let effect = a / b;
    // For each order: the largest deviation upwards and downwards from the effect at which its
    // statistic is as large as the real order's. The statistic is linear in the assumed effect.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut upwards = Vec::with_capacity(DRAWS + 1);
    let mut downwards = Vec::with_capacity(DRAWS + 1);
    for _ in 0..DRAWS {
        let other: Vec<f64> =
            order::draw(count, &mut random).into_iter().map(order::Order::sign).collect();
        // Without this scale, orders less correlated with the work than the real one could reach
        // any effect.
        let unexplained = adjusted.residuals(&other);
        let square = dot(&unexplained, &unexplained);
        let scale = if square > 1e-9 * b { (b / square).sqrt() } else { f64::INFINITY };
        let sums = (scale * dot(&other, &left), scale * dot(&other, &own));
        let rest = sums.0 - effect * sums.1;
        let reach = |rest: f64, slope: f64| {
            if slope.is_finite() && slope > 1e-9 * b { rest / slope } else { f64::INFINITY }
        };
        upwards.push(reach(rest, b + sums.1).max(reach(-rest, b - sums.1)));
        downwards.push(reach(rest, b - sums.1).max(reach(-rest, b + sums.1)));
    }
    // The real order is one of the possible orders.
    upwards.push(f64::INFINITY);
    downwards.push(f64::INFINITY);
    Ok(Difference {
        watts: effect,
        lower_watts: effect - limit(&mut downwards),
        upper_watts: effect + limit(&mut upwards),
        pairs: count,
    })
}

/// Returns the deviation that no more than [`ALPHA`] of the orders reach.
fn limit(deviations: &mut [f64]) -> f64 {
    deviations.sort_by(f64::total_cmp);
    let above = (ALPHA * deviations.len() as f64).floor() as usize;
    deviations.len().checked_sub(1 + above).map_or(f64::INFINITY, |place| deviations[place])
}

/// Returns the number of pairs until the interval is about `half_width_watts` wide on either side,
/// judged by pairs under one setting. `None` for no pairs or no width.
pub fn pairs_needed(recorded: &[Pair], half_width_watts: f64) -> Option<usize> {
    if recorded.len() < 3 || half_width_watts.is_nan() || half_width_watts <= 0.0 {
        return None;
    }
    let watts: Vec<f64> =
        recorded.iter().map(|pair| pair.second.watts - pair.first.watts).collect();
    let work = recorded.iter().map(|pair| pair.second.work - pair.first.work).collect();
    let left = Adjustment::by(work).residuals(&watts);
    let deviation = (dot(&left, &left) / (left.len() - 2) as f64).sqrt();
    // Two standard errors, and two pairs for the fit of work and drift.
    let pairs = (2.0 * deviation / half_width_watts).powi(2) + 2.0;
    Some((pairs.ceil() as usize).max(LEAST_PAIRS))
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Part of the differences explained by work and drift.
struct Adjustment {
    /// Differences of work less their mean.
    work: Vec<f64>,
    square: f64,
}

impl Adjustment {
    fn by(mut work: Vec<f64>) -> Self {
        centre(&mut work);
        let square = dot(&work, &work);
        Self { work, square }
    }

    /// Returns the unexplained rest of a list.
    fn residuals(&self, list: &[f64]) -> Vec<f64> {
        let mut left = list.to_vec();
        centre(&mut left);
        // Equal work explains nothing.
        if self.square > 0.0 {
            let slope = dot(&left, &self.work) / self.square;
            left.iter_mut().zip(&self.work).for_each(|(one, work)| *one -= slope * work);
        }
        left
    }
}

fn centre(list: &mut [f64]) {
    let mean = list.iter().sum::<f64>() / list.len().max(1) as f64;
    list.iter_mut().for_each(|one| *one -= mean);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::block::Block;
    use crate::trial::order::{Order, orders};
    use rand::RngExt as _;

    fn pairs(effect: f64, drift: f64, per_work: f64) -> Vec<Pair> {
        let pair = |(number, order): (usize, Order)| {
            let block = |second: usize| {
                let work = ((number * 7 + second * 3) % 11) as f64;
                let is_b = (order == Order::AFirst) == (second == 1);
                let time = (2 * number + second) as f64;
                let watts =
                    100.0 + drift * time + per_work * work + if is_b { effect } else { 0.0 };
                Block { watts, work }
            };
            Pair { order, first: block(0), second: block(1) }
        };
        orders(12, 3).into_iter().enumerate().map(pair).collect()
    }

    #[test]
    fn drift_and_work_are_no_difference() {
        let found = difference(&pairs(-2.0, 0.5, 3.0), 1).unwrap();
        assert!((found.watts + 2.0).abs() < 1e-9, "{found:?}");
        assert!(found.is_shown() && (found.upper_watts - found.lower_watts).abs() < 1e-6);
        let none = difference(&pairs(0.0, 0.5, 3.0), 1).unwrap();
        assert!(none.watts.abs() < 1e-9 && none.hidden_watts() < 1e-6, "{none:?}");
    }

    /// With the fewest pairs, many other orders correlate with the adjusted work.
    #[test]
    fn saving_without_noise_is_shown_by_the_fewest_pairs_at_any_work() {
        for seed in 0..100 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1_000 + seed);
            let pair = |order: Order| {
                let mut block = |is_b: bool| Block {
                    watts: if is_b { 127.8 } else { 138.9 },
                    work: random.random_range(40.0..45.0),
                };
                let b_last = order == Order::AFirst;
                Pair { order, first: block(!b_last), second: block(b_last) }
            };
            let pairs: Vec<Pair> = orders(LEAST_PAIRS, seed).into_iter().map(pair).collect();
            let Comparison { power, .. } = compare(&pairs, Some(Figure::Packets), seed).unwrap();
            let (lower, upper) = (power.lower_watts, power.upper_watts);
            assert!(power.is_shown() && upper - lower < 1e-6, "{seed}: {power:?}");
        }
    }

    #[test]
    fn work_that_follows_the_setting_adjusts_nothing() {
        let mut slower = pairs(-2.0, 0.5, 0.0);
        for pair in &mut slower {
            let b_last = pair.order == Order::AFirst;
            let is_b = if b_last { &mut pair.second } else { &mut pair.first };
            is_b.work -= 20.0;
        }
        let found = compare(&slower, Some(Figure::Requests), 1).unwrap();
        assert!(!found.at_equal_work && (found.power.watts + 2.0).abs() < 1e-9, "{found:?}");
        let found = compare(&pairs(-2.0, 0.5, 3.0), Some(Figure::Packets), 1).unwrap();
        assert!(found.at_equal_work && (found.power.watts + 2.0).abs() < 1e-9, "{found:?}");
        assert!(!compare(&slower, None, 1).unwrap().at_equal_work);
    }

    #[test]
    fn few_pairs_are_refused_and_the_hidden_difference_is_named() {
        assert_eq!(difference(&pairs(1.0, 0.0, 0.0)[..7], 1), Err(TooFewPairs { pairs: 7 }));
        let found = Difference { watts: 0.1, lower_watts: -1.1, upper_watts: 0.9, pairs: 12 };
        assert_eq!(found.to_string(), "no difference shown: up to 1.10 W could be hidden");
        let found = Difference { upper_watts: f64::INFINITY, ..found };
        assert!(found.to_string().ends_with("run more pairs"), "{found}");
        let found = Difference { watts: -2.0, lower_watts: -2.5, upper_watts: -1.5, pairs: 12 };
        assert_eq!(found.to_string(), "B draws -2.00 W (-2.50 to -1.50 W, 95 %)");
    }
}
