//! Changes, and their outcomes. Unless allowed to raise, no change lets the machine draw more power
//! than under the settings that were found.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use wattline_governor::machine::Taken;
use wattline_knobs::power::{Direction, not_above};
use wattline_knobs::{AccessError, Change, Knobs, Outcome, SetError, Setting};

/// Counts of writes: by kind of knob and by outcome.
pub type Counts = BTreeMap<(&'static str, &'static str), u64>;

/// The knobs, with a record of the writes.
pub(super) struct Writes<K> {
    pub knobs: K,
    pub counts: Counts,
    /// Setting among the last changes that is readable but not settable.
    pub unsupported: Option<Setting>,
    ceiling: Ceiling,
    /// Values before the first write here.
    found: BTreeMap<Setting, String>,
    /// Values that stay because they save more than the requested ones, each once by file and
    /// value.
    pub kept: Vec<Kept>,
}

/// Settings that may not let the machine draw more power than as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ceiling {
    /// None: the user allows raising.
    None,
    /// All of them.
    Found,
}

/// A value that saves more than the one that a policy requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The settings with this value.
    pub settings: Vec<Setting>,
    /// The value, which stays.
    pub found: String,
    /// The first value requested.
    pub wanted: String,
}

impl<K: Knobs> Writes<K> {
    pub fn new(knobs: K, ceiling: Ceiling) -> Self {
        let (counts, found, kept) = (Counts::new(), BTreeMap::new(), Vec::new());
        Self { knobs, counts, unsupported: None, ceiling, found, kept }
    }

    /// Returns the change, or a change back to the value found if this one would let the machine
    /// draw more power. A value that cannot be read is left to fail.
    fn bounded(&mut self, change: &Change) -> Change {
        let Change { setting, value, why } = change;
        // Nothing written here holds before the first write, so others may have moved it until
        // then.
        let known = self.found.get(setting).cloned();
        let Some(found) = known.clone().or_else(|| self.knobs.read(setting).ok()) else {
            return change.clone();
        };
        let read = |one: &Setting| self.knobs.read(one).ok();
        let bounded = match self.ceiling {
            Ceiling::None => value.clone(),
            Ceiling::Found => not_above(setting, (&found, value), read),
        };
        if bounded == *value {
            if known.is_none() && bounded != found {
                self.found.insert(setting.clone(), found);
            }
            return change.clone();
        }
        if Direction::between(setting, (&found, value), read) == Direction::More {
            self.keep(setting, found, value);
        }
        let why = format!("{why}; back to what was found");
        Change { setting: setting.clone(), value: bounded, why }
    }

    /// Records that a value stays although another was requested.
    fn keep(&mut self, setting: &Setting, found: String, wanted: &str) {
        let file = |one: &Setting| one.to_string().rsplit('/').next().map(str::to_owned);
        let alike = |kept: &&mut Kept| {
            kept.found == found
                && kept.settings.first().is_some_and(|one| file(one) == file(setting))
        };
        match self.kept.iter_mut().find(alike) {
            Some(kept) if kept.settings.contains(setting) => {}
            Some(kept) => kept.settings.push(setting.clone()),
            None => {
                let (settings, wanted) = (vec![setting.clone()], wanted.to_owned());
                self.kept.push(Kept { settings, found, wanted });
            }
        }
    }

    /// Makes the changes in order. A change that fails, or a setting that another program has set,
    /// ends the sequence: later changes build on it.
    pub fn make(&mut self, changes: &[Change]) -> Taken {
        let mut altered = None;
        self.unsupported = None;
        for change in changes {
            let change = &self.bounded(change);
            let taken = match self.knobs.take(change) {
                Ok(Outcome::Unchanged | Outcome::Written) => Taken::Done,
                Ok(Outcome::Altered { found }) => Taken::Altered { found },
                Ok(Outcome::Foreign { found }) => Taken::Foreign { found },
                Err(error) => {
                    if let SetError::Access(AccessError::Unsupported(setting)) = &error {
                        self.unsupported = Some(setting.clone());
                    }
                    Taken::Failed { why: error.to_string() }
                }
            };
            *self
                .counts
                .entry((wattline_knobs::label(&change.setting), name(&taken)))
                .or_default() += 1;
            match taken {
                Taken::Done | Taken::Slow { .. } => {}
                Taken::Altered { .. } => altered = Some(taken),
                Taken::Foreign { .. } | Taken::Failed { .. } => return taken,
            }
        }
        altered.unwrap_or(Taken::Done)
    }

    /// Restores the values that settings were found with, except settings that others have set.
    pub fn give_back(&mut self, settings: impl IntoIterator<Item = Setting>, why: &str) {
        for setting in settings {
            if let Some(value) = self.found.get(&setting).cloned() {
                self.make(&[Change { setting, value, why: why.to_owned() }]);
            }
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, found, wanted } = self;
        if let [first, others @ ..] = &settings[..] {
            write!(f, "{first}")?;
            if !others.is_empty() {
                write!(f, " and {} more", others.len())?;
            }
        }
        write!(
            f,
            ": {found} saves more than {wanted} and stays; to raise it: may_raise = true in [govern] or [power]"
        )
    }
}

/// Returns the label of an outcome in counters.
fn name(taken: &Taken) -> &'static str {
    match taken {
        // A write returns when it is complete.
        Taken::Done | Taken::Slow { .. } => "done",
        Taken::Altered { .. } => "altered",
        Taken::Foreign { .. } => "foreign",
        Taken::Failed { .. } => "failed",
    }
}

/// Returns the outcome that needs more care.
pub(super) fn worse(one: Taken, other: Taken) -> Taken {
    let rank = |taken: &Taken| match taken {
        Taken::Done | Taken::Slow { .. } => 0,
        Taken::Altered { .. } => 1,
        Taken::Foreign { .. } => 2,
        Taken::Failed { .. } => 3,
    };
    if rank(&other) > rank(&one) { other } else { one }
}
