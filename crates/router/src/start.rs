//! Router start in phases. Each phase gets the results of the phases before it, and everything is
//! opened and checked before the first packet is taken over.

mod inlets;
mod judged;
mod known;
mod opened;
mod planned;
mod running;
mod settled;

use super::Router;
use super::audit::Audit;
use super::configured::Configured;
use super::error::RouterError;
use super::inbox::InboxSender;
use super::platform::Platforms;
use super::power::{self, Power, check_steered};
use super::rates::RecentRates;
use super::takeover::ForwardPathMonitor;
use super::taps::watchers::Watchers;
use crate::application::Applications;
use crate::config::{Config, routes_file};
use crate::drivers;
use inlets::Inlets;
use judged::Judged;
use known::Known;
use opened::Opened;
pub use planned::plan_ports;
use settled::Settled;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use wattline_daemon::running::Identity;
use wattline_daemon::settings::LogLevel;
use wattline_daemon::settings::running::Running;
use wattline_daemon::socket::{Answer, Reply, Request};
use wattline_dataplane::port::PortId;
use wattline_linux::sysfs::Tree;
use wattline_policy::Registry;

/// A program's router extensions.
#[derive(Clone, Copy)]
pub struct Extensions {
    /// Applications in addition to plain forwarding.
    pub applications: Applications,
    /// Platforms of its governor.
    pub platforms: Platforms,
    /// Policies of its governor.
    pub policies: Registry,
}

impl Router {
    /// Finds mistakes that [`Router::start`] would refuse on any machine and that [`Config::load`]
    /// does not find.
    ///
    /// # Errors
    /// As for [`Router::start`].
    pub fn check(config: &Config) -> Result<(), RouterError> {
        if let Some(path) = &config.routes_file {
            routes_file::load(path, config)?;
        }
        power::check(config)?;
        check_steered(config)
    }

    /// Reads a configuration and starts the router that it describes, with the program's
    /// extensions. `set_log_level` is called at once and whenever the level changes.
    ///
    /// # Errors
    /// When any part fails; nothing stays attached or changed then.
    pub fn start(
        config_path: &Path,
        extensions: Extensions,
        set_log_level: Box<dyn Fn(LogLevel)>,
    ) -> Result<Self, RouterError> {
        let mut settled = Settled::read(
            config_path,
            extensions.applications,
            extensions.policies,
            &*set_log_level,
        )?;
        for refusal in drivers::refusals(&settled.config, &Tree::live()) {
            tracing::warn!("{refusal}");
        }
        let mut known = Known::learn(&settled)?;
        let mut judged = Judged::new(&settled, &known, extensions.applications)?;
        let mut opened = Opened::open(&settled, &mut known, &mut judged)?;
        check_steered(&settled.config)?;
        let plan = settled.plan.take();
        let mut power = plan
            .map(|plan| Power::open(plan, &settled.config, extensions.platforms))
            .transpose()?;
        let inlets = Inlets::open(&settled, &known, &judged)?;
        let workers = running::start_workers(
            &settled,
            &mut known,
            &mut judged,
            &mut opened,
            (&mut power, &inlets.inbox_sender),
        )?;
        let kernel_routes =
            running::take_over(&settled, &mut known, &judged, &mut opened, &workers)?;
        let Settled { config, sections, extra_routes, socket, surplus, .. } = settled;
        let Known { rib, routes, kernel, .. } = known;
        let control = inlets.serve(socket)?;
        if let Some(address) = config.metrics {
            serve_metrics(address, &control.inbox_sender)?;
        }
        for (number, port) in (0..).map(PortId).zip(&config.ports) {
            let is_left = |monitor: &ForwardPathMonitor| monitor.left(number).is_some();
            if !judged.monitor.as_ref().is_some_and(is_left) {
                tracing::info!("port {}: {}", port.name, opened.ports.mode(number));
            }
        }
        let identity = Identity {
            file: config_path.display().to_string(),
            running: Running::new(&config.text),
        };
        let audit = audit(&config, kernel.is_some())?;
        Ok(Self {
            configured: Configured {
                config,
                path: config_path.to_owned(),
                sections,
                extra_routes,
                set_log_level,
                needs_restart: Vec::new(),
                identity,
            },
            control,
            rib,
            routes,
            refused: 0,
            ports: opened.ports,
            kernel,
            monitor: judged.monitor,
            audit,
            tun: opened.tunnel.map(|tunnel| tunnel.name),
            kernel_routes,
            workers,
            surplus,
            applications: judged.applications,
            power,
            watchers: Watchers::default(),
            stopping: false,
            started: Instant::now(),
            rates: RecentRates::new(Instant::now()),
            cleared: None,
        })
    }
}

/// Creates the audit against the kernel's decisions, if the router follows the kernel's routes.
fn audit(config: &Config, has_kernel: bool) -> Result<Option<Audit>, RouterError> {
    let follows = has_kernel && config.router.kernel_routes;
    follows
        .then(|| Audit::new(config.router.audit, std::process::id().into(), Instant::now()))
        .transpose()
        .map_err(|source| RouterError::system("opening a netlink socket", source))
}

/// Serves the metrics endpoint.
fn serve_metrics(address: SocketAddr, inbox_sender: &InboxSender) -> Result<(), RouterError> {
    let inbox_sender = inbox_sender.clone();
    let metrics = move || match inbox_sender.ask(Request::Metrics)? {
        Reply::Answer(Answer::Ok(serde_json::Value::String(text))) => Some(text),
        _ => None,
    };
    let failed = format!("[metrics] listen = \"{address}\": listening there");
    let bound = wattline_daemon::metrics::http::serve(address, metrics)
        .map_err(|source| RouterError::system(failed, source))?;
    tracing::info!("metrics at http://{bound}/metrics");
    Ok(())
}
