//! Changes that are looked at before they are made: a plan takes them, answers as the machine
//! would that does what it is asked, and writes nothing.

use crate::access::{Access, AccessError};
use crate::session::{Change, Outcome, Session, SetError};
use crate::setting::Setting;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Whatever takes changes: a [`Session`], which makes them, or a [`Plan`].
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

    /// What sets again those settings of ours that show their old value, [`Session::put_back`].
    fn put_back(&self) -> Vec<Change>;

    /// Settings that have not answered yet, with the time since they were asked.
    fn stuck(&self) -> Vec<(Setting, Duration)>;
}

impl<A: Access + Send> Knobs for Session<A> {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.access().read(setting)
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
        self.access().stuck()
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
}

/// A write that would be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// What would be written.
    pub setting: Setting,
    /// What it would be at then.
    pub present: String,
    /// What would be written.
    pub value: String,
    /// What for.
    pub why: String,
}

/// Takes changes and writes nothing.
#[derive(Debug)]
pub struct Plan<A> {
    access: A,
    values: BTreeMap<Setting, String>,
    writes: Vec<Planned>,
}

impl<A: Access> Plan<A> {
    /// A plan for the machine behind `access`, which is only read.
    pub fn new(access: A) -> Self {
        Self { access, values: BTreeMap::new(), writes: Vec::new() }
    }

    /// The writes so far, in their order.
    pub fn writes(&self) -> &[Planned] {
        &self.writes
    }
}

impl<A: Access + Send> Knobs for Plan<A> {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.values.get(setting).cloned().map_or_else(|| self.access.read(setting), Ok)
    }

    fn take(&mut self, change: &Change) -> Result<Outcome, SetError> {
        let present = self.read(&change.setting)?;
        if present == change.value {
            return Ok(Outcome::Unchanged);
        }
        let Change { setting, value, why } = change.clone();
        self.values.insert(setting.clone(), value.clone());
        self.writes.push(Planned { setting, present, value, why });
        Ok(Outcome::Written)
    }

    fn foreign(&self) -> Vec<(Setting, String)> {
        Vec::new()
    }

    fn put_back(&self) -> Vec<Change> {
        Vec::new()
    }

    fn stuck(&self) -> Vec<(Setting, Duration)> {
        self.access.stuck()
    }
}
