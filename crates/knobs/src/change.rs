//! A wish for a setting, what became of it, and whatever takes wishes.

use crate::access::AccessError;
use crate::journal::JournalError;
use crate::setting::Setting;
use serde::Serialize;
use std::time::Duration;

/// A wish: this setting, that value, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What to set.
    pub setting: Setting,
    /// To what.
    pub value: String,
    /// What for, in words.
    pub why: String,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// It had that value already; nothing was written.
    Unchanged,
    /// Written, and read back as asked.
    Written,
    /// Written, but the driver made something else of it.
    Altered {
        /// What it shows now.
        found: String,
    },
    /// Somebody else changed it since we did; nothing was written.
    Foreign {
        /// What it shows.
        found: String,
    },
}

/// A change did not happen.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The setting cannot be read or written.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal cannot be written, so nothing else was.
    #[error("cannot store the old value, so nothing was changed: {0}")]
    Journal(#[from] JournalError),
    /// The journal does not take what came of a write, so that a restore after a crash could take
    /// it for somebody else's: the value before was written again.
    #[error(
        "{setting}: set back to {back:?}, because the result of the write cannot be stored: {error}"
    )]
    Unkept {
        /// The setting.
        setting: Setting,
        /// What it shows now, as far as it can be read.
        back: Option<String>,
        /// Why.
        error: JournalError,
    },
    /// The value would not survive a line of text.
    #[error("{0}: a value with control characters is never written")]
    BadValue(Setting),
}

/// Whatever takes changes: a [`Session`](crate::Session), which makes them, or a
/// [`Plan`](crate::Plan).
pub trait Knobs: Send {
    /// The present value of a setting.
    ///
    /// # Errors
    /// [`AccessError`].
    fn read(&self, setting: &Setting) -> Result<String, AccessError>;

    /// Takes one change.
    ///
    /// # Errors
    /// [`SetError`].
    fn take(&mut self, change: &Change) -> Result<Outcome, SetError>;

    /// Settings of ours that somebody else has changed since, with what they show.
    fn foreign(&self) -> Vec<(Setting, String)>;

    /// What sets again those settings of ours that show their old value
    /// ([`Session::put_back`](crate::Session::put_back)).
    fn put_back(&self) -> Vec<Change>;

    /// Settings that have not answered yet, with the time since they were asked.
    fn stuck(&self) -> Vec<(Setting, Duration)>;
}

impl<K: Knobs + ?Sized> Knobs for &mut K {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        (**self).read(setting)
    }

    fn take(&mut self, change: &Change) -> Result<Outcome, SetError> {
        (**self).take(change)
    }

    fn foreign(&self) -> Vec<(Setting, String)> {
        (**self).foreign()
    }

    fn put_back(&self) -> Vec<Change> {
        (**self).put_back()
    }

    fn stuck(&self) -> Vec<(Setting, Duration)> {
        (**self).stuck()
    }
}
