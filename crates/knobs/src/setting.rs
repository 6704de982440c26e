//! The address of one value that can be set.

use crate::mask::{self, Mask};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use wattline_linux::ethtool::Coalesce;
use wattline_linux::napi::Napi;

/// Everything that this crate sets in sysfs lies below it, or is a [`Mask`]; a journal that names
/// another file has been tampered with.
const CPUS: &str = "/sys/devices/system/cpu/";

/// One value of the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Setting {
    /// An attribute below `/sys/devices/system/cpu/`.
    File(String),
    /// The CPUs that may take an interrupt, as a list.
    Affinity {
        /// The interrupt's number.
        interrupt: u32,
    },
    /// An interrupt moderation parameter of a network interface.
    Coalesce {
        /// The interface.
        interface: String,
        /// The parameter.
        parameter: Coalesce,
    },
    /// An interrupt moderation parameter of one receive queue.
    QueueCoalesce {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The parameter.
        parameter: Coalesce,
    },
    /// The indirection table of receive-side scaling: a queue per entry, with commas between.
    IndirectionTable {
        /// The interface.
        interface: String,
    },
    /// The number of combined channels.
    Channels {
        /// The interface.
        interface: String,
    },
    /// A setting of the NAPI instance that serves a receive queue.
    Napi {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The setting.
        setting: Napi,
    },
    /// The CPU mask of a queue: RPS or XPS.
    Steering {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The kind of mask.
        mask: Mask,
    },
}

/// Text before and after an interrupt's number.
const AFFINITY: (&str, &str) = ("/proc/irq/", "/smp_affinity_list");
const TABLE: &str = "redirect-table";
const CHANNELS: &str = "combined-channels";

/// A text that is not the address of a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a setting: expected a file below {CPUS}, /proc/irq/N/smp_affinity_list, \
     /sys/class/net/INTERFACE/queues/rx-N/rps_cpus, ethtool:INTERFACE[/queue-N]/PARAMETER or napi:INTERFACE/queue-N/SETTING"
)]
pub struct NoSetting(String);

impl Setting {
    /// Creates an attribute of one or several CPUs from its path below `/sys/devices/system/cpu/`.
    /// The parts come from the kernel's own listing.
    pub(crate) fn cpu(path: impl fmt::Display) -> Self {
        Self::File(format!("{CPUS}{path}"))
    }

    /// Returns true for an attribute of CPUs with `part` in its path.
    pub(crate) fn is_cpu_file(&self, part: &str) -> bool {
        matches!(self, Self::File(path) if path.contains(part))
    }

    /// Returns its file in a tree that is not the running machine.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::File(path) => path.clone(),
            Self::Affinity { .. } | Self::Steering { .. } => self.to_string(),
            other => format!("/{}", other.to_string().replacen(':', "/", 1)),
        }
    }

    /// Returns its interface.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::File(_) | Self::Affinity { .. } => None,
            Self::Coalesce { interface, .. }
            | Self::QueueCoalesce { interface, .. }
            | Self::IndirectionTable { interface }
            | Self::Channels { interface }
            | Self::Napi { interface, .. }
            | Self::Steering { interface, .. } => Some(interface),
        }
    }

    /// Renames its interface.
    pub(crate) fn rename(&mut self, name: String) {
        match self {
            Self::File(_) | Self::Affinity { .. } => {}
            Self::Coalesce { interface, .. }
            | Self::QueueCoalesce { interface, .. }
            | Self::IndirectionTable { interface }
            | Self::Channels { interface }
            | Self::Napi { interface, .. }
            | Self::Steering { interface, .. } => *interface = name,
        }
    }

    /// Returns the shell command that gives it this value, or a comment if there is none.
    pub fn command(&self, value: &str) -> String {
        let switch = |parameter: &Coalesce| match (parameter, value) {
            (Coalesce::AdaptiveRx | Coalesce::AdaptiveTx, "0") => "off".to_string(),
            (Coalesce::AdaptiveRx | Coalesce::AdaptiveTx, "1") => "on".to_string(),
            _ => quoted(value),
        };
        match self {
            Self::File(path) => format!("echo {} > {}", quoted(value), quoted(path)),
            Self::Affinity { .. } | Self::Steering { .. } => {
                format!("echo {} > {}", quoted(value), quoted(&self.path()))
            }
            Self::Coalesce { interface, parameter } => {
                format!("ethtool -C {} {parameter} {}", quoted(interface), switch(parameter))
            }
            Self::QueueCoalesce { interface, queue, parameter } => format!(
                "ethtool -Q {} queue_mask 0x{} --coalesce {parameter} {}",
                quoted(interface),
                mask_of(*queue),
                switch(parameter)
            ),
            Self::IndirectionTable { interface } => match equal_spread(value) {
                Some(queues) => format!("ethtool -X {} equal {queues}", quoted(interface)),
                None => format!(
                    "# ethtool cannot write this table of {}, `wattline restore` can: {}",
                    quoted(interface),
                    quoted(value)
                ),
            },
            Self::Channels { interface } => {
                format!("ethtool -L {} combined {}", quoted(interface), quoted(value))
            }
            Self::Napi { interface, queue, setting } => format!(
                "# napi-set of the netlink family netdev, queue {queue} of {}: {setting} {}",
                quoted(interface),
                quoted(value)
            ),
        }
    }
}

/// Returns a one followed by zeros, in hexadecimal: the queue's number can exceed any integer's
/// bits.
fn mask_of(queue: u32) -> String {
    let queue = queue as usize;
    format!("{}{}", 1 << (queue % 4), "0".repeat(queue / 4))
}

/// Returns the number of queues of a table spread as by `ethtool -X equal`: entry i to i mod n.
fn equal_spread(table: &str) -> Option<u32> {
    let queues: Vec<u32> = table.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    let count = queues.iter().max()?.checked_add(1)?;
    let even = |(place, queue): (usize, &u32)| place as u64 % u64::from(count) == u64::from(*queue);
    queues.iter().enumerate().all(even).then_some(count)
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(path),
            Self::Affinity { interrupt } => {
                write!(f, "{}{interrupt}{}", AFFINITY.0, AFFINITY.1)
            }
            Self::Coalesce { interface, parameter } => write!(f, "ethtool:{interface}/{parameter}"),
            Self::QueueCoalesce { interface, queue, parameter } => {
                write!(f, "ethtool:{interface}/queue-{queue}/{parameter}")
            }
            Self::IndirectionTable { interface } => write!(f, "ethtool:{interface}/{TABLE}"),
            Self::Channels { interface } => write!(f, "ethtool:{interface}/{CHANNELS}"),
            Self::Napi { interface, queue, setting } => {
                write!(f, "napi:{interface}/queue-{queue}/{setting}")
            }
            Self::Steering { interface, queue, mask } => mask::path(f, interface, *queue, *mask),
        }
    }
}

impl FromStr for Setting {
    type Err = NoSetting;

    fn from_str(text: &str) -> Result<Self, NoSetting> {
        let setting = parse(text).filter(|setting| setting.to_string() == text);
        setting.ok_or_else(|| NoSetting(text.chars().take(200).collect()))
    }
}

/// Returns the setting of an address; of several spellings, the caller accepts only the canonical
/// one.
fn parse(text: &str) -> Option<Setting> {
    let harmless = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control)
    };
    if let Some(below) = text.strip_prefix(CPUS) {
        return below.split('/').all(harmless).then(|| Setting::File(text.to_string()));
    }
    if let Some(below) = text.strip_prefix(AFFINITY.0) {
        let interrupt = below.strip_suffix(AFFINITY.1)?.parse().ok()?;
        return Some(Setting::Affinity { interrupt });
    }
    if text.starts_with('/') {
        let (interface, queue, mask) = mask::parse(text)?;
        return Some(Setting::Steering { interface, queue, mask });
    }
    let (family, rest) = text.split_once(':')?;
    let words: Vec<&str> = rest.split('/').collect();
    let interface = words.first().filter(|name| harmless(name))?.to_string();
    let number = |word: &str| word.strip_prefix("queue-")?.parse::<u32>().ok();
    match (family, &words[1..]) {
        ("ethtool", [TABLE]) => Some(Setting::IndirectionTable { interface }),
        ("ethtool", [CHANNELS]) => Some(Setting::Channels { interface }),
        ("ethtool", [word]) => Some(Setting::Coalesce { interface, parameter: word.parse().ok()? }),
        ("ethtool", [queue, word]) => Some(Setting::QueueCoalesce {
            interface,
            queue: number(queue)?,
            parameter: word.parse().ok()?,
        }),
        ("napi", [queue, word]) => {
            Some(Setting::Napi { interface, queue: number(queue)?, setting: word.parse().ok()? })
        }
        _ => None,
    }
}

impl TryFrom<String> for Setting {
    type Error = NoSetting;
    fn try_from(text: String) -> Result<Self, NoSetting> {
        text.parse()
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> Self {
        setting.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_and_hostile_ones_are_refused() {
        for text in [
            "/sys/devices/system/cpu/cpu3/cpuidle/state2/disable",
            "ethtool:eth0/rx-usecs",
            "ethtool:eth0/queue-17/rx-usecs",
            "ethtool:eth0/redirect-table",
            "ethtool:eth0/combined-channels",
            "napi:eth0/queue-3/irq-suspend-timeout",
            "/proc/irq/131/smp_affinity_list",
        ] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        for text in [
            "/etc/passwd",
            "/sys/devices/system/cpu/../../../etc/passwd",
            "/sys/devices/system/cpu/",
            "/sys/devices/system/cpu/a\nb",
            "ethtool:../x/rx-usecs",
            "ethtool:eth0/rm",
            "ethtool:eth0/rx-usecs/",
            "ethtool:eth0/queue-01/rx-usecs",
            "ethtool:eth0/queue-1/redirect-table",
            "ethtool:eth0/queue-1/rx-usecs/x",
            "napi:eth0/defer-hard-irqs",
            "/proc/irq/../smp_affinity_list",
            "/proc/irq/7/smp_affinity",
            "/proc/irq/007/smp_affinity_list",
            "",
        ] {
            assert!(text.parse::<Setting>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn commands_can_be_pasted() {
        let file = Setting::cpu("cpu0/online");
        assert_eq!(file.command("it's"), r"echo 'it'\''s' > /sys/devices/system/cpu/cpu0/online");
        let adaptive = "ethtool:eth0/adaptive-rx".parse::<Setting>().unwrap();
        assert_eq!(adaptive.command("1"), "ethtool -C eth0 adaptive-rx on");
        let command = |setting: &str, value| setting.parse::<Setting>().unwrap().command(value);
        assert_eq!(
            command("ethtool:eth0/queue-9/rx-usecs", "50"),
            "ethtool -Q eth0 queue_mask 0x200 --coalesce rx-usecs 50"
        );
        assert_eq!(command("ethtool:eth0/redirect-table", "0,1,2,0"), "ethtool -X eth0 equal 3");
        assert!(command("ethtool:eth0/redirect-table", "0,0,1,1").starts_with("# "));
        let affinity = command("/proc/irq/131/smp_affinity_list", "0-3");
        assert_eq!(affinity, "echo 0-3 > /proc/irq/131/smp_affinity_list");
        assert_eq!(command("ethtool:eth0/combined-channels", "4"), "ethtool -L eth0 combined 4");
    }
}
