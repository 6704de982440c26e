//! The address of one value that can be set, and how a machine is asked for it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::str::FromStr;
use wattline_kernel::ethtool::{self, Coalesce};
use wattline_kernel::sysfs::{ReadError, Tree};

/// Everything that this crate sets in sysfs lies below it; a journal that names another file
/// has been tampered with.
const CPUS: &str = "/sys/devices/system/cpu/";

/// One value of the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Setting {
    /// An attribute below `/sys/devices/system/cpu/`.
    File(String),
    /// An interrupt moderation parameter of a network interface.
    Coalesce {
        /// The interface.
        interface: String,
        /// The parameter.
        parameter: Coalesce,
    },
}

/// A text that is not the address of a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no setting: expected a file below {CPUS} or ethtool:INTERFACE/PARAMETER")]
pub struct NoSetting(String);

/// A setting could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It does not exist, or its CPU or interface has gone.
    #[error("{0}: not there")]
    Missing(Setting),
    /// It may not be read or written.
    #[error("{0}: no permission; run as root, and not in a container with a read-only /sys")]
    NoPermission(Setting),
    /// The kernel or the driver refused the value.
    #[error("{setting}: {reason}")]
    Refused {
        /// The setting.
        setting: Setting,
        /// What the kernel said.
        reason: String,
    },
}

/// Reads and writes settings.
pub trait Access {
    /// The present value.
    ///
    /// # Errors
    /// [`AccessError`].
    fn read(&self, setting: &Setting) -> Result<String, AccessError>;
    /// Asks for another value. What the driver made of it is known only by reading.
    ///
    /// # Errors
    /// [`AccessError`].
    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError>;
}

/// The settings of a machine: this one, or a tree that stands for one. There, the parameters
/// of a network card are files `ethtool/INTERFACE/PARAMETER` below the root.
#[derive(Debug, Clone)]
pub struct Machine {
    tree: Tree,
}

impl Machine {
    /// The machine whose files are in `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self { tree: tree.clone() }
    }

    /// Its files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl Access for Machine {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        if let (Setting::Coalesce { interface, parameter }, true) = (setting, self.tree.is_live()) {
            let values = ethtool::coalesce(interface).map_err(|e| AccessError::of(setting, &e))?;
            return Ok(values.get(*parameter).to_string());
        }
        self.tree.text(setting.path()).map_err(|error| match error {
            ReadError::Missing(_) => AccessError::Missing(setting.clone()),
            ReadError::NoPermission(_) => AccessError::NoPermission(setting.clone()),
            other => AccessError::Refused { setting: setting.clone(), reason: other.to_string() },
        })
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        let failed = |error: std::io::Error| AccessError::of(setting, &error);
        if let (Setting::Coalesce { interface, parameter }, true) = (setting, self.tree.is_live()) {
            let number = value.parse().map_err(|_| AccessError::Refused {
                setting: setting.clone(),
                reason: format!("{value:?} is no number"),
            })?;
            return ethtool::set_coalesce(interface, *parameter, number).map_err(failed);
        }
        let path = self.tree.path(setting.path());
        // Not created where it is not there: a vanished CPU must stay vanished.
        let mut file = std::fs::File::options().write(true).open(&path).map_err(failed)?;
        let line = format!("{value}\n");
        if self.tree.is_live() {
            // In one system call, as attributes want it.
            return file.write_all(line.as_bytes()).map_err(failed);
        }
        // A plain file takes a value as an attribute does, wholly or not at all, only by name.
        let new = path.with_extension("new");
        std::fs::write(&new, line).and_then(|()| std::fs::rename(&new, &path)).map_err(failed)
    }
}

impl AccessError {
    fn of(setting: &Setting, error: &std::io::Error) -> Self {
        let setting = setting.clone();
        match error.raw_os_error() {
            // ENOENT, ENODEV, ENXIO
            Some(2 | 19 | 6) => Self::Missing(setting),
            // EPERM, EACCES, EROFS
            Some(1 | 13 | 30) => Self::NoPermission(setting),
            _ => Self::Refused { setting, reason: error.to_string() },
        }
    }
}

impl Setting {
    /// An attribute of a CPU or of what CPUs share, by its path below
    /// `/sys/devices/system/cpu/`. The parts come from the kernel's own listing.
    pub(crate) fn cpu(path: impl fmt::Display) -> Self {
        Self::File(format!("{CPUS}{path}"))
    }

    fn path(&self) -> String {
        match self {
            Self::File(path) => path.clone(),
            Self::Coalesce { interface, parameter } => format!("/ethtool/{interface}/{parameter}"),
        }
    }

    /// The shell command that gives it this value.
    pub fn command(&self, value: &str) -> String {
        match self {
            Self::File(path) => format!("echo {} > {}", quoted(value), quoted(path)),
            Self::Coalesce { interface, parameter } => {
                let value = match (parameter, value) {
                    (Coalesce::AdaptiveRx | Coalesce::AdaptiveTx, "0") => "off".to_string(),
                    (Coalesce::AdaptiveRx | Coalesce::AdaptiveTx, "1") => "on".to_string(),
                    _ => quoted(value),
                };
                format!("ethtool -C {} {parameter} {value}", quoted(interface))
            }
        }
    }
}

/// As one word for a shell.
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
            Self::Coalesce { interface, parameter } => write!(f, "ethtool:{interface}/{parameter}"),
        }
    }
}

impl FromStr for Setting {
    type Err = NoSetting;

    fn from_str(text: &str) -> Result<Self, NoSetting> {
        let error = || NoSetting(text.chars().take(200).collect());
        let harmless = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control)
        };
        if let Some(below) = text.strip_prefix(CPUS) {
            return if below.split('/').all(harmless) {
                Ok(Self::File(text.to_string()))
            } else {
                Err(error())
            };
        }
        let (interface, parameter) = text
            .strip_prefix("ethtool:")
            .and_then(|rest| rest.rsplit_once('/'))
            .filter(|(interface, _)| harmless(interface) && !interface.contains('/'))
            .ok_or_else(error)?;
        let parameter = parameter.parse().map_err(|_| error())?;
        Ok(Self::Coalesce { interface: interface.to_string(), parameter })
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
        for text in ["/sys/devices/system/cpu/cpu3/cpuidle/state2/disable", "ethtool:eth0/rx-usecs"]
        {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        for text in [
            "/etc/passwd",
            "/sys/devices/system/cpu/../../../etc/passwd",
            "/sys/devices/system/cpu/",
            "/sys/devices/system/cpu/a\nb",
            "ethtool:../x/rx-usecs",
            "ethtool:eth0/rm",
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
    }
}
