//! Durations as strings: a number and a unit.

use std::time::Duration;

/// Reads a duration such as `"50us"`, `"1.5ms"` or `"2s"`: a decimal number from 0 and one of
/// ns, us, ms, s, min and h. `None` for anything else.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds_per_unit = match unit.trim_start() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let seconds = number * seconds_per_unit;
    // Rounded to a nanosecond, as 0.1 ms is not a binary fraction.
    let nanos = (seconds * 1e9).round();
    (nanos <= u64::MAX as f64).then(|| Duration::from_nanos(nanos as u64))
}

/// Reads durations of a range.
pub fn between(low: Duration, high: Duration) -> impl Fn(&str) -> Option<Duration> {
    move |text| parse_duration(text).filter(|duration| (low..=high).contains(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_unit() {
        assert_eq!(parse_duration("50us"), Some(Duration::from_micros(50)));
        assert_eq!(parse_duration("1.5 ms"), Some(Duration::from_micros(1500)));
        assert_eq!(parse_duration("0s"), Some(Duration::ZERO));
        assert_eq!(parse_duration("2min"), Some(Duration::from_secs(120)));
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in ["", "5", "s", "-1s", "1e3s", "1.2.3s", "nan s", "1 fortnight", "9e99h", ".s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
