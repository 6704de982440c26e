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
    /// The sections that may stand in it beside the router's own.
    pub sections: Vec<&'static ApplicationSection>,
    /// Routes from the file that it names.
    pub extra_routes: Vec<RouteSettings>,
    pub set_log_level: Box<dyn Fn(LogLevel)>,
    /// Parts of it, as last read, that are not in force before a restart.
    pub needs_restart: Vec<&'static str>,
    /// The same as people see it.
    pub identity: Identity,
}

impl Configured {
    /// Returns the parts that need a restart, for a report.
    pub fn pending(&self) -> Vec<String> {
        self.needs_restart.iter().map(|part| (*part).to_owned()).collect()
    }

    /// Has a table of routes and neighbours know those of the configuration as they are now.
    pub fn apply_statics(&self, rib: &mut Rib, links: &PortLinks) {
        statics::apply(rib, &self.config, &self.extra_routes, links);
    }
}
