//! The runs of a league, each played once and kept.

use crate::case::{Budget, Case};
use crate::endings::Endings;
use crate::envelope::{Envelope, envelope};
use crate::error::LeagueError;
use crate::pieces::Store;
use crate::play::{Played, play_one, play_within};
use serde::{Deserialize, Serialize};
use wattline_policy::PolicySpec;
use wattline_units::Span;

/// A case with its traffic as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a> {
    pub case: Case<'a>,
    pub traffic: &'a str,
}

impl Named<'_> {
    /// What tells this case from all others; the store adds the build.
    fn key(&self) -> String {
        let Case { server, application, duration, warmup, seed, .. } = self.case;
        let traffic = self.traffic;
        format!("{server:?} {application} {traffic} {duration:?} {warmup:?} {seed}")
    }
}

/// What is kept of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub energy_joules: f64,
    pub late_fraction: f64,
    pub dropped_packets: u64,
    pub reordered_packets: u64,
    pub changes_per_second: f64,
    pub p99_seconds: Option<f64>,
    pub feasible: bool,
}

impl From<Played> for Kept {
    fn from(played: Played) -> Self {
        Self {
            energy_joules: played.energy_joules,
            late_fraction: played.late_fraction,
            dropped_packets: played.dropped_packets,
            reordered_packets: played.reordered_packets,
            changes_per_second: played.changes_per_second,
            p99_seconds: played.p99_seconds,
            feasible: played.feasible,
        }
    }
}

/// Where runs are played, or found.
pub(crate) struct Runs<'a> {
    store: &'a Store,
    endings: Endings,
}

impl<'a> Runs<'a> {
    pub fn new(store: &'a Store) -> Self {
        Self { store, endings: Endings::default() }
    }

    /// The yardsticks of a case.
    ///
    /// # Errors
    /// Those of [`envelope`], and of the store.
    pub fn envelope(&self, named: &Named<'_>, budget: Span) -> Result<Envelope, LeagueError> {
        let key = format!("envelope {} {budget:?}", named.key());
        self.store.piece(&key, || envelope(&named.case, Budget::p99(budget)))
    }

    /// A policy in a case.
    ///
    /// # Errors
    /// Those of [`Self::play_within`].
    pub fn play(
        &self,
        named: &Named<'_>,
        policy: &PolicySpec,
        budget: Span,
    ) -> Result<Kept, LeagueError> {
        let key = format!("{policy} {} {budget:?}", named.key());
        self.store.piece(&key, || {
            let allowed = self.allowed(named, budget)?;
            play_one(&named.case, policy, allowed).map(Kept::from)
        })
    }

    /// A policy in a case, played once and judged by each of these budgets.
    ///
    /// # Errors
    /// When the policy cannot be built for the server, the packets cannot be had, no packet can be
    /// in time, and those of the store.
    pub fn play_within(
        &self,
        named: &Named<'_>,
        policy: &PolicySpec,
        budgets: &[Span],
    ) -> Result<Vec<Kept>, LeagueError> {
        self.store.piece(&format!("{policy} {} {budgets:?}", named.key()), || {
            let allowed = budgets.iter().map(|budget| self.allowed(named, *budget));
            let allowed: Vec<_> = allowed.collect::<Result<_, _>>()?;
            let played = play_within(&named.case, policy, &allowed)?;
            Ok(played.into_iter().map(Kept::from).collect())
        })
    }

    /// A budget, and the packets that may wait at the end of the case within it.
    fn allowed(&self, named: &Named<'_>, budget: Span) -> Result<(Budget, u64), LeagueError> {
        let allowed = Budget::p99(budget);
        let key = format!("{} {budget:?}", named.key());
        Ok((allowed, self.endings.of(&key, &named.case, allowed)?))
    }
}
