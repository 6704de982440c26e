//! Policies against policies: every policy on every server with every traffic, budget and seed.

use crate::case::Case;
use crate::envelope::Envelope;
use crate::error::LeagueError;
use crate::pieces::Store;
use crate::plan::Plan;
use crate::play::Played;
use crate::policy_text::policy;
use crate::rival::{Judged, Rival};
use crate::rows::{EnvelopeRow, Results, Row, TunedRow};
use crate::runs::{Named, Runs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_policy::PolicySpec;
use wattline_units::Span;

/// Unit of work of a league.
pub(crate) enum Piece<'a> {
    Envelope(Span, Named<'a>),
    Play(Span, Named<'a>, PolicySpec),
    /// A rival within all budgets.
    Rival(Rival<'a>),
}

/// Result of a piece.
#[derive(Serialize, Deserialize)]
pub(crate) enum Found {
    Envelope(Box<Envelope>),
    Played(Box<Played>),
    Judged(Vec<Judged>),
}

/// Returns the number of pieces of a league: yardsticks, runs, and one piece per tuned rival and
/// kind of traffic.
pub fn pieces(plan: &Plan) -> usize {
    let kinds = plan.servers.len() * plan.traffics.len();
    let cases = kinds * plan.budgets.len() * plan.seeds.len();
    let tuned = plan.tuning.as_ref().map_or(0, |tuning| tuning.contenders.len());
    cases * (usize::from(plan.envelope) + plan.policies.len()) + kinds * tuned
}

/// Lists all pieces of a league: for each kind of traffic the envelope of each case followed by its
/// policies, and then the tuned rivals.
pub(crate) fn all_of(plan: &Plan) -> Result<Vec<Piece<'_>>, LeagueError> {
    let mut all = Vec::new();
    for server in &plan.servers {
        for (number, (text, traffic)) in plan.traffics.iter().enumerate() {
            for &budget in &plan.budgets {
                for &seed in &plan.seeds {
                    let case = Case {
                        server,
                        application: plan.application,
                        traffic,
                        duration: plan.duration,
                        warmup: plan.warmup,
                        seed,
                    };
                    let named = Named { case, traffic: text };
                    // Long pieces come first, so that no thread starts one at the end.
                    if plan.envelope {
                        all.push(Piece::Envelope(budget, named));
                    }
                    for written in &plan.policies {
                        let spec = policy(written, budget).map_err(|error| {
                            let problem = error.to_string();
                            LeagueError::File { place: "policies".into(), problem }
                        })?;
                        all.push(Piece::Play(budget, named, spec));
                    }
                }
            }
            if let Some(tuning) = &plan.tuning {
                let rival = |contender| Rival { tuning, contender, server, traffic: number };
                all.extend(tuning.contenders.iter().map(rival).map(Piece::Rival));
            }
        }
    }
    Ok(all)
}

/// Lower bound and base energy in joules by server, traffic, budget in nanoseconds and seed.
type Bounds = BTreeMap<(String, String, u64, u64), (f64, f64)>;

fn nanos(budget: Span) -> u64 {
    budget.as_picos() / 1_000
}

/// Makes a row, with gaps to the lower bound of its case if that is known.
fn row(
    bounds: &Bounds,
    named: &Named<'_>,
    budget: Span,
    policy: String,
    contender: Option<&str>,
    kept: Played,
) -> Row {
    let (server, traffic) = (named.case.server.name.clone(), named.traffic.to_owned());
    let key = (server.clone(), traffic.clone(), nanos(budget), named.case.seed);
    let bound = bounds.get(&key);
    let gap = |(bound, _): &(f64, f64)| (kept.energy_joules - bound) / bound;
    let above_base = |(bound, base): &(f64, f64)| {
        (kept.energy_joules - bound) / (bound - base).max(f64::MIN_POSITIVE)
    };
    Row {
        contender: contender.map_or_else(|| policy.clone(), str::to_owned),
        tuned: contender.is_some(),
        policy,
        server,
        traffic,
        seed: named.case.seed,
        budget_seconds: budget.as_seconds(),
        energy_joules: kept.energy_joules,
        gap_to_lower_bound: bound.map(gap),
        gap_above_base: bound.map(above_base),
        late_fraction: kept.late_fraction,
        dropped_packets: kept.dropped_packets,
        reordered_packets: kept.reordered_packets,
        changes_per_second: kept.changes_per_second,
        feasible: kept.feasible,
        p99_seconds: kept.p99_seconds,
    }
}

/// Plays a league on `threads` threads (0: one per core of this machine); the results do not depend
/// on their number. `done` is called after each piece.
///
/// # Errors
/// The first error of any piece.
pub fn play(
    plan: &Plan,
    store: &Store,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<Results, LeagueError> {
    let all = all_of(plan)?;
    let found = play_all(plan, &all, store, threads, done)?;
    Ok(join(plan, &all, found))
}

/// Joins the results of all pieces of a league, in their order.
pub(crate) fn join(plan: &Plan, all: &[Piece<'_>], found: Vec<Found>) -> Results {
    let mut results = Results { rows: Vec::new(), envelopes: Vec::new(), tunings: Vec::new() };
    // The envelope of a case precedes its policies.
    let mut bounds = Bounds::new();
    for (piece, found) in all.iter().zip(found) {
        match (piece, found) {
            (Piece::Envelope(budget, Named { case, traffic }), Found::Envelope(envelope)) => {
                let (server, traffic) = (case.server.name.clone(), (*traffic).to_owned());
                if let Some(bound) = envelope.lower_bound_joules {
                    bounds.insert(
                        (server.clone(), traffic.clone(), nanos(*budget), case.seed),
                        (bound, envelope.base_joules),
                    );
                }
                results.envelopes.push(EnvelopeRow {
                    server,
                    traffic,
                    seed: case.seed,
                    budget_seconds: budget.as_seconds(),
                    envelope: *envelope,
                });
            }
            (Piece::Play(budget, named, policy), Found::Played(kept)) => {
                results.rows.push(row(&bounds, named, *budget, policy.to_string(), None, *kept));
            }
            (Piece::Rival(rival), Found::Judged(judged)) => {
                put(&mut results, &bounds, plan, rival, judged);
            }
            _ => {}
        }
    }
    results
}

/// Adds the rows of a tuned rival.
fn put(
    results: &mut Results,
    bounds: &Bounds,
    plan: &Plan,
    rival: &Rival<'_>,
    judged: Vec<Judged>,
) {
    let contender = rival.contender;
    for (&budget, Judged { policy, kept, runs }) in plan.budgets.iter().zip(judged) {
        for (&seed, run) in plan.seeds.iter().zip(runs) {
            let named = rival.judged_on(plan, seed);
            let row = row(bounds, &named, budget, policy.clone(), Some(&contender.name), run);
            results.rows.push(row);
        }
        results.tunings.push(TunedRow {
            contender: contender.name.clone(),
            server: rival.server.name.clone(),
            traffic: plan.traffics[rival.traffic].0.clone(),
            budget_seconds: budget.as_seconds(),
            policy,
            settings: contender.settings.len(),
            kept,
        });
    }
}

/// Counts the pieces of a league that are in the store and will not be played again. A tuned rival
/// counts if all its runs are stored.
///
/// # Errors
/// When the store cannot be read.
pub fn kept(plan: &Plan, store: &Store) -> Result<usize, LeagueError> {
    let store = store.read_only();
    let runs = Runs::new(&store);
    let mut there = 0;
    for piece in &all_of(plan)? {
        match piece.play(plan, &runs) {
            Ok(_) => there += 1,
            Err(LeagueError::Absent) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(there)
}

fn play_all(
    plan: &Plan,
    pieces: &[Piece<'_>],
    store: &Store,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<Vec<Found>, LeagueError> {
    let runs = Runs::new(store);
    // More threads than pieces only wait.
    let threads = threads.min(pieces.len().max(1));
    let found = wattline_sim::sweep(pieces, threads, |piece| piece.play(plan, &runs), done);
    let found = found.map_err(|error| LeagueError::File {
        place: "threads".into(),
        problem: error.to_string(),
    })?;
    found.into_iter().collect()
}

impl Found {
    /// True if this can be the result of the piece.
    pub(crate) fn is_of(&self, piece: &Piece<'_>) -> bool {
        matches!(
            (piece, self),
            (Piece::Envelope(..), Self::Envelope(_))
                | (Piece::Play(..), Self::Played(_))
                | (Piece::Rival(_), Self::Judged(_))
        )
    }
}

impl Piece<'_> {
    /// Returns everything that its result depends on, except the build.
    pub(crate) fn key(&self, plan: &Plan, runs: &Runs<'_>) -> Result<String, LeagueError> {
        match self {
            Self::Envelope(budget, named) => runs.envelope_key(named, *budget),
            Self::Play(budget, named, policy) => runs.play_key(named, policy, *budget),
            Self::Rival(rival) => rival.key(plan, runs),
        }
    }

    pub(crate) fn play(&self, plan: &Plan, runs: &Runs<'_>) -> Result<Found, LeagueError> {
        match self {
            Self::Envelope(budget, named) => {
                Ok(Found::Envelope(Box::new(runs.envelope(named, *budget)?)))
            }
            Self::Play(budget, named, policy) => {
                Ok(Found::Played(Box::new(runs.play(named, policy, *budget)?)))
            }
            Self::Rival(rival) => Ok(Found::Judged(rival.play(plan, runs)?)),
        }
    }
}
