//! Policies against policies: every policy on every server with every traffic, budget and seed.

use crate::arrivals::Arrivals;
use crate::bound::{lower_bound, slot_length};
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::fixed::best_fixed;
use crate::part::Part;
use crate::pieces::Store;
use crate::plan::{Plan, policy};
use crate::play::{Played, play_policy};
use crate::schedule::best_schedule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_policy::{PolicySpec, Wait};
use wattline_units::Span;

/// The yardsticks of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// No schedule that keeps the budget takes less (E2).
    pub lower_bound_joules: f64,
    /// A schedule was found that takes this and keeps it (E3); `None` where none was found.
    pub feasible_joules: Option<f64>,
    /// The best operating point that never changes (E0); `None` where none keeps the budget.
    pub static_best_joules: Option<f64>,
    /// That point in words.
    pub static_best: Option<String>,
    /// How far the schedule is above the bound, as a share of the bound.
    pub feasible_gap: Option<f64>,
    /// Of the bound: what no decision changes.
    pub base_joules: f64,
    /// Packets that came.
    pub packets: u64,
}

/// Works out the yardsticks of a case.
///
/// # Errors
/// When the packets cannot be had, or no packet can be in time.
pub fn envelope(case: &Case<'_>, budget: Budget) -> Result<Envelope, LeagueError> {
    let arrivals = arrivals(case, budget)?;
    let bound = lower_bound(case, budget, &arrivals)?;
    let fixed = best_fixed(case, budget, &arrivals)?;
    let schedule = best_schedule(case, budget, &arrivals, fixed.as_ref())?;
    let feasible = schedule.map(|schedule| schedule.played.energy_joules);
    Ok(Envelope {
        lower_bound_joules: bound.joules,
        feasible_joules: feasible,
        static_best_joules: fixed.as_ref().map(|fixed| fixed.played.energy_joules),
        static_best: fixed.map(|fixed| {
            let point = fixed.point;
            let hertz = case.server.processor.frequencies[point.frequency];
            let wait = match point.wait {
                Wait::Poll => "polling".to_owned(),
                Wait::Pause => "pausing".to_owned(),
                Wait::Sleep(nap) => format!("naps of {:.1} µs", nap.as_seconds() * 1e6),
                Wait::Interrupt => "interrupts".to_owned(),
            };
            let cores = if point.cores == 1 { "core" } else { "cores" };
            format!("{} {cores} at {:.2} GHz, {wait}", point.cores, hertz.gigahertz())
        }),
        feasible_gap: feasible.map(|joules| joules / bound.joules - 1.0),
        base_joules: bound.base_joules,
        packets: arrivals.total(),
    })
}

/// The packets of a case in slots as fine as the bound needs them.
fn arrivals(case: &Case<'_>, budget: Budget) -> Result<Arrivals, LeagueError> {
    let slack = case.slack_seconds(budget, 64)?;
    Arrivals::of(case, slot_length(case, slack))
}

/// A policy in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The policy.
    pub policy: String,
    /// The server.
    pub server: String,
    /// The traffic.
    pub traffic: String,
    /// The seed.
    pub seed: u64,
    /// Latency that at most 1 % of the packets may exceed.
    pub budget_seconds: f64,
    /// Energy of the server.
    pub energy_joules: f64,
    /// How far that is above the lower bound, as a share of it.
    pub gap_to_lower_bound: f64,
    /// The same less the base power on both sides, which no decision changes.
    pub gap_above_base: f64,
    /// Share of the packets that were late or lost.
    pub late_fraction: f64,
    /// Packets that found their ring full.
    pub dropped_packets: u64,
    /// Packets that a later one of their flow overtook.
    pub reordered_packets: u64,
    /// Changes of cores or frequency, per second.
    pub changes_per_second: f64,
    /// Whether the budget was kept and nothing lost.
    pub feasible: bool,
    /// Latency that 99 of 100 packets did not exceed.
    pub p99_seconds: Option<f64>,
}

/// The yardsticks of one case, with the names of the case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvelopeRow {
    /// The server.
    pub server: String,
    /// The traffic.
    pub traffic: String,
    /// The seed.
    pub seed: u64,
    /// The budget.
    pub budget_seconds: f64,
    /// The yardsticks.
    #[serde(flatten)]
    pub envelope: Envelope,
}

/// All that a league found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Every policy in every case.
    pub rows: Vec<Row>,
    /// Every case.
    pub envelopes: Vec<EnvelopeRow>,
}

/// What is played alone.
enum Piece<'a> {
    Envelope(Span, Case<'a>, &'a str),
    Play(Span, Case<'a>, &'a str, PolicySpec),
}

enum Found {
    Envelope(Box<Envelope>),
    Played(Box<Kept>),
}

/// What is kept of a run.
#[derive(Serialize, Deserialize)]
struct Kept {
    energy_joules: f64,
    late_fraction: f64,
    dropped_packets: u64,
    reordered_packets: u64,
    changes_per_second: f64,
    p99_seconds: Option<f64>,
    feasible: bool,
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

/// Number of pieces of a league.
pub fn pieces(plan: &Plan) -> usize {
    let cases = plan.servers.len() * plan.traffics.len() * plan.budgets.len() * plan.seeds.len();
    cases * (1 + plan.policies.len())
}

/// Number of pieces of a part of it.
pub fn pieces_of(plan: &Plan, part: Part) -> usize {
    let all = pieces(plan);
    all / part.of + usize::from(part.number <= all % part.of)
}

/// All pieces of a league: the envelope of each case, and after it its policies.
fn all_of(plan: &Plan) -> Result<Vec<Piece<'_>>, LeagueError> {
    let mut all = Vec::new();
    for server in &plan.servers {
        for (text, traffic) in &plan.traffics {
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
                    // The long ones first, so that no thread is left with one at the end.
                    all.push(Piece::Envelope(budget, case, text));
                    for written in &plan.policies {
                        let spec = policy(written, budget).map_err(|problem| {
                            LeagueError::File { place: "policies".into(), problem }
                        })?;
                        all.push(Piece::Play(budget, case, text, spec));
                    }
                }
            }
        }
    }
    Ok(all)
}

/// Plays a league on so many threads (0: one per core of this machine); the results do not depend
/// on their number. `done` is called after each piece.
///
/// # Errors
/// The first one of any piece.
pub fn play(
    plan: &Plan,
    store: &Store,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<Results, LeagueError> {
    let all = all_of(plan)?;
    let found = play_all(&all, store, threads, done)?;
    let mut results = Results { rows: Vec::new(), envelopes: Vec::new() };
    for (piece, found) in all.iter().zip(found) {
        match (piece, found) {
            (Piece::Envelope(budget, case, traffic), Found::Envelope(envelope)) => {
                results.envelopes.push(EnvelopeRow {
                    server: case.server.name.clone(),
                    traffic: (*traffic).to_owned(),
                    seed: case.seed,
                    budget_seconds: budget.as_seconds(),
                    envelope: *envelope,
                });
            }
            (Piece::Play(budget, case, traffic, policy), Found::Played(kept)) => {
                // The case's envelope comes before its policies.
                let Some(EnvelopeRow { envelope, .. }) = results.envelopes.last() else { continue };
                let bound = envelope.lower_bound_joules;
                let gap = kept.energy_joules - bound;
                results.rows.push(Row {
                    policy: policy.to_string(),
                    server: case.server.name.clone(),
                    traffic: (*traffic).to_owned(),
                    seed: case.seed,
                    budget_seconds: budget.as_seconds(),
                    energy_joules: kept.energy_joules,
                    gap_to_lower_bound: gap / bound,
                    gap_above_base: gap / (bound - envelope.base_joules).max(f64::MIN_POSITIVE),
                    late_fraction: kept.late_fraction,
                    dropped_packets: kept.dropped_packets,
                    reordered_packets: kept.reordered_packets,
                    changes_per_second: kept.changes_per_second,
                    feasible: kept.feasible,
                    p99_seconds: kept.p99_seconds,
                });
            }
            _ => {}
        }
    }
    Ok(results)
}

/// Plays one part of a league into the store, from which [`play`] takes it then, and says how many
/// pieces it has: each is in one part, and the long ones are spread.
///
/// # Errors
/// The first one of any piece.
pub fn play_part(
    plan: &Plan,
    part: Part,
    store: &Store,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<usize, LeagueError> {
    let all = all_of(plan)?;
    let (envelopes, plays): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|piece| matches!(piece, Piece::Envelope(..)));
    let own = |(at, _): &(usize, Piece<'_>)| at % part.of == part.number - 1;
    let own = envelopes.into_iter().chain(plays).enumerate().filter(own);
    let own: Vec<_> = own.map(|(_, piece)| piece).collect();
    play_all(&own, store, threads, done)?;
    Ok(own.len())
}

fn play_all(
    pieces: &[Piece<'_>],
    store: &Store,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<Vec<Found>, LeagueError> {
    let found = wattline_sim::sweep(pieces, threads, |piece| piece.play(store), done);
    let found = found.map_err(|error| LeagueError::File {
        place: "threads".into(),
        problem: error.to_string(),
    })?;
    found.into_iter().collect()
}

impl Piece<'_> {
    fn play(&self, store: &Store) -> Result<Found, LeagueError> {
        let (Self::Envelope(budget, case, traffic) | Self::Play(budget, case, traffic, _)) = self;
        let Case { server, application, duration, warmup, seed, .. } = case;
        let key = format!(
            "{} {server:?} {application} {traffic} {duration:?} {warmup:?} {seed} {budget:?}",
            env!("CARGO_PKG_VERSION")
        );
        let allowed = Budget::p99(*budget);
        match self {
            Self::Envelope(..) => {
                let kept = store.piece(&format!("envelope {key}"), || envelope(case, allowed))?;
                Ok(Found::Envelope(Box::new(kept)))
            }
            Self::Play(.., policy) => {
                let play = || {
                    let arrivals = arrivals(case, allowed)?;
                    Ok(play_policy(case, policy, allowed, &arrivals)?.into())
                };
                Ok(Found::Played(Box::new(store.piece(&format!("{policy} {key}"), play)?)))
            }
        }
    }
}

/// Server, traffic and budget in nanoseconds.
type Kind = (String, String, u64);
/// A policy with its rows.
type OfPolicy<'a> = (&'a str, Vec<&'a Row>);

/// Rows by what they are of, in the order of the policies: of one policy and traffic (server and
/// budget included), all seeds.
pub(crate) fn by_kind(rows: &[Row]) -> BTreeMap<Kind, Vec<OfPolicy<'_>>> {
    let mut kinds: BTreeMap<Kind, Vec<OfPolicy<'_>>> = BTreeMap::new();
    for row in rows {
        let nanos = (row.budget_seconds * 1e9).round() as u64;
        let kind = kinds.entry((row.server.clone(), row.traffic.clone(), nanos)).or_default();
        match kind.iter_mut().find(|(policy, _)| *policy == row.policy) {
            Some((_, rows)) => rows.push(row),
            None => kind.push((&row.policy, vec![row])),
        }
    }
    kinds
}
