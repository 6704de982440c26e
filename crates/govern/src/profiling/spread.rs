//! How well a mean is known.

/// The mean of repetitions, and how far it can be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half the 95 % confidence interval, by Student's distribution; infinite where it cannot be
    /// told.
    pub half: f64,
}

/// Two-sided 95 % points of Student's distribution for 1 to 30 degrees of freedom (any table of it).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// Beyond that, the normal distribution's: never less than what holds.
const NORMAL: f64 = 2.042;

impl Spread {
    /// Of these values.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        let mean = values.clone().sum::<f64>() / count as f64;
        if count < 2 || !mean.is_finite() {
            return Self { mean, half: f64::INFINITY };
        }
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1) as f64).sqrt();
        let student = STUDENT.get(count - 2).copied().unwrap_or(NORMAL);
        Self { mean, half: student * deviation / (count as f64).sqrt() }
    }

    /// Whether the mean is known to this share of it.
    pub fn is_within(&self, share: f64) -> bool {
        self.half.is_finite() && self.half <= share * self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
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
