//! The configuration that a router follows.

use super::config::{ApplicationSection, Config, RouteSettings};
use super::statics::{self, PortLinks};
use std::path::PathBuf;
use wattline_daemon::running::Identity;
use wattline_daemon::settings::LogLevel;
use wattline_rib::Rib;

/// The configuration in force, and its sources.
pub(super) struct Configured {
    pub config: Config,
    pub path: PathBuf,
    /// The sections of applications that may appear in it.
    pub sections: Vec<&'static ApplicationSection>,
    /// Routes from the file that it names.
    pub extra_routes: Vec<RouteSettings>,
    pub set_log_level: Box<dyn Fn(LogLevel)>,
    /// Parts of the configuration, as last read, that take effect only after a restart.
    pub needs_restart: Vec<&'static str>,
    /// Its identity for users.
    pub identity: Identity,
}

impl Configured {
    /// Returns the parts that need a restart, for a report.
    pub fn pending(&self) -> Vec<String> {
        self.needs_restart.iter().map(|part| (*part).to_owned()).collect()
    }

    /// Replaces the static routes and neighbours in a table by those of the configuration.
    pub fn apply_statics(&self, rib: &mut Rib, links: &PortLinks) {
        statics::apply(rib, &self.config, &self.extra_routes, links);
    }
}
