//! Check that the kernel continues to forward when the router ends.
//!
//! If the process ends, the machine remains a router only by the kernel's own forwarding, which an
//! operator may have left off (Documentation/networking/ip-sysctl.rst).

use std::path::Path;

/// Switches of this network namespace, relative to `/proc/sys`.
const SWITCHES: [(&str, &str); 2] =
    [("IPv4", "net/ipv4/ip_forward"), ("IPv6", "net/ipv6/conf/all/forwarding")];

/// Warns of each IP version that the kernel does not forward.
pub(super) fn warn() {
    for warning in warnings(Path::new("/proc/sys")) {
        tracing::warn!("{warning}");
    }
}

/// Returns the warnings. A switch that cannot be read, as without IPv6, does not count as off.
fn warnings(root: &Path) -> Vec<String> {
    let is_off = |path: &str| {
        std::fs::read_to_string(root.join(path)).is_ok_and(|value| value.trim() == "0")
    };
    let off = SWITCHES.into_iter().filter(|(_, path)| is_off(path));
    off.map(|(family, path)| {
        let key = path.replace('/', ".");
        format!(
            "the kernel does not forward {family} ({key} = 0): while this router does not run, or \
             after it is killed, nobody does; sysctl -w {key}=1"
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disabled_forwarding_is_named_with_the_remedy() {
        let root = tempfile::tempdir().unwrap();
        for (_, path) in SWITCHES {
            std::fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
        }
        assert_eq!(warnings(root.path()), Vec::<String>::new());
        std::fs::write(root.path().join(SWITCHES[0].1), "1\n").unwrap();
        std::fs::write(root.path().join(SWITCHES[1].1), "0\n").unwrap();
        let warnings = warnings(root.path());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("IPv6"), "{warnings:?}");
        assert!(warnings[0].ends_with("sysctl -w net.ipv6.conf.all.forwarding=1"), "{warnings:?}");
    }
}
