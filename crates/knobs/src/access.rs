//! Access to a machine's settings.

use crate::setting::Setting;
use crate::table_text;
use std::io;
use std::time::Duration;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_linux::{ethtool, napi};

/// A setting could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The setting does not exist, or its CPU or interface has gone.
    #[error("{0}: not there")]
    Missing(Setting),
    /// The setting may not be read or written.
    #[error("{0}: no permission; run as root, and not in a container with a read-only /sys")]
    NoPermission(Setting),
    /// The setting is readable, but its driver never accepts a value: it is no knob.
    #[error("{0}: its driver shows it and does not let it be set (Operation not supported)")]
    Unsupported(Setting),
    /// The kernel or the driver refused the value.
    #[error("{setting}: {reason}")]
    Refused {
        /// The setting.
        setting: Setting,
        /// The kernel's error.
        reason: String,
    },
    /// The kernel or the driver did not answer in time; a write may still take effect later.
    #[error(
        "{setting}: has not answered for {} s: its driver hangs; it is left alone until it answers",
        waited.as_secs_f64()
    )]
    Stuck {
        /// The setting.
        setting: Setting,
        /// Time waited for an answer.
        waited: Duration,
    },
}

/// Reads and writes settings.
pub trait Access {
    /// Returns the present value.
    ///
    /// # Errors
    /// [`AccessError`].
    fn read(&self, setting: &Setting) -> Result<String, AccessError>;
    /// Writes another value. Only a read shows the value that the driver accepted.
    ///
    /// # Errors
    /// [`AccessError`].
    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError>;
    /// Writes a value and reads the setting back, also after a failure: some drivers report one and
    /// still change something.
    fn set(
        &mut self,
        setting: &Setting,
        value: &str,
    ) -> (Result<(), AccessError>, Result<String, AccessError>) {
        (self.write(setting, value), self.read(setting))
    }
    /// Removes the remains of a killed process's write.
    fn tidy(&self, _: &Setting) {}
    /// Returns settings that have not answered yet, with the time since the request.
    fn stuck(&self) -> Vec<(Setting, Duration)> {
        Vec::new()
    }
}

/// The settings of a machine: this one, or a recorded tree. In a tree, the parameters of a network
/// card are files below the root, named as its [`Setting`] with a slash for the colon:
/// `ethtool/eth0/rx-usecs`.
#[derive(Debug, Clone)]
pub struct Machine {
    tree: Tree,
}

impl Machine {
    /// Opens the machine with the files in `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self { tree: tree.clone() }
    }

    /// Returns its files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl Access for Machine {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        if self.tree.is_live()
            && let Some(answer) = read_kernel(setting)
        {
            return answer.map_err(|error| AccessError::from_io(setting, &error));
        }
        self.tree.text(setting.path()).map_err(|error| match error {
            ReadError::Missing(_) => AccessError::Missing(setting.clone()),
            ReadError::NoPermission(_) => AccessError::NoPermission(setting.clone()),
            other => AccessError::Refused { setting: setting.clone(), reason: other.to_string() },
        })
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        let failed = |error: io::Error| AccessError::from_io(setting, &error);
        if self.tree.is_live()
            && let Some(answer) = write_kernel(setting, value)
        {
            return answer.map_err(failed);
        }
        let mut path = setting.path();
        if self.tree.is_live() && matches!(setting, Setting::Steering { .. }) {
            path = device_path(&path).map_err(failed)?;
        }
        self.tree.write(path, value).map_err(failed)
    }

    fn tidy(&self, setting: &Setting) {
        self.tree.discard_unfinished(setting.path());
    }
}

/// Follows the kernel's link from `/sys/class/net` to the device, which [`Tree::write`] does not.
fn device_path(path: &str) -> io::Result<String> {
    let real = std::fs::canonicalize(path)?;
    let real = real.to_str().filter(|real| real.starts_with("/sys/devices/"));
    real.map(str::to_owned).ok_or_else(|| io::Error::other("leads out of /sys/devices"))
}

/// Returns the value of a setting that is not a file.
fn read_kernel(setting: &Setting) -> Option<io::Result<String>> {
    Some(match setting {
        Setting::File(_) | Setting::Affinity { .. } | Setting::Steering { .. } => return None,
        Setting::Coalesce { interface, parameter } => {
            ethtool::coalesce(interface).map(|values| values.get(*parameter).to_string())
        }
        Setting::QueueCoalesce { interface, queue, parameter } => {
            let values = ethtool::queue_coalesce(interface, *queue);
            values.map(|values| values.get(*parameter).to_string())
        }
        Setting::IndirectionTable { interface } => {
            ethtool::indirection_table(interface).map(|table| table_text::to_text(&table.queues))
        }
        Setting::Channels { interface } => {
            ethtool::channels(interface).map(|channels| channels.combined.to_string())
        }
        Setting::Napi { interface, queue, setting } => {
            napi::get(interface, *queue, *setting).map(|value| value.to_string())
        }
    })
}

/// Writes a setting that is not a file.
fn write_kernel(setting: &Setting, value: &str) -> Option<io::Result<()>> {
    fn number<T: std::str::FromStr>(value: &str) -> io::Result<T> {
        value.parse().map_err(|_| io::Error::other(format!("{value:?} is not a number")))
    }
    Some(match setting {
        Setting::File(_) | Setting::Affinity { .. } | Setting::Steering { .. } => return None,
        Setting::Coalesce { interface, parameter } => {
            number(value).and_then(|value| ethtool::set_coalesce(interface, *parameter, value))
        }
        Setting::QueueCoalesce { interface, queue, parameter } => number(value)
            .and_then(|value| ethtool::set_queue_coalesce(interface, *queue, *parameter, value)),
        Setting::IndirectionTable { interface } => table_text::from_text(value)
            .ok_or_else(|| io::Error::other(format!("{value:?} is not an indirection table")))
            .and_then(|queues| {
                ethtool::set_indirection_table(interface, &ethtool::IndirectionTable { queues })
            }),
        Setting::Channels { interface } => {
            number(value).and_then(|value| ethtool::set_combined_channels(interface, value))
        }
        Setting::Napi { interface, queue, setting } => {
            number(value).and_then(|value| napi::set(interface, *queue, *setting, value))
        }
    })
}

impl AccessError {
    fn from_io(setting: &Setting, error: &std::io::Error) -> Self {
        let setting = setting.clone();
        match error.raw_os_error() {
            // ENOENT, ENODEV, ENXIO
            Some(2 | 19 | 6) => Self::Missing(setting),
            // EPERM, EACCES, EROFS
            Some(1 | 13 | 30) => Self::NoPermission(setting),
            // EOPNOTSUPP, and ENOTSUPP, which some drivers leak from the kernel.
            Some(95 | 524) => Self::Unsupported(setting),
            _ => Self::Refused { setting, reason: error.to_string() },
        }
    }
}
