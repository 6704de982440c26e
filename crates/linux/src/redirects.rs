//! ICMP redirects of the kernel (RFC 1812 section 5.2.7.2).

/// Returns true if the kernel sends IPv4 redirects through an interface of this thread's network
/// namespace, by `net.ipv4.conf.all.send_redirects` or the interface's own setting. IPv6 has no
/// such setting and always sends them.
pub fn sends_redirects(interface: &str) -> bool {
    let is_set = |of: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{of}/send_redirects");
        std::fs::read_to_string(path).map_or(true, |text| text.trim() != "0")
    };
    is_set("all") || is_set(interface)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    #[test]
    fn setting_of_all_or_of_the_interface_counts() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        for (all, own, expected) in
            [("1", "1", true), ("1", "0", true), ("0", "1", true), ("0", "0", false)]
        {
            namespace.sysctl("net.ipv4.conf.all.send_redirects", all).unwrap();
            namespace.sysctl("net.ipv4.conf.lo.send_redirects", own).unwrap();
            assert_eq!(namespace.enter(|| sends_redirects("lo")).unwrap(), expected, "{all} {own}");
        }
    }
}
