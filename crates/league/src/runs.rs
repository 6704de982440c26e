//! The runs of a league, each played once and kept.

use crate::build_mark::hash;
use crate::case::{Budget, Case};
use crate::endings::Endings;
use crate::envelope::{Envelope, envelope};
use crate::error::LeagueError;
use crate::pieces::Store;
use crate::play::{Played, play_within};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use wattline_policy::PolicySpec;
use wattline_units::Span;

/// A case with the text of its traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a> {
    pub case: Case<'a>,
    pub traffic: &'a str,
}

/// Player and store of runs.
pub(crate) struct Runs<'a> {
    store: &'a Store,
    endings: Endings,
    /// Hashes of captures.
    captures: Mutex<BTreeMap<PathBuf, String>>,
}

impl<'a> Runs<'a> {
    pub fn new(store: &'a Store) -> Self {
        Self { store, endings: Endings::default(), captures: Mutex::default() }
    }

    /// Returns the key of a case; the store adds the build. A capture is identified by its
    /// contents.
    pub fn key(&self, named: &Named<'_>) -> Result<String, LeagueError> {
        let Case { server, application, traffic, duration, warmup, seed } = named.case;
        let text = named.traffic;
        let mut key = format!("{server:?} {application} {text} {duration:?} {warmup:?} {seed}");
        for capture in traffic.captures() {
            key.push(' ');
            key.push_str(&self.hash_of(capture)?);
        }
        Ok(key)
    }

    /// Returns the hash of a capture, read once.
    fn hash_of(&self, capture: &Path) -> Result<String, LeagueError> {
        let mut known = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = known.get(capture) {
            return Ok(hash.clone());
        }
        let io = |source| LeagueError::Io { path: capture.display().to_string(), source };
        let hash = File::open(capture).and_then(hash).map_err(io)?;
        known.insert(capture.to_owned(), hash.clone());
        Ok(hash)
    }

    /// Returns the key of the yardsticks of a case.
    pub fn envelope_key(&self, named: &Named<'_>, budget: Span) -> Result<String, LeagueError> {
        Ok(format!("envelope {} {budget:?}", self.key(named)?))
    }

    /// Returns the key of a policy in a case.
    pub fn play_key(
        &self,
        named: &Named<'_>,
        policy: &PolicySpec,
        budget: Span,
    ) -> Result<String, LeagueError> {
        Ok(format!("{policy} {} {budget:?}", self.key(named)?))
    }

    /// Returns the yardsticks of a case.
    ///
    /// # Errors
    /// Errors of [`envelope`] and of the store.
    pub fn envelope(&self, named: &Named<'_>, budget: Span) -> Result<Envelope, LeagueError> {
        let key = self.envelope_key(named, budget)?;
        self.store.piece(&key, || envelope(&named.case, Budget::p99(budget)))
    }

    /// Returns the result of a policy in a case.
    ///
    /// # Errors
    /// Errors of [`Self::play_within`].
    pub fn play(
        &self,
        named: &Named<'_>,
        policy: &PolicySpec,
        budget: Span,
    ) -> Result<Played, LeagueError> {
        let key = self.play_key(named, policy, budget)?;
        self.store.piece(&key, || {
            let allowed = self.allowed(named, budget)?;
            Ok(play_within(&named.case, policy, &[allowed])?.swap_remove(0))
        })
    }

    /// Plays a policy in a case once and judges it by each of these budgets.
    ///
    /// # Errors
    /// When the policy cannot be built for the server, the packets cannot be generated or read, or
    /// no packet can be in time; and errors of the store.
    pub fn play_within(
        &self,
        named: &Named<'_>,
        policy: &PolicySpec,
        budgets: &[Span],
    ) -> Result<Vec<Played>, LeagueError> {
        let key = format!("{policy} {} {budgets:?}", self.key(named)?);
        self.store.piece(&key, || {
            let allowed = budgets.iter().map(|budget| self.allowed(named, *budget));
            let allowed: Vec<_> = allowed.collect::<Result<_, _>>()?;
            play_within(&named.case, policy, &allowed)
        })
    }

    /// Returns a budget with the number of packets that may wait at the end of the case within it.
    fn allowed(&self, named: &Named<'_>, budget: Span) -> Result<(Budget, u64), LeagueError> {
        let allowed = Budget::p99(budget);
        let key = format!("{} {budget:?}", self.key(named)?);
        Ok((allowed, self.endings.of(&key, &named.case, allowed)?))
    }
}
