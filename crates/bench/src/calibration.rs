//! A fixed piece of work before and after a measurement: did the machine change speed?

use quanta::Clock;
use serde::Serialize;
use std::hint::black_box;

/// Multiplications in a row, each waiting for the one before.
const CHAIN: u32 = 200_000;
/// Attempts, of which the fastest counts: interruptions only ever slow it down.
const ATTEMPTS: u32 = 9;
/// Difference between before and after from which a run counts as disturbed.
const TOLERANCE: f64 = 0.10;

/// Time-stamp cycles that one dependent multiplication took, before and after.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Calibration {
    /// Before the measurement.
    pub before_cycles: f64,
    /// After it.
    pub after_cycles: f64,
    /// True when these differ by more than a tenth: another job was in the way.
    pub disturbed: bool,
}

impl Calibration {
    /// Judges two [`spin`]s.
    pub fn new(before: f64, after: f64) -> Self {
        let disturbed = (after / before - 1.0).abs() > TOLERANCE;
        Self { before_cycles: before, after_cycles: after, disturbed }
    }
}

/// Time-stamp cycles per multiplication now.
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
    fn tells_a_disturbed_run() {
        assert!(!Calibration::new(3.0, 3.2).disturbed);
        assert!(Calibration::new(3.0, 6.0).disturbed);
        assert!(Calibration::new(6.0, 3.0).disturbed);
        assert!(spin(&Clock::new()) > 0.0);
    }
}
