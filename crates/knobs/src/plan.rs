//! Changes examined before they are made: a plan takes them, answers like a machine that obeys, and
//! writes nothing.

use crate::access::{Access, AccessError};
use crate::change::{Change, Knobs, Outcome, SetError};
use crate::power::Direction;
use crate::setting::Setting;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A write that would be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// The setting that would be written.
    pub setting: Setting,
    /// Its value before that write.
    pub present: String,
    /// The value that would be written.
    pub value: String,
    /// The purpose.
    pub why: String,
    /// Effect of the write on the power that the machine may draw.
    pub direction: Direction,
}

/// Takes changes and writes nothing.
#[derive(Debug)]
pub struct Plan<A> {
    access: A,
    values: BTreeMap<Setting, String>,
    writes: Vec<Planned>,
}

impl<A: Access> Plan<A> {
    /// Creates a plan for the machine behind `access`, which is only read.
    pub fn new(access: A) -> Self {
        Self { access, values: BTreeMap::new(), writes: Vec::new() }
    }

    /// Returns the writes so far, in order.
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
        let values = (present.as_str(), value.as_str());
        let direction = Direction::between(&setting, values, |one| self.read(one).ok());
        self.values.insert(setting.clone(), value.clone());
        self.writes.push(Planned { setting, present, value, why, direction });
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
