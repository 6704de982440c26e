//! Uncertainty of a mean.

/// Mean of repetitions, with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half the 95 % confidence interval, by Student's distribution; infinite if unknown.
    pub half: f64,
}

/// Two-sided 95 % points of Student's distribution for 1 to 30 degrees of freedom (any table of it).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// Value for more degrees of freedom, that for 30: never too small.
const LARGE: f64 = 2.042;

/// Returns the quantile of Student's t in standard errors, for degrees of freedom from 1; infinite
/// below.
pub(crate) fn student(degrees: usize) -> f64 {
    let below = degrees.checked_sub(1);
    below.map_or(f64::INFINITY, |below| STUDENT.get(below).copied().unwrap_or(LARGE))
}

impl Spread {
    /// Computes the spread of these values.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        let mean = values.clone().sum::<f64>() / count as f64;
        if count < 2 || !mean.is_finite() {
            return Self { mean, half: f64::INFINITY };
        }
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1) as f64).sqrt();
        Self { mean, half: student(count - 1) * deviation / (count as f64).sqrt() }
    }

    /// Returns true if the uncertainty is within this share of the mean.
    pub fn is_within(&self, share: f64) -> bool {
        self.half.is_finite() && self.half <= share * self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_follows_student() {
        // Mean 10, deviation 1, three values: 4.303 / sqrt(3).
        let spread = Spread::of([9.0, 10.0, 11.0].into_iter());
        assert!((spread.mean - 10.0).abs() < 1e-12 && (spread.half - 2.4843).abs() < 1e-3);
        assert!(spread.is_within(0.25) && !spread.is_within(0.24));
        assert!(Spread::of([5.0; 40].into_iter()).is_within(0.0));
        for nothing in [vec![], vec![1.0], vec![1.0, f64::INFINITY], vec![f64::INFINITY; 3]] {
            let spread = Spread::of(nothing.iter().copied());
            assert!(!spread.is_within(1e9), "{nothing:?}: {spread:?}");
        }
    }
}
