//! Reads quantities as people write them: a number and its unit.

use crate::number::{parse_prefixed, parse_unit};
use crate::{BitsPerSecond, PacketsPerSecond, Span, Watts};
use std::fmt;
use std::str::FromStr;

/// Error for a text that is not such a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseQuantityError {
    /// Given text.
    pub text: String,
    /// Expected form.
    pub expected: &'static str,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.expected)
    }
}

impl std::error::Error for ParseQuantityError {}

/// No `MW`: it would be a typing mistake for `mW`.
const POWER_UNITS: [(&str, f64); 3] = [("W", 1.0), ("mW", 1e-3), ("kW", 1e3)];
const SPAN_UNITS: [(&str, f64); 9] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    // The micro sign and the Greek letter look alike.
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];
/// Longer times than a thousand years are mistakes.
const MOST_SECONDS: f64 = 1000.0 * 365.0 * 86_400.0;

impl FromStr for PacketsPerSecond {
    type Err = ParseQuantityError;

    /// Parses `5Mpps`, `29 Mpps`, `840kpps`: never negative, always with its unit.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let expected = "a rate such as 5Mpps (pps, kpps, Mpps, Gpps, Tpps)";
        parse_prefixed(text, "pps").map(Self).ok_or_else(|| error(text, expected))
    }
}

impl FromStr for BitsPerSecond {
    type Err = ParseQuantityError;

    /// Parses `16Gbit/s`, `9.49 Gbps`: never negative, always with its unit.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let expected =
            "a bit rate such as 16Gbit/s (bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, or bps for bit/s)";
        let bits = parse_prefixed(text, "bit/s").or_else(|| parse_prefixed(text, "bps"));
        bits.map(Self).ok_or_else(|| error(text, expected))
    }
}

impl FromStr for Watts {
    type Err = ParseQuantityError;

    /// Parses `20W`, `250 mW`: never negative, always with its unit.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let expected = "a power such as 20W (mW, W, kW)";
        parse_unit(text, &POWER_UNITS).map(Self).ok_or_else(|| error(text, expected))
    }
}

impl FromStr for Span {
    type Err = ParseQuantityError;

    /// Parses `50us`, `1.5 ms`, `2s`: never negative, always with its unit, at most a thousand
    /// years.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        parse_unit(text, &SPAN_UNITS)
            .filter(|seconds| *seconds <= MOST_SECONDS)
            .map(Self::from_seconds)
            .ok_or_else(|| error(text, Self::FORM))
    }
}

impl Span {
    /// Expected form of a time, for messages.
    pub const FORM: &'static str = "a time such as 50us (ns, us, ms, s, min, h, d)";
}

fn error(text: &str, expected: &'static str) -> ParseQuantityError {
    ParseQuantityError { text: text.to_string(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_read() {
        assert_eq!("5Mpps".parse(), Ok(PacketsPerSecond(5e6)));
        assert_eq!(" 1.5e3 kpps ".parse(), Ok(PacketsPerSecond(1.5e6)));
        assert_eq!("0pps".parse(), Ok(PacketsPerSecond::ZERO));
        assert_eq!("50us".parse(), Ok(Span::from_micros(50)));
        assert_eq!("1.5 ms".parse(), Ok(Span::from_micros(1500)));
        assert_eq!("16Gbit/s".parse(), Ok(BitsPerSecond(16e9)));
        assert_eq!("9.5 Gbps".parse(), Ok(BitsPerSecond(9.5e9)));
        assert_eq!("250 mW".parse(), Ok(Watts(0.25)));
        assert_eq!("2min".parse(), Ok(Span::from_millis(120_000)));
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in ["", "5", "Mpps", "-1pps", "1e999pps", "nanpps", "5mpps", "5us", "5 0pps"] {
            assert!(wrong.parse::<PacketsPerSecond>().is_err(), "{wrong:?}");
        }
        for wrong in ["", "16", "16G", "-1Gbit/s", "1Gpps"] {
            assert!(wrong.parse::<BitsPerSecond>().is_err(), "{wrong:?}");
        }
        for wrong in ["", "20", "-1W", "20Wh", "20MW"] {
            assert!(wrong.parse::<Watts>().is_err(), "{wrong:?}");
        }
        let fortnight = Span::from_millis(14 * 86_400_000);
        assert_eq!(("14d".parse(), "336 h".parse()), (Ok(fortnight), Ok(fortnight)));
        for micro in ["2us", "2 \u{b5}s", "2\u{3bc}s"] {
            assert_eq!(micro.parse(), Ok(Span::from_micros(2)), "{micro}");
        }
        for wrong in ["", "5", "us", "-1us", "5Mpps", "infs", "1.2.3s", ".s", "9e99h", "1 parsec"] {
            let error = wrong.parse::<Span>().unwrap_err();
            assert!(error.to_string().contains("is not a time such as 50us"));
        }
    }
}
