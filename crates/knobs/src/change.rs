//! A change of a setting, its outcome, and the trait of everything that takes changes.

use crate::access::AccessError;
use crate::journal::JournalError;
use crate::setting::Setting;
use serde::Serialize;
use std::time::Duration;

/// A wanted value of a setting, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The setting.
    pub setting: Setting,
    /// The wanted value.
    pub value: String,
    /// The reason, for logs and previews.
    pub why: String,
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// The setting had this value already; nothing was written.
    Unchanged,
    /// Written, and read back as asked.
    Written,
    /// Written, but the driver stored another value.
    Altered {
        /// The value that is read back.
        found: String,
    },
    /// Another program has changed it since our last write; nothing was written.
    Foreign {
        /// Its present value.
        found: String,
    },
}

/// Reason why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The setting cannot be read or written.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal cannot be written, so the setting was not changed.
    #[error("cannot store the old value, so nothing was changed: {0}")]
    Journal(#[from] JournalError),
    /// The result of a write could not be stored in the journal. After a crash, a restore could
    /// take the new value for another program's, so the old value was written again.
    #[error(
        "{setting}: the write was undone, because its result cannot be stored in the journal: {error} \
         (present value: {})",
        .present.as_deref().unwrap_or("unknown")
    )]
    NotRecorded {
        /// The setting.
        setting: Setting,
        /// Its present value; `None` if it cannot be read.
        present: Option<String>,
        /// The journal's error.
        error: JournalError,
    },
    /// The value contains control characters; the journal stores a value as one line of text.
    #[error("{0}: a value with control characters is never written")]
    BadValue(Setting),
}

/// Takes changes: a [`Session`](crate::Session) makes them, a [`Plan`](crate::Plan) only lists
/// them.
pub trait Knobs: Send {
    /// Returns the present value of a setting.
    ///
    /// # Errors
    /// [`AccessError`].
    fn read(&self, setting: &Setting) -> Result<String, AccessError>;

    /// Takes one change.
    ///
    /// # Errors
    /// [`SetError`].
    fn take(&mut self, change: &Change) -> Result<Outcome, SetError>;

    /// Returns changed settings that another program has changed since, with their present values.
    fn foreign(&self) -> Vec<(Setting, String)>;

    /// Returns changes that set again changed settings that have returned to their old value
    /// ([`Session::put_back`](crate::Session::put_back)).
    fn put_back(&self) -> Vec<Change>;

    /// Returns settings with a pending read or write, with the time since it began.
    fn stuck(&self) -> Vec<(Setting, Duration)>;

    /// Returns the duration of the last write alone.
    fn write_time(&self) -> Duration {
        Duration::ZERO
    }
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

    fn write_time(&self) -> Duration {
        (**self).write_time()
    }
}
