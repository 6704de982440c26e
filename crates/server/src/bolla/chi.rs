//! The normalised form function χ: how power rises with throughput from idle to active.
//!
//! R. Bolla, R. Bruschi, A. Ranieri, "Green support for PC-based software router:
//! performance evaluation and modeling", equation 4: a polynomial of seventh order in the ratio of
//! throughput to its maximum, the same for all frequencies and machines.

use serde::Serialize;

/// The coefficients a0 to a7 as the paper prints them.
pub const PRINTED_COEFFICIENTS: [f64; 8] =
    [0.0, 0.470487, 15.0124, -89.8629, 223.074, -256.469, 130.477, -21.6999];

/// Grid steps for the search of turning points and for reported differences.
const GRID: usize = 10_000;

/// χ(t) on [0, 1]; arguments outside are clamped, since the polynomial diverges there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chi {
    coefficients: Vec<f64>,
    correction: Option<Correction>,
}

/// Correction that makes a polynomial rise from 0 to 1 without falling.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Correction {
    /// Largest value of the polynomial on [0, 1]; all values are divided by it.
    scale: f64,
    /// Local maxima as (t, value); the curve stays level after each until the value is exceeded.
    maxima: Vec<(f64, f64)>,
}

/// Difference between the corrected form and the plain polynomial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChiDifference {
    /// The largest absolute difference on [0, 1].
    pub largest: f64,
    /// Value of t at which it occurs.
    pub at: f64,
    /// The mean absolute difference.
    pub mean: f64,
}

impl Chi {
    /// Returns the paper's polynomial as printed: χ(1) = 1.002087, and it falls between 0.8308 and
    /// 0.9265.
    pub fn printed() -> Self {
        Self::polynomial(PRINTED_COEFFICIENTS.to_vec())
    }

    /// Creates a polynomial with these coefficients, constant first.
    pub fn polynomial(coefficients: Vec<f64>) -> Self {
        Self { coefficients, correction: None }
    }

    /// Returns the form divided by its largest value and without falling parts (running maximum). A
    /// polynomial without a positive value is returned unchanged.
    pub fn corrected(&self) -> Self {
        let mut maxima = Vec::new();
        let mut highest = 0.0;
        for step in 0..GRID {
            let (left, right) = (step as f64 / GRID as f64, (step + 1) as f64 / GRID as f64);
            if self.slope(left) > 0.0 && self.slope(right) <= 0.0 {
                let turning = self.turning_point(left, right);
                let value = self.horner(turning);
                if value > highest {
                    highest = value;
                    maxima.push((turning, value));
                }
            }
        }
        let scale = f64::max(highest, self.horner(1.0));
        let correction = (scale > 0.0).then_some(Correction { scale, maxima });
        Self { coefficients: self.coefficients.clone(), correction }
    }

    /// Returns the coefficients, constant first.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// Returns true if this is a [`Self::corrected`] form.
    pub fn is_corrected(&self) -> bool {
        self.correction.is_some()
    }

    /// Returns χ(t), with t clamped to [0, 1]; NaN counts as 0.
    pub fn value(&self, t: f64) -> f64 {
        let t = if t.is_nan() { 0.0 } else { t.clamp(0.0, 1.0) };
        let plain = self.horner(t);
        let Some(Correction { scale, maxima }) = &self.correction else { return plain };
        let reached = maxima.iter().take_while(|(at, _)| *at <= t).map(|(_, value)| *value);
        reached.fold(plain.max(0.0), f64::max) / scale
    }

    /// Returns the difference between the corrected form and this one.
    pub fn correction_difference(&self) -> ChiDifference {
        let corrected = self.corrected();
        let mut result = ChiDifference { largest: 0.0, at: 0.0, mean: 0.0 };
        for step in 0..=GRID {
            let t = step as f64 / GRID as f64;
            let difference = (corrected.value(t) - self.value(t)).abs();
            result.mean += difference / (GRID + 1) as f64;
            if difference > result.largest {
                result = ChiDifference { largest: difference, at: t, ..result };
            }
        }
        result
    }

    fn horner(&self, t: f64) -> f64 {
        self.coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient)
    }

    fn slope(&self, t: f64) -> f64 {
        let terms = self.coefficients.iter().enumerate().skip(1).rev();
        terms.fold(0.0, |sum, (power, coefficient)| sum * t + power as f64 * coefficient)
    }

    /// Finds the point between `left` (rising) and `right` where the slope changes its sign, by
    /// bisection.
    fn turning_point(&self, mut left: f64, mut right: f64) -> f64 {
        for _ in 0..50 {
            let middle = (left + right) / 2.0;
            if self.slope(middle) > 0.0 { left = middle } else { right = middle }
        }
        (left + right) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn argument_is_clamped() {
        let chi = Chi::printed();
        assert_eq!(chi.value(1.2), chi.value(1.0));
        assert_eq!(chi.value(-0.5), 0.0);
        assert_eq!(chi.value(f64::NAN), 0.0);
    }

    #[test]
    fn corrected_form_rises_from_nothing_to_one() {
        let chi = Chi::printed().corrected();
        assert_eq!(chi.value(0.0), 0.0);
        assert_eq!(chi.value(1.0), 1.0);
        let values: Vec<f64> = (0..=2000).map(|step| chi.value(f64::from(step) / 2000.0)).collect();
        assert!(values.is_sorted());
        let difference = Chi::printed().correction_difference();
        assert!(difference.largest < 0.0140 && difference.largest > 0.011, "{difference:?}");
        assert!((difference.at - 0.9265).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn any_corrected_form_is_monotone_and_bounded(
            coefficients in proptest::collection::vec(-10.0..10.0f64, 1..6),
            t in 0.0..1.0f64,
            step in 0.0..0.5f64,
        ) {
            let mut from_zero = vec![0.0];
            from_zero.extend(coefficients);
            let chi = Chi::polynomial(from_zero).corrected();
            if chi.is_corrected() {
                // A maximum is found only to the width of the bisection, hence the tolerance.
                prop_assert!(chi.value(t) <= chi.value(t + step) + 1e-9);
                prop_assert!((0.0..=1.0 + 1e-9).contains(&chi.value(t)));
            }
        }
    }
}
