//! Durations on the command line, such as `500ms`, `1s` or `2min`.

use wattline_units::Span;

/// Reads one; for clap.
pub fn parse(text: &str) -> Result<Span, String> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a number with us, ms, s, min or h, such as 500ms".into()),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number * seconds <= 31_536_000.0 => {
            Ok(Span::from_seconds(number * seconds))
        }
        _ => Err("expected a duration above 0 and up to a year, such as 500ms".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_sensible_length() {
        assert_eq!(parse("500ms"), Ok(Span::from_millis(500)));
        assert_eq!(parse("1.5s"), Ok(Span::from_millis(1500)));
        for wrong in ["", "5", "-1s", "0s", "1d", "9999999h", "..s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
