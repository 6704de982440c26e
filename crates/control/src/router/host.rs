//! This machine as what a governor drives, with a watchdog beside it.

use super::error::RouterError;
use super::queues::Interface;
use super::workers::Workers;
use crate::config::Config;
use crate::governor::host::{Host, HostOptions, Status, Watchdog};
use crate::governor::runner::Runner;
use crate::privileges::Rights;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_kernel::sysfs::Tree;
use wattline_knobs::restore::{Line, Restored};
use wattline_knobs::{
    Access, Bounded, Machine as Settings, STATE_DIRECTORY, Session, SessionError,
};

/// This machine.
pub(super) type ThisMachine = Host<Session<Bounded<Settings>>>;

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
        Session::begin(Bounded::new(Settings::new(&tree)), &tree, state).map_err(refused)?;
    for line in &report.lines {
        tracing::info!("left behind by an earlier run: {line}");
    }
    for line in &report.bad_lines {
        tracing::warn!(
            "journal of an earlier run, {line}; it is kept as knobs.journal.damaged. Settings that \
             it names may still have values of that run"
        );
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
    host.knobs().access().hurry(true);
    let watchdog = std::env::current_exe()
        .and_then(|program| Watchdog::start(&program, Path::new("/"), on_exit))
        .map_err(|error| RouterError::system("starting the watchdog of [power]", error))?;
    tracing::info!("this machine is governed; watchdog process {}", watchdog.process());
    let status = host.status();
    Ok((host, Beside { status, watchdog }))
}

/// Ends the governor and leaves the machine as the configuration says.
///
/// # Errors
/// [`RouterError::Unrestored`] when some of it could not be: the journal stays, and the watchdog
/// tries once more when this process has gone.
pub(super) fn give_back(runner: Runner<ThisMachine>, beside: Beside) -> Result<(), RouterError> {
    // After a panic the session has restored what it could without a word.
    let left = runner.end().map_or(Ok(()), |governor| {
        let session = governor.into_machine().into_knobs();
        session.access().hurry(false);
        leave(session)
    });
    match left {
        Ok(()) => beside.watchdog.dismiss(),
        Err(_) => beside.watchdog.leave_the_rest(),
    }
    left
}

fn leave<A: Access>(session: Session<A>) -> Result<(), RouterError> {
    let report = session.leave().map_err(refused)?;
    let foreign = |line: &&Line| matches!(line.result, Restored::Foreign { .. });
    for line in report.lines.iter().filter(foreign) {
        tracing::warn!("{line}");
    }
    if let Some(problem) = &report.journal_problem {
        tracing::warn!("the journal of this run stays: {problem}");
    }
    let complete = report.failures().next().is_none();
    if complete { Ok(()) } else { Err(RouterError::Unrestored(report)) }
}

fn refused(error: SessionError) -> RouterError {
    match error {
        SessionError::Busy { .. } => RouterError::Unfit(format!("[power] {error}")),
        other => RouterError::system("[power]", std::io::Error::other(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Remedy;
    use super::*;
    use std::time::Duration;
    use wattline_knobs::Setting;

    /// A pipe that nobody reads stands for the file of a driver that hangs. The other file is waited
    /// for as long: on a crowded machine it takes its time.
    #[test]
    fn what_cannot_be_given_back_is_named_and_stays_in_the_journal() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let file = |name: &str| format!("/sys/devices/system/cpu/cpu0/{name}");
        let write = |path: &str, value: &str| {
            let path = tree.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        };
        write("/proc/sys/kernel/random/boot_id", "b");
        write(&file("well"), "1");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.path(file("hung")), mode).unwrap();
        let access = Bounded::within(Settings::new(&tree), Duration::from_secs(1));
        let state = tree.path("/var/lib/wattline");
        let (mut session, _) = Session::begin(access, &tree, &state).unwrap();
        let setting = |name: &str| file(name).parse::<Setting>().unwrap();
        session.set(&setting("well"), "2").unwrap();
        session.set(&setting("hung"), "2").unwrap_err();
        let error = leave(session).unwrap_err();
        assert_eq!(error.remedy(), Remedy::System);
        let text = error.to_string();
        assert!(text.contains("cpu0/hung") && text.contains("wattline restore"), "{text}");
        assert_eq!(tree.text(file("well")).unwrap(), "1");
        assert!(state.join("knobs.journal").exists());
    }
}
