//! Missing knobs and meters of a machine, with remedies.

use crate::sysfs::{ReadError, Tree};
use serde::Serialize;

/// Part that this machine does not offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Missing part.
    pub what: String,
    /// Reason.
    pub why: String,
    /// Remedy.
    pub remedy: String,
    /// True if the part exists and only a permission is missing.
    pub permission: bool,
}

impl Missing {
    /// Makes the entry for a file that could not be read.
    pub fn new(what: impl Into<String>, why: &ReadError) -> Self {
        let remedy = match why {
            ReadError::NoPermission(path) => {
                format!("run as root, or give a group the right to read {}", path.display())
            }
            ReadError::Missing(_) => "load the driver's module".into(),
            _ => "the sensor or its firmware is broken; nothing reads it".into(),
        };
        let permission = matches!(why, ReadError::NoPermission(_));
        Self { what: what.into(), why: why.to_string(), remedy, permission }
    }

    /// Makes an entry with a reason and a remedy in words.
    pub fn because(what: &str, why: &str, remedy: &str) -> Self {
        Self { what: what.into(), why: why.into(), remedy: remedy.into(), permission: false }
    }
}

/// Returns true if the machine is a guest by CPUID (leaf 1, ECX bit 31): a guest lacks many parts
/// that only its host has.
pub fn is_guest(tree: &Tree) -> bool {
    let text = tree.text("/proc/cpuinfo").unwrap_or_default();
    text.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    })
}
