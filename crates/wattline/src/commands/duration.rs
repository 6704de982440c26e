//! Durations on the command line, such as `500ms`, `1s` or `2min`.

use wattline_units::Span;

/// Longest duration that makes sense for a measurement.
const YEAR: Span = Span::from_millis(365 * 86_400_000);

/// Parses a duration; for clap.
pub fn parse(text: &str) -> Result<Span, String> {
    text.parse()
        .ok()
        .filter(|span| (Span::from_nanos(1)..=YEAR).contains(span))
        .ok_or_else(|| format!("expected {}, above 0 and up to a year", Span::FORM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_sensible_length() {
        assert_eq!(parse("500ms"), Ok(Span::from_millis(500)));
        assert_eq!(parse("1.5s"), Ok(Span::from_millis(1500)));
        for wrong in ["", "5", "-1s", "0s", "366d", "9999999h", "..s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
