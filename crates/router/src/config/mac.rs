//! Ethernet addresses as text.

/// Reads six hexadecimal bytes separated by `:` or `-`.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut mac = [0; 6];
    let mut parts = text.split(separator);
    for byte in &mut mac {
        let part = parts.next()?;
        // from_str_radix alone would take "+1".
        if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Writes an address with `:`.
pub fn format_mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Returns true for an address that a single station can have: neither group nor all zero.
pub(super) fn is_unicast(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_address_is_read_back() {
        let mac = [0x02, 0, 0xab, 0xcd, 0xef, 0x01];
        assert_eq!(parse_mac(&format_mac(mac)), Some(mac));
        assert_eq!(parse_mac("02-00-AB-CD-EF-01"), Some(mac));
    }

    #[test]
    fn refuses_everything_else() {
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "+2:00:00:00:00:01"]
        {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
        assert!(!is_unicast([1, 0, 0x5e, 0, 0, 1]));
        assert!(!is_unicast([0; 6]));
    }
}
