//! Energy counters that wrap around.

use wattline_units::Span;

/// A meter's own delay: RAPL registers are updated about every millisecond, and a read can be
/// held up between the value and the clock. A difference may exceed the limit by this much.
const SLACK: Span = Span::from_millis(20);

/// Steps of a counter between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// Exactly this many steps, with at most one wrap.
    Exact(u64),
    /// At the highest plausible rate the counter may have made a full round in this time, so no
    /// difference is certain; `longest` is the longest certain interval.
    TooLong {
        /// The longest interval whose difference is certain.
        longest: Span,
    },
    /// The counter went back, or further than plausible: it was reset (driver reload, suspend).
    Reset,
}

/// The last value of a counter that runs from 0 to `highest` and then starts again at 0.
///
/// ```
/// use wattline_meters::{Difference, WrappingCounter};
/// use wattline_units::Span;
/// // In microjoules; at most 100 J a second.
/// let mut counter = WrappingCounter::new(999_999_999, 100_000_000, 999_999_990).unwrap();
/// assert_eq!(counter.advance(5, Span::from_millis(1000)), Ok(Difference::Exact(15)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappingCounter {
    highest: u64,
    most_per_second: u64,
    last: u64,
}

/// A value that the counter cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("counter reads {value}, which is above its highest value {highest}")]
pub struct OutOfRange {
    /// Value read.
    pub value: u64,
    /// The highest value of the counter.
    pub highest: u64,
}

impl WrappingCounter {
    /// Creates a counter with the highest value `highest` (RAPL: `max_energy_range_uj`) and the
    /// plausible rate limit `most_per_second`, now at `value`.
    ///
    /// # Errors
    /// When `value` is above `highest`.
    pub fn new(highest: u64, most_per_second: u64, value: u64) -> Result<Self, OutOfRange> {
        if value > highest {
            return Err(OutOfRange { value, highest });
        }
        Ok(Self { highest, most_per_second: most_per_second.max(1), last: value })
    }

    /// Returns the longest interval over which a difference is certain: less than one round at the
    /// highest rate.
    pub fn longest_interval(&self) -> Span {
        let picos = self.round() * 1_000_000_000_000 / u128::from(self.most_per_second);
        Span::from_picos(u64::try_from(picos).unwrap_or(u64::MAX)) - SLACK
    }

    /// Advances to the value `elapsed` after the last one, and returns the difference. Later
    /// differences start from here, whatever the outcome.
    ///
    /// # Errors
    /// When `value` is above the highest; the last value then stays, so the next interval must
    /// be counted from there.
    pub fn advance(&mut self, value: u64, elapsed: Span) -> Result<Difference, OutOfRange> {
        if value > self.highest {
            return Err(OutOfRange { value, highest: self.highest });
        }
        let before = std::mem::replace(&mut self.last, value);
        if elapsed > self.longest_interval() {
            return Ok(Difference::TooLong { longest: self.longest_interval() });
        }
        let steps = if value >= before {
            u128::from(value - before)
        } else {
            self.round() - u128::from(before - value)
        };
        let picos = u128::from((elapsed + SLACK).as_picos());
        // Rounded up: the very last step may fall into the interval.
        let most = (picos * u128::from(self.most_per_second)).div_ceil(1_000_000_000_000);
        match u64::try_from(steps) {
            Ok(exact) if steps <= most => Ok(Difference::Exact(exact)),
            _ => Ok(Difference::Reset),
        }
    }

    /// Returns the steps of one whole round: one more than the highest value, since 0 is a value
    /// too.
    fn round(&self) -> u128 {
        u128::from(self.highest) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A register of 32 bits in steps of 2^-16 J, in microjoules: 65 536 J.
    const RANGE: u64 = 65_535_999_984;
    const KILOWATT: u64 = 1_000_000_000;

    #[test]
    fn an_hour_at_500_watts_is_exact_over_all_its_wraps() {
        let mut counter = WrappingCounter::new(RANGE, KILOWATT, 17).unwrap();
        let (mut truth, mut sum) = (17u128, 0u64);
        for _ in 0..60 {
            truth += 500_000_000 * 60;
            let shown = u64::try_from(truth % (u128::from(RANGE) + 1)).unwrap();
            match counter.advance(shown, Span::from_seconds(60.0)).unwrap() {
                Difference::Exact(steps) => sum += steps,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sum, 500_000_000 * 3600);
    }

    #[test]
    fn interval_with_two_possible_wraps_is_refused() {
        let mut counter = WrappingCounter::new(RANGE, KILOWATT, 0).unwrap();
        let difference = counter.advance(5, Span::from_seconds(300.0)).unwrap();
        assert_eq!(difference, Difference::TooLong { longest: counter.longest_interval() });
        let longest = counter.longest_interval().as_seconds();
        assert!((65.0..65.6).contains(&longest), "{longest}");
    }

    #[test]
    fn restarted_counter_is_a_reset_not_a_wrap() {
        let mut counter = WrappingCounter::new(RANGE, KILOWATT, 30_000_000_000).unwrap();
        let second = Span::from_seconds(1.0);
        assert_eq!(counter.advance(100, second), Ok(Difference::Reset));
        // The next difference counts from the new start.
        assert_eq!(counter.advance(1_100, second), Ok(Difference::Exact(1_000)));
        assert_eq!(counter.advance(20_000_000_000, second), Ok(Difference::Reset));
    }

    #[test]
    fn a_value_above_the_range_is_an_error_and_changes_nothing() {
        let mut counter = WrappingCounter::new(100, 10, 50).unwrap();
        let error = counter.advance(101, Span::from_seconds(1.0)).unwrap_err();
        assert_eq!(error, OutOfRange { value: 101, highest: 100 });
        assert_eq!(counter.advance(55, Span::from_seconds(2.0)), Ok(Difference::Exact(5)));
        assert!(WrappingCounter::new(100, 10, 101).is_err());
    }

    proptest! {
        /// A difference reported as exact is true, for any counter and any true rate up to the
        /// limit.
        #[test]
        fn exact_is_exact(
            highest in 1u64..,
            most in 1u64..,
            start in any::<u64>(),
            millis in 0u64..100_000_000,
            share in 0.0f64..1.0,
        ) {
            let round = u128::from(highest) + 1;
            let start = u64::try_from(u128::from(start) % round).unwrap();
            let elapsed = Span::from_millis(millis);
            let bound = u128::from(most) * u128::from(millis) / 1000;
            let truth = (bound as f64 * share) as u128;
            let truth = truth.min(bound);
            let shown = u64::try_from((u128::from(start) + truth) % round).unwrap();
            let mut counter = WrappingCounter::new(highest, most, start).unwrap();
            let may_wrap_twice = elapsed > counter.longest_interval();
            match counter.advance(shown, elapsed).unwrap() {
                Difference::Exact(steps) => prop_assert_eq!(u128::from(steps), truth),
                Difference::TooLong { .. } => prop_assert!(may_wrap_twice),
                Difference::Reset => prop_assert!(false, "no reset happened"),
            }
        }
    }
}
