//! The one writer of a machine's settings: journal first, then write, then read back. At the end,
//! everything is restored.

use crate::access::{Access, AccessError};
use crate::change::{Change, Knobs, Outcome, SetError};
use crate::devices;
use crate::journal::{self, Entry, Journal, JournalError};
use crate::namespace;
use crate::on_exit::{self, OnExit};
use crate::restore::{self, Report, Restored};
use crate::setting::Setting;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wattline_files::Directory;
use wattline_linux::sysfs::{ReadError, Tree};

/// Directory of journal and lock.
pub const STATE_DIRECTORY: &str = "/var/lib/wattline";
const LOCK: &str = "knobs.lock";

/// A session, or a restore, cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Another process changes settings.
    #[error("{}: process {holder} is changing this machine's settings; stop it first", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// The holder, if it has written its process ID.
        holder: String,
    },
    /// The state directory cannot be used.
    #[error("{}: {error}", path.display())]
    State {
        /// The directory, or a file in it.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel does not report the present boot.
    #[error(transparent)]
    Boot(#[from] ReadError),
    /// Changes of an earlier run have been undone, but their journal is still there; the next
    /// restore would undo them once more.
    #[error("the changes of an earlier run are undone, but its journal cannot be removed: {0}")]
    Left(String),
    /// Changes of an earlier run cannot be undone; starting would lose their old values.
    #[error(
        "{} settings of an earlier run cannot be restored:\n{}\nrepair them with `wattline restore`, \
         or remove {}",
        .0.failures().count(), lines(.0), .1.display()
    )]
    Unrestored(Report, PathBuf),
}

fn lines(report: &Report) -> String {
    report.failures().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Writes settings until dropped. Dropping it restores them, unless [`Self::set_on_exit`] says
/// otherwise.
pub struct Session<A: Access> {
    access: A,
    on_exit: OnExit,
    journal: Journal,
    state: State,
    over: bool,
    /// Time of the last write, reading back included.
    write_time: Duration,
}

/// Journal and lock of a machine.
struct State {
    directory: Directory,
    tree: Tree,
    boot: String,
    namespace: Option<u64>,
    // Held as long as this lives.
    lock: File,
}

impl Drop for State {
    /// Unlocks explicitly, as closing alone is not enough: a child that another thread has just
    /// forked shares the file until it runs its program.
    fn drop(&mut self) {
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl State {
    fn open(tree: &Tree, directory: &Path) -> Result<Self, SessionError> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error| SessionError::State { path, error }
        };
        let directory = tree.make_directory(directory).map_err(at(directory))?;
        let path = directory.path().join(LOCK);
        let mut lock = open_lock(&directory).map_err(at(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = (&lock).take(20).read_to_string(&mut holder);
            return Err(SessionError::Busy { path, holder: holder.trim().to_string() });
        }
        // Only for the message above; a full disk is no reason to restore nothing.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        let boot = tree.text("/proc/sys/kernel/random/boot_id")?;
        Ok(Self { directory, tree: tree.clone(), boot, namespace: namespace::present(tree), lock })
    }

    /// Returns the outcome for a setting in another network namespace: nothing is done here.
    /// Virtual interfaces have gone with the namespace.
    fn elsewhere(&self, entry: Entry) -> Option<restore::Line> {
        let namespace = entry.namespace?;
        let is_there = self.namespace.is_none() || namespace::exists(namespace);
        let result = if is_there { Restored::Elsewhere { namespace } } else { Restored::Gone };
        Some(restore::Line { setting: entry.setting, old: entry.old, result })
    }

    /// Undoes changes; those of an interface under its present name.
    fn undo(&self, access: &mut impl Access, entries: &[Entry]) -> Vec<restore::Line> {
        let (mut here, mut gone) = (Vec::new(), Vec::new());
        for entry in entries {
            let (setting, old) = (entry.setting.clone(), entry.old.clone());
            match devices::present(&self.tree, entry) {
                Some(entry) => here.push(entry),
                None => gone.push(restore::Line { setting, old, result: Restored::Gone }),
            }
        }
        let mut lines = restore::restore(access, &here);
        lines.extend(gone);
        lines
    }

    /// Undoes the changes in the journal, and removes it if all are undone.
    fn restore(&self, access: &mut impl Access) -> Result<Report, SessionError> {
        let contents = journal::read(&self.directory, &self.boot)?;
        let (here, others): (Vec<_>, Vec<_>) = (contents.entries.into_iter())
            .partition(|entry| entry.namespace.is_none() || entry.namespace == self.namespace);
        let mut lines = self.undo(access, &here);
        lines.extend(others.into_iter().filter_map(|entry| self.elsewhere(entry)));
        let mut report = Report {
            lines,
            outlived: contents.outlived,
            bad_lines: contents.bad_lines,
            journal_problem: None,
        };
        if report.failures().next().is_none() {
            let put_away = if report.bad_lines.is_empty() {
                journal::remove(&self.directory)
            } else {
                journal::put_aside(&self.directory)
            };
            report.journal_problem = put_away.err().map(|error| error.to_string());
        }
        Ok(report)
    }
}

/// Opens the lock file. An existing one can be opened on a read-only or full disk, too; without one
/// the directory is used: all later processes find the same.
fn open_lock(directory: &Directory) -> io::Result<File> {
    let name = Path::new(LOCK);
    let made = match directory.create_new(name, 0o644) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            directory.open_to_change(name)
        }
        made => made,
    };
    made.or_else(|error| match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull => {
            directory.open_file(name, OFlags::RDONLY).or_else(|_| directory.as_file())
        }
        _ => Err(error),
    })
}

/// Reads the journal below a state directory; empty without such a directory.
fn recorded(tree: &Tree, state: &Path) -> Result<journal::Contents, SessionError> {
    let boot = tree.text("/proc/sys/kernel/random/boot_id")?;
    match tree.directory(state) {
        Ok(directory) => Ok(journal::read(&directory, &boot)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(journal::Contents::default()),
        Err(error) => Err(SessionError::State { path: state.to_path_buf(), error }),
    }
}

/// Undoes the changes that an earlier run left behind.
///
/// # Errors
/// [`SessionError`]; single settings that fail are in the report.
pub fn restore_now(
    access: &mut impl Access,
    tree: &Tree,
    state: &Path,
) -> Result<Report, SessionError> {
    State::open(tree, state)?.restore(access)
}

/// Commands that have the effect of a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// Shell commands, in order.
    pub commands: Vec<String>,
    /// Invalid lines of the journal: their contents are missing in the commands.
    pub bad_lines: Vec<String>,
}

/// Returns the effect of a restore as shell commands; touches nothing and needs no lock.
///
/// # Errors
/// [`SessionError::State`], [`SessionError::Journal`], [`SessionError::Boot`].
pub fn restore_commands(tree: &Tree, state: &Path) -> Result<Commands, SessionError> {
    let contents = recorded(tree, state)?;
    let own = namespace::present(tree);
    let here = |entry: Entry| match entry.namespace {
        Some(other) if Some(other) != own => Some(entry),
        _ => devices::present(tree, &entry),
    };
    let entries: Vec<Entry> = contents.entries.into_iter().filter_map(here).collect();
    let commands = restore::commands(&entries, own);
    Ok(Commands { commands, bad_lines: contents.bad_lines })
}

/// Returns the changed settings in a journal.
pub(crate) fn changed(tree: &Tree, state: &Path) -> Result<Vec<Setting>, SessionError> {
    let contents = recorded(tree, state)?;
    Ok(contents.entries.into_iter().map(|entry| entry.setting).collect())
}

impl<A: Access> Session<A> {
    /// Takes the lock, undoes the changes that an earlier run left behind, and begins a new
    /// journal. The report lists the undone changes.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn begin(mut access: A, tree: &Tree, state: &Path) -> Result<(Self, Report), SessionError> {
        let state = State::open(tree, state)?;
        let report = state.restore(&mut access)?;
        if report.failures().next().is_some() {
            return Err(SessionError::Unrestored(report, journal::path(&state.directory)));
        }
        if let Some(problem) = report.journal_problem {
            return Err(SessionError::Left(problem));
        }
        let journal =
            Journal::create(&state.directory, &state.boot)?.belonging_to(tree, state.namespace);
        let on_exit = OnExit::default();
        Ok((
            Self { access, on_exit, journal, state, over: false, write_time: Duration::ZERO },
            report,
        ))
    }

    /// Returns the access through which settings are read and written.
    pub fn access(&self) -> &A {
        &self.access
    }

    /// Sets the state in which dropping this leaves the machine; restored by default.
    pub fn set_on_exit(&mut self, on_exit: OnExit) {
        self.on_exit = on_exit;
    }

    /// Sets one value.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn set(&mut self, setting: &Setting, value: &str) -> Result<Outcome, SetError> {
        if value.contains(char::is_control) {
            return Err(SetError::BadValue(setting.clone()));
        }
        let present = self.access.read(setting)?;
        if present.contains(char::is_control) {
            // Several lines: the attribute is no single value, so it could not be restored.
            return Err(SetError::BadValue(setting.clone()));
        }
        if self.journal.entry(setting).is_some_and(|entry| entry.unfinished) {
            // Written, but not read back in time: the present value is the outcome.
            self.journal.found(setting, &present)?;
        }
        if let Some(entry) = self.journal.entry(setting)
            && present != entry.old
            && !entry.own_values.contains(&present)
            && self.journal.is_in_place(entry)
        {
            return Ok(Outcome::Foreign { found: present });
        }
        if present == value {
            return Ok(Outcome::Unchanged);
        }
        let followers = self.followers(setting);
        self.journal.intend(setting, &present, value)?;
        let began = Instant::now();
        let (written, found) = self.access.set(setting, value);
        self.write_time = began.elapsed();
        if let Err(error) = self.note(&followers, setting, found.as_ref().ok()) {
            let _ = self.access.write(setting, &present);
            let back = self.access.read(setting).ok();
            // The journal fails again; the value counts in memory.
            let _ = self.note(&followers, setting, back.as_ref());
            return Err(SetError::NotRecorded { setting: setting.clone(), present: back, error });
        }
        written?;
        let found = found?;
        Ok(if found == value { Outcome::Written } else { Outcome::Altered { found } })
    }

    /// Records the outcome of a write: the value that `setting` shows, and those of its followers.
    fn note(
        &mut self,
        followers: &[Setting],
        setting: &Setting,
        found: Option<&String>,
    ) -> Result<(), JournalError> {
        let mut noted = Ok(());
        for follower in followers {
            if let Ok(found) = self.access.read(follower) {
                noted = noted.and(self.journal.found(follower, &found));
            }
        }
        found.map_or(Ok(()), |found| self.journal.found(setting, found)).and(noted)
    }

    /// Returns changed settings that still have their last value and that a write to `setting`
    /// moves: a governor takes speed and preference of its policy along. Their new values count as
    /// own ones, too. A governor that was put back has moved them already.
    fn followers(&self, setting: &Setting) -> Vec<Setting> {
        let mut moved = self.moved_by(setting).peekable();
        if moved.peek().is_none() {
            return Vec::new();
        }
        let put_back = self.journal.entry(setting).is_some_and(|entry| self.is_put_back(entry));
        let still_own = |entry: &&Entry| {
            let present = self.access.read(&entry.setting);
            present.is_ok_and(|now| now == entry.old || entry.own_values.contains(&now))
        };
        let moved = moved.filter(|entry| put_back || still_own(entry));
        moved.map(|entry| entry.setting.clone()).collect()
    }

    /// Returns the changed settings of the frequency policy whose governor this is.
    fn moved_by(&self, setting: &Setting) -> impl Iterator<Item = &Entry> {
        let policy = match setting {
            Setting::File(path) => path.strip_suffix("scaling_governor"),
            _ => None,
        };
        let of_policy = move |other: &Setting| {
            policy.is_some_and(|policy| {
                other != setting && matches!(other, Setting::File(path) if path.starts_with(policy))
            })
        };
        self.journal.entries().iter().filter(move |entry| of_policy(&entry.setting))
    }

    fn is_put_back(&self, entry: &Entry) -> bool {
        let changed = !entry.unfinished && entry.own_values.last() != Some(&entry.old);
        changed && self.access.read(&entry.setting).is_ok_and(|found| found == entry.old)
    }

    /// Returns the changes that set again the changed settings that show their original value,
    /// because another program wrote it or the driver restarted. A governor is followed by the
    /// settings that it moves.
    pub fn put_back(&self) -> Vec<Change> {
        let mut again: Vec<&Entry> = Vec::new();
        for entry in self.journal.in_place().filter(|entry| self.is_put_back(entry)) {
            for entry in std::iter::once(entry).chain(self.moved_by(&entry.setting)) {
                if !again.iter().any(|known| known.setting == entry.setting) {
                    again.push(entry);
                }
            }
        }
        let change = |entry: &Entry| {
            let why = format!("it was put back to {:?}", entry.old);
            let value = entry.own_values.last()?.clone();
            Some(Change { setting: entry.setting.clone(), value, why })
        };
        again.into_iter().filter_map(change).collect()
    }

    /// Returns changed settings that show neither their old value nor an own one. Unreadable
    /// settings are left out: their CPU or interface has gone.
    pub fn foreign(&self) -> Vec<(Setting, String)> {
        self.journal
            .in_place()
            .filter_map(|entry| {
                let found = self.access.read(&entry.setting).ok()?;
                let own = entry.unfinished || entry.own_values.contains(&found);
                let foreign = found != entry.old && !own;
                foreign.then(|| (entry.setting.clone(), found))
            })
            .collect()
    }

    /// Makes changes in order; one that fails does not stop the others.
    pub fn apply(&mut self, changes: &[Change]) -> Vec<Result<Outcome, SetError>> {
        changes.iter().map(|change| self.set(&change.setting, &change.value)).collect()
    }

    /// Ends the session and restores everything; settings that fail are in the report.
    pub fn finish(mut self) -> Report {
        self.over = true;
        self.restore()
    }

    /// Ends the session and leaves the machine according to [`Self::set_on_exit`]; the journal of
    /// unrestored settings stays.
    ///
    /// # Errors
    /// [`SessionError`]; single settings that fail are in the report.
    pub fn leave(mut self) -> Result<Report, SessionError> {
        self.over = true;
        self.leave_as_asked()
    }

    /// Ends the session and leaves everything as it is; the journal stays, so that
    /// `wattline restore` and the next session can still undo it.
    pub fn keep(mut self) {
        self.over = true;
        // No caller is left for an error; the contents of the file are undone in any case.
        let _ = self.journal.settle();
    }
}

impl<A: Access> Session<A> {
    fn leave_as_asked(&mut self) -> Result<Report, SessionError> {
        match self.on_exit {
            OnExit::Restore => Ok(self.restore()),
            OnExit::Keep => Ok(self.journal.settle().map(|()| Report::default())?),
            OnExit::Performance => self.leave_fast(),
        }
    }

    /// Undoes the changes in memory, whatever the state of the file, and removes the file if all
    /// are undone.
    fn restore(&mut self) -> Report {
        let lines = self.state.undo(&mut self.access, self.journal.entries());
        let mut report = Report { lines, ..Report::default() };
        let journal = if report.failures().next().is_none() {
            journal::remove(&self.state.directory)
        } else {
            self.journal.settle()
        };
        report.journal_problem = journal.err().map(|error| error.to_string());
        report
    }

    /// Restores, then brings the CPUs with changed frequencies to their fastest; this is in a new
    /// journal, which stays.
    fn leave_fast(&mut self) -> Result<Report, SessionError> {
        let settings: Vec<Setting> =
            self.journal.entries().iter().map(|entry| entry.setting.clone()).collect();
        let report = self.restore();
        if report.failures().next().is_some() || report.journal_problem.is_some() {
            // The journal of unrestored settings must not be overwritten.
            return Ok(report);
        }
        let State { directory, boot, namespace, tree, .. } = &self.state;
        self.journal = Journal::create(directory, boot)?.belonging_to(tree, *namespace);
        let changes = on_exit::fastest(tree, &on_exit::policies(&settings));
        self.apply(&changes);
        Ok(report)
    }
}

impl<A: Access + Send> Knobs for Session<A> {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.access.read(setting)
    }

    fn take(&mut self, change: &Change) -> Result<Outcome, SetError> {
        self.set(&change.setting, &change.value)
    }

    fn foreign(&self) -> Vec<(Setting, String)> {
        Session::foreign(self)
    }

    fn put_back(&self) -> Vec<Change> {
        Session::put_back(self)
    }

    fn stuck(&self) -> Vec<(Setting, Duration)> {
        self.access.stuck()
    }

    fn write_time(&self) -> Duration {
        self.write_time
    }
}

impl<A: Access> Drop for Session<A> {
    fn drop(&mut self) {
        if !self.over {
            // No caller is left for an error; the journal of unrestored settings stays.
            let _ = self.leave_as_asked();
        }
    }
}

#[cfg(test)]
mod faults;
