//! First phase: the configuration, checked against this machine before anything is opened.

use super::super::cpu;
use super::super::error::RouterError;
use super::super::platform::Plan;
use super::super::surplus::Surplus;
use crate::application;
use crate::config::{ApplicationSection, Config, RouteSettings, routes_file};
use std::path::Path;
use wattline_daemon::settings::LogLevel;
use wattline_daemon::socket::{self, Server};
use wattline_linux::privileges;
use wattline_policy::Registry;

/// A configuration that this process may run.
pub(super) struct Settled {
    pub config: Config,
    pub sections: Vec<&'static ApplicationSection>,
    /// Routes from the file that the configuration names.
    pub extra_routes: Vec<RouteSettings>,
    pub plan: Option<Plan>,
    pub socket: Server,
    /// Workers that are not started.
    pub surplus: Option<Surplus>,
    /// True if interfaces of the kernel are ports.
    pub has_interfaces: bool,
}

impl Settled {
    /// Reads the configuration, sets the log level, and binds the control socket.
    ///
    /// # Errors
    /// When the configuration is wrong, capabilities are missing, or another router has the socket.
    pub fn read(
        config_path: &Path,
        applications: application::Applications,
        policies: Registry,
        set_log_level: &dyn Fn(LogLevel),
    ) -> Result<Self, RouterError> {
        let sections = application::sections(applications);
        let mut config = Config::load(config_path, &sections, policies)?;
        let extra_routes = match &config.routes_file {
            Some(path) => routes_file::load(path, &config)?,
            None => Vec::new(),
        };
        let plan = Plan::read(&config)?;
        set_log_level(config.log_level);
        config.notes.iter().for_each(|note| tracing::warn!("{note}"));
        let has_interfaces = config.ports.iter().any(|port| port.kind.taken_over().is_some());
        let missing = if has_interfaces { privileges::missing() } else { Vec::new() };
        if !missing.is_empty() {
            return Err(RouterError::Capabilities(missing));
        }
        let path =
            config.router.socket.clone().unwrap_or_else(|| socket::default_path(config_path));
        let socket = Server::bind(&path).map_err(|error| {
            RouterError::system("making the control socket", std::io::Error::other(error))
        })?;
        let surplus = Surplus::take_from(&mut config);
        if let Some(surplus) = &surplus {
            tracing::warn!("{}", surplus.because);
        }
        // Only for the remaining workers: the CPUs of others are not needed.
        if let Some(unusable) = cpu::unusable(&config) {
            return Err(RouterError::Unfit(unusable));
        }
        Ok(Self { config, sections, extra_routes, plan, socket, surplus, has_interfaces })
    }
}
