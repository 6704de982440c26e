//! A governor for the router: this machine's knobs under the policy of the `[power]` section.

use super::error::RouterError;
use super::queues::Interface;
use super::workers::Workers;
use crate::config::{Config, PowerPlatform};
use crate::governor::Governor;
use crate::governor::account::Interval;
use crate::governor::host::{Governing, Host, HostOptions, Layout, Status, Watchdog};
use crate::governor::ledger::Entry;
use crate::governor::machine::Machine;
use serde::Serialize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_kernel::sysfs::Tree;
use wattline_knobs::{Machine as Settings, STATE_DIRECTORY, Session, SessionError};
use wattline_policy::{BuildContext, OperatingPoint, PolicySpec, build};
use wattline_ports::afxdp::Options;
use wattline_units::Time;

/// A running governor; dropping it leaves the machine as the configuration says.
pub(super) struct PowerGovernor {
    governing: Governing<Host<Session<Settings>>>,
    status: Arc<Mutex<Status>>,
    watchdog: Option<Watchdog>,
}

/// What a governor says of itself.
#[derive(Debug, Serialize)]
pub(super) struct PowerReport {
    platform: &'static str,
    policy: &'static str,
    /// Since the start.
    #[serde(flatten)]
    interval: Interval,
    operating_point: OperatingPoint,
    steps: Vec<Entry>,
    #[serde(flatten)]
    status: Status,
}

impl PowerGovernor {
    /// Starts it, where the configuration asks for one.
    pub fn start(
        config: &Config,
        interfaces: &[Interface],
        workers: &Workers,
    ) -> Result<Option<Self>, RouterError> {
        let power = &config.power;
        match power.platform {
            PowerPlatform::None => return Ok(None),
            PowerPlatform::Host => {}
        }
        let unfit = |error: &dyn std::fmt::Display| RouterError::Unfit(format!("[power] {error}"));
        let spec = PolicySpec::parse(&power.policy).map_err(|error| unfit(&error))?;
        let tree = Tree::live();
        let state = Path::new(STATE_DIRECTORY);
        let (mut session, report) =
            Session::begin(Settings::new(&tree), &tree, state).map_err(refused)?;
        for line in &report.lines {
            tracing::info!("left behind by an earlier run: {line}");
        }
        session.set_on_exit(power.on_exit);
        let options = options(config, interfaces, tree);
        let host = Host::new(options, session, Box::new(workers.reins()))
            .map_err(|error| unfit(&error))?;
        let context =
            BuildContext { platform: host.platform(), server: None, packet: None, seed: 0 };
        let policy = build(&spec, &context).map_err(|error| unfit(&error))?;
        let watchdog = std::env::current_exe()
            .and_then(|program| Watchdog::start(&program, Path::new("/"), power.on_exit))
            .map_err(|error| RouterError::system("starting the watchdog of [power]", error))?;
        tracing::info!("governor {spec}, watchdog process {}", watchdog.process());
        let status = host.status();
        let governing = Governing::start(Governor::new(host, policy), power.sample)
            .map_err(|error| RouterError::system("starting the governor", error))?;
        Ok(Some(Self { governing, status, watchdog: Some(watchdog) }))
    }

    /// What it says of itself; `None` when it has ended, which is a defect.
    pub fn report(&self) -> Option<PowerReport> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.governing.ask(|governor| {
            let now = governor.now();
            let totals = governor.totals(now);
            let mut start = totals.clone();
            (start.at, start.own, start.machine) =
                (Time::ZERO, Default::default(), Default::default());
            // Energy counts from the start, too: nothing had been drawn.
            start.machine.energy = totals.machine.energy.since(&totals.machine.energy);
            PowerReport {
                platform: "host",
                policy: governor.policy_name(),
                interval: Interval::between(&start, &totals),
                operating_point: governor.point().clone(),
                steps: governor.ledger().entries().cloned().collect(),
                status,
            }
        })
    }

    /// Ends it: the machine is left as the configuration says, and the watchdog goes.
    pub fn end(self) {
        let Self { governing, watchdog, .. } = self;
        drop(governing);
        if let Some(watchdog) = watchdog {
            watchdog.dismiss();
        }
    }
}

/// What the platform is made from.
fn options(config: &Config, interfaces: &[Interface], tree: Tree) -> HostOptions {
    let queues = |port: usize| {
        let found = interfaces.iter().find(|interface| usize::from(interface.port.0) == port);
        found.map_or(1, |found| found.queues)
    };
    HostOptions {
        tree,
        layout: Layout::of(config, queues),
        ring_size: Some(Options::default().ring as usize),
        busy_poll: config.router.busy_poll,
        meters: true,
    }
}

fn refused(error: SessionError) -> RouterError {
    match error {
        SessionError::Busy { .. } => RouterError::Unfit(format!("[power] {error}")),
        other => RouterError::system("[power]", std::io::Error::other(other)),
    }
}
