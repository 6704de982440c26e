//! Fields by which a bond chooses the member for a packet (Documentation/networking/bonding.rst).

use std::path::Path;

/// Returns the bond's hash policy if it uses fields other than MAC addresses; `None` if it does
/// not, or does not choose by the packet.
pub fn spread_of_bond(interface: &str) -> Option<String> {
    let folder = Path::new("/sys/class/net").join(interface).join("bonding");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    beyond_macs(&read("mode"), &read("xmit_hash_policy")).map(str::to_owned)
}

/// Returns the name of such a policy; `mode` and `policy` are a name and its number.
fn beyond_macs<'a>(mode: &str, policy: &'a str) -> Option<&'a str> {
    let first = |text: &'a str| text.split_whitespace().next();
    let hashes = mode.starts_with("balance-xor") || mode.starts_with("802.3ad");
    first(policy).filter(|policy| hashes && !["layer2", "vlan+srcmac"].contains(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hash_policies_beyond_mac_addresses_count() {
        assert_eq!(beyond_macs("balance-xor 2\n", "layer3+4 1\n"), Some("layer3+4"));
        assert_eq!(beyond_macs("802.3ad 4\n", "encap2+3 3\n"), Some("encap2+3"));
        for (mode, policy) in [
            ("802.3ad 4\n", "layer2 0\n"),
            ("802.3ad 4\n", "vlan+srcmac 5\n"),
            ("active-backup 1\n", "layer3+4 1\n"),
            ("", ""),
        ] {
            assert_eq!(beyond_macs(mode, policy), None, "{mode}{policy}");
        }
        assert_eq!(spread_of_bond("lo"), None);
    }
}
