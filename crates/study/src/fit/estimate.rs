//! A fitted value with its confidence interval.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A fitted value. The true value lies in the interval with probability [`CONFIDENCE`], provided
/// that the model is right and errors are independent. The interval is `None` if there are no more
/// rows than parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Most likely value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

impl Estimate {
    /// Creates a given value, which was not fitted.
    pub fn exact(value: f64) -> Self {
        Self { value, low: Some(value), high: Some(value) }
    }

    /// Creates an estimate with this standard deviation and `freedom` degrees of freedom.
    pub(crate) fn new(value: f64, deviation: f64, freedom: usize) -> Self {
        let half = (freedom > 0).then(|| quantile(freedom) * deviation);
        Self { value, low: half.map(|half| value - half), high: half.map(|half| value + half) }
    }

    /// Converts an estimate of a logarithm into one of the positive quantity.
    pub(crate) fn exponential(self) -> Self {
        Self { value: self.value.exp(), low: self.low.map(f64::exp), high: self.high.map(f64::exp) }
    }

    /// Returns true if the interval contains a value; false without an interval.
    pub fn contains(&self, value: f64) -> bool {
        self.low.is_some_and(|low| low <= value) && self.high.is_some_and(|high| value <= high)
    }
}

/// Returns half the width of the interval in standard deviations (Student's t).
fn quantile(freedom: usize) -> f64 {
    let upper = (1.0 + CONFIDENCE) / 2.0;
    // Only zero degrees of freedom are refused, which the caller has excluded.
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        for (freedom, expected) in [(1, 12.706), (5, 2.571), (30, 2.042), (1000, 1.962)] {
            assert!((quantile(freedom) - expected).abs() < 1e-3, "{freedom}");
        }
    }

    #[test]
    fn without_freedom_there_is_no_interval() {
        let estimate = Estimate::new(5.0, 0.0, 0);
        assert_eq!(estimate.low, None);
        assert!(!estimate.contains(5.0));
        assert!(Estimate::exact(5.0).contains(5.0));
    }
}
