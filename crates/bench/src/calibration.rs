//! A fixed piece of work before and after a measurement, to detect a change of machine speed.

use quanta::Clock;
use serde::Serialize;
use std::hint::black_box;

/// Number of multiplications in a row; each depends on the previous result.
const CHAIN: u32 = 200_000;
/// Number of attempts; the fastest counts, since interruptions can only slow an attempt down.
const ATTEMPTS: u32 = 9;
/// Relative difference between before and after at which a run counts as disturbed.
const TOLERANCE: f64 = 0.10;

/// Time-stamp cycles per dependent multiplication, before and after a measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Calibration {
    /// Cycles before the measurement.
    pub before_cycles: f64,
    /// Cycles after the measurement.
    pub after_cycles: f64,
    /// True when the two differ by more than a tenth: another job used the machine.
    pub disturbed: bool,
}

impl Calibration {
    /// Compares two results of [`spin`].
    pub fn new(before: f64, after: f64) -> Self {
        let disturbed = (after / before - 1.0).abs() > TOLERANCE;
        Self { before_cycles: before, after_cycles: after, disturbed }
    }
}

/// Measures time-stamp cycles per multiplication now.
pub fn spin(clock: &Clock) -> f64 {
    let attempt = |_| {
        let before = clock.raw();
        let mut value = black_box(3u64);
        for _ in 0..CHAIN {
            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        black_box(value);
        clock.raw().wrapping_sub(before)
    };
    let fastest = (0..ATTEMPTS).map(attempt).min().unwrap_or_default();
    fastest as f64 / f64::from(CHAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_run_is_detected() {
        assert!(!Calibration::new(3.0, 3.2).disturbed);
        assert!(Calibration::new(3.0, 6.0).disturbed);
        assert!(Calibration::new(6.0, 3.0).disturbed);
        assert!(spin(&Clock::new()) > 0.0);
    }
}
