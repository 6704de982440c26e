//! Undoes the changes in a journal.

use crate::access::{Access, AccessError};
use crate::journal::Entry;
use crate::setting::Setting;
use serde::Serialize;
use std::fmt;

/// Limits of a frequency depend on each other: the lower one cannot be raised above an upper one
/// that is still to be restored. No chain of settings is longer than this.
const MOST_PASSES: usize = 4;

/// Result of restoring one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Restored {
    /// The setting has its old value again.
    Restored,
    /// The setting had its old value already.
    Untouched,
    /// Another program has changed the setting since: left unchanged.
    Foreign {
        /// Its present value.
        found: String,
    },
    /// The CPU or interface has gone, and the change with it.
    Gone,
    /// The interface is in another network namespace; another one with its name may be here.
    Elsewhere {
        /// The inode of that namespace's file.
        namespace: u64,
    },
    /// The old value was written, but the setting shows another one.
    Altered {
        /// Its present value.
        found: String,
    },
    /// The setting could not be read or written.
    Failed {
        /// The reason.
        reason: String,
        /// True if a permission is missing.
        permission: bool,
    },
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The setting.
    pub setting: Setting,
    /// The value that it had before Wattline.
    pub old: String,
    /// Its result.
    #[serde(flatten)]
    pub result: Restored,
}

/// Report of a restore, in the order of its writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// A line per setting.
    pub lines: Vec<Line>,
    /// Changes that ended with an earlier boot.
    pub outlived: usize,
    /// Invalid lines of the journal.
    pub bad_lines: Vec<String>,
    /// Error of removing the journal after its settings were restored, or of updating it otherwise.
    pub journal_problem: Option<String>,
}

impl Report {
    /// Returns settings that were not restored to their old value.
    pub fn failures(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| {
            matches!(
                line.result,
                Restored::Failed { .. } | Restored::Altered { .. } | Restored::Elsewhere { .. }
            )
        })
    }

    /// Returns true if everything was restored: no failure, no foreign change, no bad line, no
    /// journal left.
    pub fn is_clean(&self) -> bool {
        self.bad_lines.is_empty()
            && self.journal_problem.is_none()
            && self.lines.iter().all(|line| {
                matches!(line.result, Restored::Restored | Restored::Untouched | Restored::Gone)
            })
    }
}

/// Restores the old value of every setting, the last changed first.
pub fn restore(access: &mut impl Access, entries: &[Entry]) -> Vec<Line> {
    entries.iter().for_each(|entry| access.tidy(&entry.setting));
    let mut lines: Vec<(&Entry, Restored)> =
        entries.iter().rev().map(|entry| (entry, restore_one(access, entry, false))).collect();
    for _ in 1..MOST_PASSES {
        let mut better = false;
        for (entry, result) in &mut lines {
            if !matches!(result, Restored::Failed { .. } | Restored::Altered { .. }) {
                continue;
            }
            // Leftovers of the first try count as own values, too.
            let again = restore_one(access, entry, true);
            better |= again != *result;
            *result = again;
        }
        if !better {
            break;
        }
    }
    // Restoring one setting can move another that is restored already: the governor `performance`
    // takes the preference along, as it did before Wattline. One more try for settings moved by
    // accident. If it is refused, the setting that locks this one has its own old value.
    for (entry, result) in &mut lines {
        if *result == Restored::Restored
            && access.read(&entry.setting).is_ok_and(|found| found != entry.old)
        {
            let _ = access.write(&entry.setting, &entry.old);
        }
    }
    lines
        .into_iter()
        .map(|(entry, result)| Line {
            setting: entry.setting.clone(),
            old: entry.old.clone(),
            result,
        })
        .collect()
}

fn restore_one(access: &mut impl Access, entry: &Entry, own_anyway: bool) -> Restored {
    let found = match access.read(&entry.setting) {
        Ok(found) => found,
        Err(error) => return Restored::from_error(&error),
    };
    if found == entry.old {
        return Restored::Untouched;
    }
    // A write was interrupted before it was read back: the driver may have altered the value.
    if !(own_anyway || entry.unfinished || entry.own_values.contains(&found)) {
        return Restored::Foreign { found };
    }
    if let Err(error) = access.write(&entry.setting, &entry.old) {
        return Restored::from_error(&error);
    }
    match access.read(&entry.setting) {
        Ok(found) if found == entry.old => Restored::Restored,
        Ok(found) => Restored::Altered { found },
        Err(error) => Restored::from_error(&error),
    }
}

/// Returns shell commands that restore everything, in the right order, for a user to paste in a
/// network namespace; commands for other namespaces are comments.
pub fn commands(entries: &[Entry], namespace: Option<u64>) -> Vec<String> {
    let command = |entry: &Entry| {
        let command = entry.setting.command(&entry.old);
        match entry.namespace.filter(|of| Some(*of) != namespace) {
            Some(other) => format!("# in network namespace net:[{other}]: {command}"),
            None => command,
        }
    };
    entries.iter().rev().map(command).collect()
}

impl Restored {
    fn from_error(error: &AccessError) -> Self {
        match error {
            AccessError::Missing(_) => Self::Gone,
            AccessError::NoPermission(_) => {
                Self::Failed { reason: error.to_string(), permission: true }
            }
            AccessError::Unsupported(_)
            | AccessError::Refused { .. }
            | AccessError::Stuck { .. } => {
                Self::Failed { reason: error.to_string(), permission: false }
            }
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, old, result } = self;
        match result {
            Restored::Restored => write!(f, "{setting}: restored to {old}"),
            Restored::Untouched => write!(f, "{setting}: is already {old}"),
            Restored::Foreign { found } => write!(
                f,
                "{setting}: another program has set it to {found:?}, which is kept; before Wattline \
                 it was {old:?}: {}",
                setting.command(old)
            ),
            Restored::Gone if setting.interface().is_some() => write!(
                f,
                "{setting}: its interface is no longer in this network namespace; where it was moved to \
                 another, this restores it: {}",
                setting.command(old)
            ),
            Restored::Gone => {
                write!(f, "{setting}: no longer exists, so there is nothing to restore")
            }
            Restored::Elsewhere { namespace } => write!(
                f,
                "{setting}: is in network namespace net:[{namespace}]; run `wattline restore` there (`lsns -t \
                 net` lists its processes, `ip netns identify PROCESS` its name)"
            ),
            Restored::Altered { found } => {
                write!(f, "{setting}: wrote {old:?}, but it shows {found:?}")
            }
            Restored::Failed { reason, .. } => f.write_str(reason),
        }
    }
}
