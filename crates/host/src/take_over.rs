//! Takes this machine over for a governor, with a watchdog process, and gives it back.

use super::{Host, HostOptions, Status, Watchdog, Workers};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_governor::Governor;
use wattline_governor::runner::Runner;
use wattline_knobs::restore::{Line, Report, Restored};
use wattline_knobs::{
    Access, Bounded, Machine as Settings, OnExit, STATE_DIRECTORY, Session, SessionError,
};
use wattline_policy::{PlatformError, SpecError};

/// This machine, with journaled knobs.
pub type ThisMachine = Host<Session<Bounded<Settings>>>;

/// Reason why the machine cannot be governed, or was not restored completely.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// Its settings cannot be taken over or restored. [`SessionError::Busy`]: another process
    /// governs the machine.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// No policy can govern this platform.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The policy cannot work on this platform.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// The watchdog process, which restores the machine if this process dies, cannot be started.
    #[error(transparent)]
    Watchdog(io::Error),
    /// Some of its settings could not be restored.
    #[error(
        "{} settings of this machine could not be restored:\n{}\n`wattline restore` undoes them \
         once their drivers answer",
        .0.failures().count(),
        .0.failures().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    )]
    Unrestored(Report),
}

/// Trouble of a machine whose watchdog was killed.
const UNGUARDED: &str = "the watchdog process was ended by another program: if this process is \
                         killed, its settings stay until `wattline restore` or the next start; \
                         restart to be guarded again";

/// Status and watchdog of a governed machine.
pub struct Supervision {
    status: Arc<Mutex<Status>>,
    watchdog: Mutex<Watchdog>,
}

impl Supervision {
    /// Returns the machine's present status.
    pub fn status(&self) -> Status {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.watchdog.lock().unwrap_or_else(PoisonError::into_inner).has_ended() {
            status.troubles.push(UNGUARDED.to_owned());
        }
        status
    }

    fn into_watchdog(self) -> Watchdog {
        self.watchdog.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes this machine over: restores what an earlier run left changed, surveys knobs and meters,
/// and starts the watchdog, which applies `on_exit` if this process dies. Changes no setting yet.
///
/// # Errors
/// When another process governs the machine, or it cannot be governed.
pub fn take_over(
    options: HostOptions,
    on_exit: OnExit,
    workers: Box<dyn Workers>,
) -> Result<(ThisMachine, Supervision), TakeOverError> {
    let access = Bounded::new(Settings::new(&options.tree));
    let (machine, (), supervision) = take_over_by(access, options, on_exit, workers, |_| Ok(()))?;
    Ok((machine, supervision))
}

/// [`take_over`] by an access that knows which settings hang already, for a policy that is made
/// before the watchdog starts: an unsuitable policy leaves no trace. The caller bounds the wait for
/// settings that hang ([`Bounded::hurry`]).
///
/// # Errors
/// As [`take_over`], and [`TakeOverError::Policy`].
pub fn take_over_by<P>(
    access: Bounded<Settings>,
    options: HostOptions,
    on_exit: OnExit,
    workers: Box<dyn Workers>,
    policy: impl FnOnce(&mut ThisMachine) -> Result<P, SpecError>,
) -> Result<(ThisMachine, P, Supervision), TakeOverError> {
    let tree = options.tree.clone();
    let (root, state) = (tree.path("/"), tree.path(STATE_DIRECTORY));
    let (session, report) = Session::begin(access, &tree, &state)?;
    for line in &report.lines {
        tracing::warn!("restored from an earlier run: {line}");
    }
    for line in &report.bad_lines {
        tracing::warn!(
            "journal of an earlier run, {line}; the journal is kept as knobs.journal.damaged. \
             Settings that it names may still have values of that run"
        );
    }
    let mut host = Host::new(options, session, workers)?;
    host.knobs().access().hurry(true);
    let watchdog =
        || Watchdog::start(Path::new(OWN_PROGRAM), &root, on_exit).map_err(TakeOverError::Watchdog);
    let begun =
        policy(&mut host).map_err(TakeOverError::Policy).and_then(|it| Ok((it, watchdog()?)));
    // They explain why a policy does not fit; a watchdog that does not start is retried.
    if !matches!(begun, Err(TakeOverError::Watchdog(_))) {
        host.survey.notes.iter().for_each(|note| tracing::info!("not governed: {note}"));
    }
    let (policy, watchdog) = begun?;
    // No write before now could have left a value behind.
    host.writes.knobs.set_on_exit(on_exit);
    tracing::info!("this machine is governed; watchdog process {}", watchdog.process());
    let status = host.status();
    Ok((host, policy, Supervision { status, watchdog: Mutex::new(watchdog) }))
}

/// Program of this process. The name from [`std::env::current_exe`] no longer exists once a newer
/// file has replaced the program.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Reason for giving a machine back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// This process ends: the machine is left according to `on_exit`, and there is time.
    Final,
    /// This process goes on and will take the machine over again: the machine is restored in a
    /// hurry.
    Pause,
}

/// Ends the governor and leaves the machine according to the kind of end.
///
/// # Errors
/// [`TakeOverError::Unrestored`] when some settings could not be restored. The journal stays, and
/// the watchdog tries once more when this process has ended.
pub fn give_back(
    runner: Runner<ThisMachine>,
    supervision: Supervision,
    ending: Ending,
) -> Result<(), TakeOverError> {
    hand_back(runner.end().map(Governor::into_machine), supervision, ending)
}

/// [`give_back`] for a machine whose governor has ended; `machine` is `None` if another thread
/// still holds the governor.
///
/// # Errors
/// As [`give_back`].
pub fn hand_back(
    machine: Option<ThisMachine>,
    supervision: Supervision,
    ending: Ending,
) -> Result<(), TakeOverError> {
    // A machine that another thread still holds is restored when that thread drops it.
    let left = machine.map_or(Ok(()), |machine| {
        let mut session = machine.into_knobs();
        session.access().hurry(ending == Ending::Pause);
        if ending == Ending::Pause {
            session.set_on_exit(OnExit::Restore);
        }
        leave(session)
    });
    match left {
        Ok(()) => supervision.into_watchdog().dismiss(),
        Err(_) => supervision.into_watchdog().leave_the_rest(),
    }
    left
}

fn leave<A: Access>(session: Session<A>) -> Result<(), TakeOverError> {
    let report = session.leave()?;
    let left = |line: &&Line| matches!(line.result, Restored::Foreign { .. } | Restored::Gone);
    for line in report.lines.iter().filter(left) {
        tracing::warn!("{line}");
    }
    if let Some(problem) = &report.journal_problem {
        tracing::warn!("cannot remove the journal of this run: {problem}");
    }
    let complete = report.failures().next().is_none();
    if complete { Ok(()) } else { Err(TakeOverError::Unrestored(report)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wattline_knobs::Setting;
    use wattline_linux::sysfs::Tree;

    /// A pipe without a reader acts as the file of a driver that hangs. The other file gets the
    /// same time limit, because a write may be slow on a busy machine.
    #[test]
    fn unrestorable_setting_is_named_and_stays_in_the_journal() {
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
        assert!(matches!(error, TakeOverError::Unrestored(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("cpu0/hung") && text.contains("wattline restore"), "{text}");
        assert_eq!(tree.text(file("well")).unwrap(), "1");
        assert!(state.join("knobs.journal").exists());
    }
}
