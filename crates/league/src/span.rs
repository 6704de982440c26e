//! Spans of time in leagues.

use wattline_units::Span;

/// Longest time that can be simulated.
const LONGEST: Span = Span::from_millis(10 * 24 * 3_600 * 1_000);

/// Parses a span of time that is above zero and can be simulated.
///
/// # Errors
/// A message that names the problem.
pub(crate) fn above_zero(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(Span::ZERO) => Err(format!("\"{text}\" is 0; it must be above 0")),
        Ok(span) if span > LONGEST => {
            Err(format!("\"{text}\" is too long; allowed: at most 10 days"))
        }
        read => read.map_err(|error| error.to_string()),
    }
}

/// Formats a span of time, to a thousandth of its unit.
pub(crate) fn in_words(span: Span) -> String {
    let seconds = span.as_seconds();
    let units = [("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)];
    // A span below a unit by rounding alone uses that unit.
    let unit = units.iter().find(|(_, of)| seconds * of >= 1.0 - 1e-9);
    let (unit, of) = unit.unwrap_or(&units[0]);
    format!("{} {unit}", (seconds * of * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_formatted_in_its_unit() {
        for (text, expected) in
            [("100us", "100 us"), ("0.1ms", "100 us"), ("1500ms", "1.5 s"), ("2.5us", "2.5 us")]
        {
            assert_eq!(in_words(text.parse().unwrap()), expected);
        }
        assert_eq!(in_words(Span::ZERO), "0 s");
        assert_eq!(in_words(Span::from_seconds(1e-3)), "1 ms");
    }
}
