//! This machine as what a governor drives, with a watchdog beside it.

use super::error::RouterError;
use super::queues::Interface;
use super::workers::Workers;
use crate::config::Config;
use crate::governor::host::{Host, HostOptions, Status, Watchdog};
use crate::privileges::Rights;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_kernel::sysfs::Tree;
use wattline_knobs::{Machine as Settings, STATE_DIRECTORY, Session, SessionError};

/// This machine.
pub(super) type ThisMachine = Host<Session<Settings>>;

/// What belongs to a governed machine beside its governor.
pub(super) struct Beside {
    status: Arc<Mutex<Status>>,
    watchdog: Watchdog,
}

impl Beside {
    /// What the machine has to tell.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets the watchdog go; only after the machine is in order.
    pub fn dismiss(self) {
        self.watchdog.dismiss();
    }
}

/// Takes this machine over: undoes what an earlier run left behind, looks at what there is, and
/// starts the watchdog. Nothing is changed yet.
///
/// # Errors
/// When another process governs it, or it cannot be governed.
pub(super) fn take_over(
    config: &Config,
    interfaces: &[Interface],
    workers: &Workers,
) -> Result<(ThisMachine, Beside), RouterError> {
    let (tree, state, on_exit) = (Tree::live(), Path::new(STATE_DIRECTORY), config.power.on_exit);
    let (mut session, report) =
        Session::begin(Settings::new(&tree), &tree, state).map_err(refused)?;
    for line in &report.lines {
        tracing::info!("left behind by an earlier run: {line}");
    }
    session.set_on_exit(on_exit);
    let queues = |port: usize| {
        let found = interfaces.iter().find(|interface| usize::from(interface.port.0) == port);
        found.map_or(1, |found| found.queues)
    };
    // Of this thread as it is now: what is not needed has been given up.
    let options = HostOptions::of(config, &tree, Rights::present(), queues);
    let host = Host::new(options, session, Box::new(workers.reins()))
        .map_err(|error| RouterError::Unfit(format!("[power] {error}")))?;
    let watchdog = std::env::current_exe()
        .and_then(|program| Watchdog::start(&program, Path::new("/"), on_exit))
        .map_err(|error| RouterError::system("starting the watchdog of [power]", error))?;
    tracing::info!("this machine is governed; watchdog process {}", watchdog.process());
    let status = host.status();
    Ok((host, Beside { status, watchdog }))
}

fn refused(error: SessionError) -> RouterError {
    match error {
        SessionError::Busy { .. } => RouterError::Unfit(format!("[power] {error}")),
        other => RouterError::system("[power]", std::io::Error::other(other)),
    }
}
