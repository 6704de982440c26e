//! Parses rates and percentages as people write them.

use crate::source::{Links, Rate};
use wattline_units::{BitsPerSecond, PacketsPerSecond};

/// Forms of a rate, for error messages.
pub(super) const RATE_FORMS: &str = "a number with pps, kpps, Mpps, Gpps, bps, kbps, Mbps, Gbps or Tbps (or bit/s for bps), \
                                     or a percentage of all links (35%); units are case-sensitive, \
                                     and B for bytes is none of them";

/// Parses `5Mpps`, `2.5 Gbps` or `35%` (of the capacity of all links). Rates are finite; 0 is no
/// traffic.
pub(super) fn rate(text: &str, links: &Links) -> Option<Rate> {
    let text = text.trim();
    let rate = if let Some(percent) = text.strip_suffix('%') {
        links.share(percent.trim_end().parse::<f64>().ok()? / 100.0)
    } else if let Ok(packets) = text.parse::<PacketsPerSecond>() {
        Rate::Packets(packets.0)
    } else {
        Rate::Bits(text.parse::<BitsPerSecond>().ok()?.0)
    };
    let (Rate::Packets(value) | Rate::Bits(value) | Rate::Link { bits: value, .. }) = rate;
    (value.is_finite() && value >= 0.0).then_some(rate)
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
        assert_eq!(rate("25%", &links), Some(links.share(0.25)));
        assert_eq!(rate("0pps", &links), Some(Rate::Packets(0.0)));
        assert_eq!(rate("0%", &links), Some(links.share(0.0)));
        assert_eq!(rate("2.5 Gbit/s", &links), Some(Rate::Bits(2.5e9)));
        assert_eq!(rate("1Tbps", &links), Some(Rate::Bits(1e12)));
        for wrong in ["", "5", "5Mp", "Mpps", "-1pps", "nanpps", "infbps", "-1%"] {
            assert_eq!(rate(wrong, &links), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_and_other_spellings_are_no_bits() {
        let links = Links::POWERSAVE;
        for wrong in ["5GBps", "5GB/s", "5gbps", "5mpps", "5MPPS", "5Kpps", "5mbps", "1e9BPS"] {
            assert_eq!(rate(wrong, &links), None, "{wrong}");
        }
    }
}
