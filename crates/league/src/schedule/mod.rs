//! A schedule that keeps the budget, found in hindsight and played (E3): the best of all lies
//! between it and the lower bound.
//!
//! Slots are about as long as a packet may wait, but no shorter than a five-thousandth of the run.
//! The search begins with plans made from the packets ([`starts`]), with the best fixed point and
//! with the decisions of an online policy ([`recorded`]). It joins the best parts of all
//! ([`join`](mod@join)), and then changes segments of slots wherever that makes the run cheaper
//! ([`search`]). Each schedule is played in the packet simulator, and the best one that keeps the
//! budget is returned. Nothing depends on the clock or on chance, so the same case gives the same
//! schedule.

mod chances;
mod join;
mod moves;
mod player;
mod price;
mod recorded;
mod search;
mod starts;

use crate::arrivals::Arrivals;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::fixed::BestFixed;
use crate::play::Played;
use crate::point::FixedPoint;
use crate::policy_text::policy;
use join::{Donor, join};
use player::Player;
use recorded::recorded;
use search::{Best, Search, note};
use serde::Serialize;
use starts::{Kind, Starts};

/// The best schedule that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestSchedule {
    /// Result of playing the schedule.
    pub played: Played,
    /// The points with their start times, in seconds since the start of the run.
    pub points: Vec<(f64, FixedPoint)>,
    /// Number of schedules played to find it.
    pub schedules_played: usize,
}

/// Parameters of the plans: slots per segment, capacity relative to the need, and naps.
const SEGMENTS: [usize; 2] = [1, 8];
const SPARE: [f64; 5] = [1.0, 1.1, 1.25, 1.5, 2.0];
const NAPS: [Option<f64>; 3] = [Some(0.95), Some(0.6), None];
/// Limit on the schedules played: this many per second of the run, within the bounds below. Short
/// runs must not spend more time on this yardstick than on the rest. A long run needs no more
/// schedules than one of a tenth of a second, since each schedule tries changes all over the run.
const PLAYS_PER_SECOND: f64 = 5_000.0;
const PLAYS: (usize, usize) = (200, 500);

/// Searches for the best schedule; returns `None` if no played schedule keeps the budget. The best
/// fixed point is one of the initial schedules.
///
/// # Errors
/// When the packets cannot be generated or read, or no packet can be in time.
pub fn best_schedule(
    case: &Case<'_>,
    budget: Budget,
    arrivals: &Arrivals,
    fixed: Option<&BestFixed>,
) -> Result<Option<BestSchedule>, LeagueError> {
    let mut player = Player::new(case, budget, arrivals)?;
    let mut best: Best = None;
    let mut donors: Vec<Donor> = Vec::new();
    for points in begin(&player, fixed)? {
        if donors.iter().all(|donor| donor.points != points) {
            let outcome = player.play(&points)?;
            note(&mut best, &points, &outcome.played);
            donors.push(Donor { points, outcome });
        }
    }
    let (price, joined) = join(&player, &donors);
    let outcome = player.play(&joined)?;
    note(&mut best, &joined, &outcome.played);
    donors.push(Donor { points: joined, outcome });
    let cost = |donor: &&Donor| price.merit(&donor.outcome, player.allowed());
    let first = donors.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
    if let Some(first) = first {
        let first = (first.points.clone(), first.outcome.clone());
        let plays = (PLAYS_PER_SECOND * case.duration.as_seconds()) as usize;
        let plays = plays.clamp(PLAYS.0, PLAYS.1);
        Search::new(&mut player, &donors, price, first).run(plays, &mut best)?;
    }
    let schedules_played = player.played;
    let found = best.map(|(points, played)| BestSchedule {
        played,
        points: player.timed(&points).iter().map(|(at, of)| (at.as_seconds(), *of)).collect(),
        schedules_played,
    });
    let fixed = fixed.map(|fixed| BestSchedule {
        played: fixed.played.clone(),
        points: vec![(0.0, fixed.point)],
        schedules_played,
    });
    let all = found.into_iter().chain(fixed);
    Ok(all.min_by(|a, b| a.played.energy_joules.total_cmp(&b.played.energy_joules)))
}

/// Returns the initial schedules, with one point for each slot.
fn begin(
    player: &Player<'_>,
    fixed: Option<&BestFixed>,
) -> Result<Vec<Vec<FixedPoint>>, LeagueError> {
    let starts = Starts::new(player)?;
    let mut all = Vec::new();
    for slots in SEGMENTS {
        for spare in SPARE {
            for nap in NAPS {
                all.push(starts.plan(Kind { slots, spare, nap }));
            }
        }
    }
    all.extend(fixed.map(|fixed| vec![fixed.point; player.slots]));
    // A policy that refuses the budget gives no schedule.
    if let Ok(spec) = policy("wattline:p99={p99}", player.budget.p99)
        && player.case.scenario(spec.clone(), &[]).check_policy().is_ok()
    {
        all.push(recorded(player, &spec)?);
    }
    Ok(all)
}
