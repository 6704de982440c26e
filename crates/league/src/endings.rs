//! The packets that come at the end of a case, which may still wait without being late.

use crate::arrivals::Arrivals;
use crate::bound::slot_length;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Those of all cases of a league. To count them all packets are made once more, which takes about
/// as long as a simulation, so they are kept: many policies play the same case.
#[derive(Default)]
pub(crate) struct Endings(Mutex<BTreeMap<String, u64>>);

impl Endings {
    /// Packets that arrive so late in the case that they may wait at its end; `key` tells the case
    /// from all others.
    ///
    /// # Errors
    /// When the packets cannot be had, or no packet can be in time.
    pub fn of(&self, key: &str, case: &Case<'_>, budget: Budget) -> Result<u64, LeagueError> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known().get(key).copied();
        if let Some(recent) = kept {
            return Ok(recent);
        }
        // Two threads may count the same: they find the same.
        let slack = case.slack_seconds(budget, 64)?;
        let arrivals = Arrivals::of(case, slot_length(case, slack))?;
        let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
        let recent = arrivals.in_last(slack);
        known().insert(key.to_owned(), recent);
        Ok(recent)
    }
}
