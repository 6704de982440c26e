//! Packets that arrive at the end of a case and may still wait without being late.

use crate::arrivals::Arrivals;
use crate::bound::slot_length;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Counts of these packets for all cases of a league. A count generates all packets once more,
/// about as long as a simulation, so it is cached: many policies play the same case.
#[derive(Default)]
pub(crate) struct Endings(Mutex<BTreeMap<String, u64>>);

impl Endings {
    /// Returns the number of packets that may wait at the end of the case; `key` identifies the
    /// case.
    ///
    /// # Errors
    /// When the packets cannot be generated or read, or no packet can be in time.
    pub fn of(&self, key: &str, case: &Case<'_>, budget: Budget) -> Result<u64, LeagueError> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known().get(key).copied();
        if let Some(recent) = kept {
            return Ok(recent);
        }
        // Two threads may count the same case: they get the same result.
        let slack = case.slack_seconds(budget, 64)?;
        let arrivals = Arrivals::of(case, slot_length(case, slack))?;
        let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
        let recent = arrivals.in_last(slack);
        known().insert(key.to_owned(), recent);
        Ok(recent)
    }
}
