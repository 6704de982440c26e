//! The configuration of a daemon, for display.

use crate::settings::running::{Running, Setting};
use crate::settings::{Key, Section};
use wattline_status::{ConfigSetting, ConfigTable, VersionEntry};

/// Answers to `show version` and `show config`.
#[derive(Debug, Default)]
pub struct Identity {
    /// Configuration file; empty if there is none.
    pub file: String,
    /// Its settings.
    pub running: Running,
}

impl Identity {
    /// Returns the answer to `show version`.
    pub fn version(&self, uptime_seconds: f64, needs_restart: &[&str]) -> VersionEntry {
        let kernel = rustix::system::uname();
        VersionEntry {
            file: self.file.clone(),
            process: std::process::id(),
            uptime_seconds,
            kernel: kernel.release().to_string_lossy().into_owned(),
            needs_restart: owned(needs_restart),
            ..VersionEntry::default()
        }
    }

    /// Returns the answer to `show config`, with the given keys and the sections that apply without
    /// being in the file.
    pub fn config(
        &self,
        keys: &[&Key],
        always: impl Fn(Section) -> bool,
        needs_restart: &[&str],
    ) -> ConfigTable {
        let all = |settings: Vec<Setting>| settings.into_iter().map(setting).collect();
        ConfigTable {
            file: self.file.clone(),
            settings: all(self.running.in_force(keys, always)),
            waiting: all(self.running.waiting(keys)),
            needs_restart: owned(needs_restart),
            ..ConfigTable::default()
        }
    }
}

fn setting(setting: Setting) -> ConfigSetting {
    let Setting { section, place, key, value, is_default } = setting;
    ConfigSetting { section, place, key, value, is_default }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
