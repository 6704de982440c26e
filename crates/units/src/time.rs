//! Points in time and spans of it, in whole picoseconds.
//!
//! Policies, models and the simulator never read a clock: time is handed to them.
//! A picosecond grid lets 29 Mpps be paced without drift (one packet every
//! 34 483 ps) and still counts 213 days in 64 bits.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

const PICOS_PER_SECOND: f64 = 1e12;

/// A point in time, in picoseconds since the start of a run.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

/// A span of time, in picoseconds; never negative.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than any time that a run reaches; "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `picos` picoseconds after the start.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }
    /// Picoseconds since the start.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Seconds since the start.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PICOS_PER_SECOND
    }
    /// The span since an `earlier` point; zero when that point is not earlier.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }
    /// A span of `nanos` nanoseconds; saturates at 213 days.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1_000))
    }
    /// A span of `micros` microseconds; saturates at 213 days.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000_000))
    }
    /// A span of `millis` milliseconds; saturates at 213 days.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000_000))
    }
    /// A span of so many seconds, rounded to a picosecond. Negative and
    /// not-a-number give zero, what exceeds 213 days saturates.
    pub fn from_seconds(seconds: f64) -> Self {
        // `as` saturates and maps NaN to zero.
        Self((seconds * PICOS_PER_SECOND).round() as u64)
    }
    /// Length in picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Length in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PICOS_PER_SECOND
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}
impl Sub for Span {
    type Output = Span;
    /// Saturates at zero.
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}
impl Div<u64> for Span {
    type Output = Span;
    /// # Panics
    /// When `divisor` is zero.
    fn div(self, divisor: u64) -> Span {
        Span(self.0 / divisor)
    }
}
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().saturating_mul(1_000)).unwrap_or(u64::MAX))
    }
}
impl From<Span> for Duration {
    /// Rounds down to a nanosecond.
    fn from(span: Span) -> Self {
        Duration::from_nanos(span.0 / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_to_a_picosecond() {
        assert_eq!(Span::from_seconds(1.0 / 29e6).as_picos(), 34_483);
        assert_eq!(Span::from_seconds(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_seconds(-1.0), Span::ZERO);
        assert_eq!(Span::from_seconds(f64::INFINITY).as_picos(), u64::MAX);
    }

    #[test]
    fn time_saturates_instead_of_wrapping() {
        assert_eq!(Time::NEVER + Span::from_micros(1), Time::NEVER);
        assert_eq!(Time::ZERO.since(Time::from_picos(5)), Span::ZERO);
        assert_eq!(Span::from_nanos(1) - Span::from_nanos(2), Span::ZERO);
    }

    #[test]
    fn durations_convert_both_ways() {
        let span = Span::from(Duration::from_micros(87));
        assert_eq!(span, Span::from_micros(87));
        assert_eq!(Duration::from(span), Duration::from_micros(87));
    }
}
