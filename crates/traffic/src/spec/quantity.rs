//! Parses rates and percentages as people write them.

use crate::source::{Links, Rate};

const RATES: [(&str, f64, bool); 9] = [
    ("kpps", 1e3, true),
    ("mpps", 1e6, true),
    ("gpps", 1e9, true),
    ("pps", 1.0, true),
    ("kbps", 1e3, false),
    ("mbps", 1e6, false),
    ("gbps", 1e9, false),
    ("tbps", 1e12, false),
    ("bps", 1.0, false),
];

/// Forms of a rate, for error messages.
pub(super) const RATE_FORMS: &str =
    "a number with pps, kpps, Mpps, bps, kbps, Mbps or Gbps, or a percentage of all links (35%)";

/// `5Mpps`, `2.5 Gbps`, `35%` (of all links together, in bits). Finite; 0 is no traffic.
pub(super) fn rate(text: &str, links: &Links) -> Option<Rate> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(percent) = text.strip_suffix('%') {
        let share = finite(percent)? / 100.0;
        return Some(Rate::Bits(share * f64::from(links.ports) * links.bits_per_second));
    }
    let (unit, scale, packets) = RATES.into_iter().find(|(unit, ..)| text.ends_with(unit))?;
    let value = finite(text.strip_suffix(unit)?)? * scale;
    Some(if packets { Rate::Packets(value) } else { Rate::Bits(value) })
}

fn finite(text: &str) -> Option<f64> {
    text.trim_end().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_every_unit() {
        let links = Links::POWERSAVE;
        assert_eq!(rate("5Mpps", &links), Some(Rate::Packets(5e6)));
        assert_eq!(rate("2.5 Gbps", &links), Some(Rate::Bits(2.5e9)));
        assert_eq!(rate("1e3pps", &links), Some(Rate::Packets(1e3)));
        assert_eq!(rate("25%", &links), Some(Rate::Bits(10e9)));
        assert_eq!(rate("0pps", &links), Some(Rate::Packets(0.0)));
        assert_eq!(rate("0%", &links), Some(Rate::Bits(0.0)));
        for wrong in ["", "5", "5Mp", "Mpps", "-1pps", "nanpps", "infbps", "-0.1%"] {
            assert_eq!(rate(wrong, &links), None, "{wrong}");
        }
    }
}
