//! Settings of the kernel's choice between several next hops for a flow
//! (`net.ipv4.fib_multipath_hash_*`, `net.ipv6.fib_multipath_hash_policy`).

use std::path::Path;

/// Settings of a network namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MultipathHash {
    /// Key of the hash; 0 for a random one, and before Linux 6.11.
    pub seed: u32,
    /// Number of the policy for IPv4; `None` if the kernel has none.
    pub ipv4_policy: Option<u32>,
    /// Number of the policy for IPv6.
    pub ipv6_policy: Option<u32>,
}

/// Reads the settings of this thread's network namespace.
pub fn read() -> MultipathHash {
    let number = |file: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys/net").join(file)).ok()?;
        text.trim().parse().ok()
    };
    MultipathHash {
        seed: number("ipv4/fib_multipath_hash_seed").unwrap_or(0),
        ipv4_policy: number("ipv4/fib_multipath_hash_policy"),
        ipv6_policy: number("ipv6/fib_multipath_hash_policy"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    #[test]
    fn settings_are_those_of_the_namespace() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        assert_eq!(namespace.enter(read).unwrap().seed, 0);
        if let Err(error) = namespace.sysctl("net.ipv4.fib_multipath_hash_seed", "4294967295") {
            return wattline_needs::machine(&error);
        }
        namespace.sysctl("net.ipv6.fib_multipath_hash_policy", "1").unwrap();
        let expected = MultipathHash { seed: u32::MAX, ipv4_policy: Some(0), ipv6_policy: Some(1) };
        assert_eq!(namespace.enter(read).unwrap(), expected);
    }
}
