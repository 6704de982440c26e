//! Durations of the configuration: [`Span`]'s grammar, to the nanosecond.

use std::time::Duration;
use wattline_units::Span;

/// Parses a duration such as `"50us"`, `"1.5ms"` or `"2s"`. Returns `None` for anything else.
pub fn parse_duration(text: &str) -> Option<Duration> {
    text.parse::<Span>().ok().map(Duration::from)
}

/// Returns a parser for durations of a range.
pub fn between(low: Duration, high: Duration) -> impl Fn(&str) -> Option<Duration> {
    move |text| parse_duration(text).filter(|duration| (low..=high).contains(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact_to_the_nanosecond() {
        assert_eq!(parse_duration("0.1ms"), Some(Duration::from_micros(100)));
        assert_eq!(parse_duration("1.000000001 s"), Some(Duration::new(1, 1)));
        assert_eq!(parse_duration("5"), None);
    }
}
