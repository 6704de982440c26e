//! Drivers that publicly reported defects make unsafe in some mode: hangs, memory corruption, link
//! interruptions.
//!
//! Only drivers from outside of the kernel have a version of their own. Versions of the kernel's
//! drivers end with "k" or are missing, so these are not listed by version.

use crate::config::Config;
use std::ops::RangeInclusive;
use wattline_linux::sysfs::Tree;

type Version = [u32; 3];

/// A driver whose zero copy is refused.
struct Known {
    driver: &'static str,
    versions: RangeInclusive<Version>,
    why: &'static str,
    source: &'static str,
}

static KNOWN: [Known; 3] = [
    Known {
        driver: "ice",
        versions: [0, 0, 0]..=[2, 5, 4],
        why: "the card hangs for good if queues are opened or closed under load",
        source: "https://github.com/intel/ethernet-linux-ice/issues/61",
    },
    Known {
        driver: "ena",
        versions: [0, 0, 0]..=[2, 7, 3],
        why: "the card is reset under load; not seen with 2.7.4",
        source: "https://github.com/amzn/amzn-drivers/issues/221",
    },
    Known {
        driver: "ena",
        versions: [2, 13, 0]..=[2, 13, 1],
        why: "memory may be corrupted under load",
        source: "https://github.com/amzn/amzn-drivers/issues/330",
    },
];

/// Drivers, of every version, whose links drop when a program is attached or removed, and the
/// source.
static LINK_DROPS: [(&str, &str); 1] = [("ixgbe", "https://github.com/highpps/xdpcookie/issues/5")];

/// Returns the reason why frames of an interface are copied even if its driver offers zero copy;
/// `None` if the driver is not listed, or trusted by name.
pub fn refusal(tree: &Tree, interface: &str, trusted: &[String]) -> Option<String> {
    let driver = &driver(tree, interface)?;
    let text = tree.text(format!("/sys/module/{driver}/version")).ok()?;
    let version = version(&text)?;
    let fits = |known: &&Known| known.driver == *driver && known.versions.contains(&version);
    let Known { why, source, .. } = KNOWN.iter().find(fits)?;
    (!trusted.contains(driver)).then(|| {
        format!(
            "zero copy is refused: with driver {driver} {text}, {why} ({source}). Frames are copied; load \
             the kernel's driver or a newer one, or set trust_drivers = [\"{driver}\"] in [router]"
        )
    })
}

/// Returns what to expect of an interface's link at start and end, if its driver is listed for it
/// and not trusted by name.
fn interruption(tree: &Tree, interface: &str, trusted: &[String]) -> Option<String> {
    let driver = driver(tree, interface)?;
    let (_, source) = LINK_DROPS.iter().find(|(name, _)| *name == driver)?;
    (!trusted.contains(&driver)).then(|| {
        format!(
            "driver {driver} resets the card when a program is attached or removed, so that its link drops for \
             a moment ({source}): start and stop Wattline when that does no harm, or set trust_drivers = \
             [\"{driver}\"] in [router] if it does not happen here"
        )
    })
}

fn driver(tree: &Tree, interface: &str) -> Option<String> {
    let event = tree.text(format!("/sys/class/net/{interface}/device/uevent")).ok()?;
    event.lines().find_map(|line| line.strip_prefix("DRIVER=")).map(str::to_owned)
}

/// Returns the reasons and warnings of all ports, for the log and for a plan.
pub fn refusals(config: &Config, tree: &Tree) -> Vec<String> {
    let of = |port: &crate::config::PortSettings| {
        let (interface, trusted) = (port.kind.taken_over(), &config.router.trust_drivers);
        let all = interface.map(|interface| {
            [refusal(tree, interface, trusted), interruption(tree, interface, trusted)]
        });
        let name = port.name.clone();
        all.into_iter().flatten().flatten().map(move |why| format!("port {name}: {why}"))
    };
    config.ports.iter().flat_map(of).collect()
}

fn version(text: &str) -> Option<Version> {
    if text.ends_with(['k', 'K']) {
        return None;
    }
    let mut parts = text.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse().ok()
    });
    let mut next = || parts.next().unwrap_or(Some(0));
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_driver_is_refused_with_its_source_unless_it_is_trusted() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (driver, version, says) in [
            ("ice", "2.2.8", Some("ethernet-linux-ice/issues/61")),
            ("ice", "2.5.4", Some("hangs")),
            ("ice", "2.6.0", None),
            ("ice", "1.9.1-k", None),
            ("ice", "nonsense", None),
            ("ena", "2.7.1g", Some("amzn-drivers/issues/221")),
            ("ena", "2.7.4g", None),
            ("ena", "2.13.1g", Some("amzn-drivers/issues/330")),
            ("ena", "2.1.0K", None),
            ("ixgbe", "2.2.8", None),
        ] {
            write("sys/class/net/eth0/device/uevent", &format!("DRIVER={driver}\nPCI_ID=0\n"));
            write(&format!("sys/module/{driver}/version"), &format!("{version}\n"));
            let found = refusal(&tree, "eth0", &["other".to_owned()]);
            assert_eq!(found.is_some(), says.is_some(), "{driver} {version}: {found:?}");
            let text = found.unwrap_or_default();
            assert!(text.contains(says.unwrap_or_default()), "{driver} {version}: {text}");
            let trusted = [driver.to_owned()];
            assert_eq!(refusal(&tree, "eth0", &trusted), None);
            let warning = interruption(&tree, "eth0", &[]).unwrap_or_default();
            assert_eq!(warning.contains("xdpcookie/issues/5"), driver == "ixgbe", "{warning}");
            assert_eq!(interruption(&tree, "eth0", &trusted), None);
        }
        // The kernel's own driver has no version.
        write("sys/class/net/eth1/device/uevent", "DRIVER=mlx5_core\n");
        assert_eq!(refusal(&tree, "eth1", &[]), None);
    }
}
