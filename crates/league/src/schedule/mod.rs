//! A schedule that keeps the budget, found in hindsight and played (E3): the best of all lies
//! between it and the lower bound.
//!
//! Slots are about as long as a packet may wait, but no shorter than a five-thousandth of the run. The
//! search begins with plans made from the packets ([`starts`]), with the best fixed point and with what an online policy did ([`recorded`]), joins
//! the best parts of all ([`join`](mod@join)), and then changes stretches of slots wherever that makes the run
//! cheaper ([`search`]). Each schedule is played in the packet simulator; the best one that keeps the
//! budget stands. Nothing depends on the clock or on chance, so the same case gives the same schedule.

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
    /// The points with the seconds since the start of the run from which they hold.
    pub points: Vec<(f64, FixedPoint)>,
    /// Schedules that were played to find it.
    pub schedules_played: usize,
}

/// Stretches of the plans, in slots, the capacity over what is needed, and the naps.
const STRETCHES: [usize; 2] = [1, 8];
const SPARE: [f64; 5] = [1.0, 1.1, 1.25, 1.5, 2.0];
const NAPS: [Option<f64>; 3] = [Some(0.95), Some(0.6), None];
/// Most schedules that are played in all: so many per second of the run, within these bounds. A league
/// of short runs must not take longer for this yardstick than for the rest, and a long run needs no
/// more than one of a tenth of a second, since one schedule tries changes all over it.
const PLAYS_PER_SECOND: f64 = 5_000.0;
const PLAYS: (usize, usize) = (200, 500);

/// Looks for it; `None` where nothing that was played keeps the budget. The best fixed point is one
/// of the schedules it begins with.
///
/// # Errors
/// When the packets cannot be had, or no packet can be in time.
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

/// Schedules to begin with, one point for each slot.
fn begin(
    player: &Player<'_>,
    fixed: Option<&BestFixed>,
) -> Result<Vec<Vec<FixedPoint>>, LeagueError> {
    let starts = Starts::new(player)?;
    let mut all = Vec::new();
    for slots in STRETCHES {
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
