//! Numbers followed by a prefix or a unit: the single definition of `k`, `M`, `G`, `T` and `KiB`,
//! `MiB`, `GiB`, `TiB`.

/// SI prefixes of counts and rates. They are case-sensitive: `m` would be a thousandth.
const PREFIXES: [(&str, u64); 5] =
    [("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// Units of sizes (IEC 80000-13), in bytes.
const SIZES: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Parses a number from 0 with an SI prefix before a unit: `1.5Mpps` with the unit `pps`, `20k`
/// with the unit `""`. Blanks may stand between number and prefix, and around the whole.
pub fn parse_prefixed(text: &str, unit: &str) -> Option<f64> {
    let (number, suffix) = split(text)?;
    let factor = factor(&PREFIXES, suffix.strip_suffix(unit)?)?;
    scaled(number, factor as f64)
}

/// Parses a number from 0 with one of these units, and multiplies it with the unit's factor.
pub(crate) fn parse_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, suffix) = split(text)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == suffix)?;
    scaled(number, *factor)
}

/// Parses a whole number with an SI prefix: `4096`, `10k`, `2 G`. Exact; `None` if it exceeds 64
/// bits.
pub fn parse_count(text: &str) -> Option<u64> {
    whole(text, &PREFIXES)
}

/// Parses a whole number of `KiB`, `MiB`, `GiB` or `TiB`; returns bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    whole(text, &SIZES)
}

fn whole(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, suffix) = split(text)?;
    // The standard library would accept a plus sign, too.
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits)?;
    number.checked_mul(factor(units, suffix)?)
}

fn factor(units: &[(&str, u64)], suffix: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor)
}

fn scaled(number: &str, factor: f64) -> Option<f64> {
    let value = number.parse::<f64>().ok()? * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// Splits a text into the number and the rest.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    // A digit or point ends the number; what follows is the unit (an exponent has digits too).
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    let (number, suffix) = text.split_at(end);
    Some((number, suffix.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_stand_between_the_number_and_the_unit() {
        assert_eq!(parse_prefixed("500", ""), Some(500.0));
        assert_eq!(parse_prefixed("20k", ""), Some(20e3));
        assert_eq!(parse_prefixed(" 1.5 Mrps ", "rps"), Some(1.5e6));
        assert_eq!(parse_prefixed("1e3G", ""), Some(1e12));
        assert_eq!(parse_prefixed("0rps", "rps"), Some(0.0));
        for wrong in
            ["", "k", "5", "5k", "5K rps", "5k rps", "-1rps", "nanrps", "1e999rps", "5Xrps"]
        {
            assert_eq!(parse_prefixed(wrong, "rps"), None, "{wrong:?}");
        }
    }

    #[test]
    fn counts_are_whole_and_exact() {
        assert_eq!(parse_count("4096"), Some(4096));
        assert_eq!(parse_count("10k"), Some(10_000));
        assert_eq!(parse_count("2 T"), Some(2_000_000_000_000));
        assert_eq!(parse_count("18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "k", "1.5k", "+1", "-1", "1e3", "18446744073709551616", "18446745T", "1m"]
        {
            assert_eq!(parse_count(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn sizes_need_their_unit() {
        assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("2 GiB"), Some(2 << 30));
        assert_eq!(parse_bytes("1TiB"), Some(1 << 40));
        for wrong in ["", "MiB", "64", "64MB", "64M", "+64MiB", "0.5GiB", "99999999TiB", "é"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong:?}");
        }
    }
}
