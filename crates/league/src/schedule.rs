//! A schedule that keeps the budget, found in hindsight and played (E3): the best of all lies
//! between it and the lower bound.
//!
//! Slots of a millisecond or more. For each slot the capacity is known that its packets need to
//! be in time; a dynamic program over all cores and frequencies takes the cheapest way through
//! the slots, with the energy of waking parked cores. The packet simulator plays it; slots in
//! which too many packets were late get more capacity, and so does the slot before.

use crate::arrivals::Arrivals;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::fixed::BestFixed;
use crate::play::{Played, play_points};
use crate::prediction::Prediction;
use crate::script::FixedPoint;
use serde::Serialize;
use wattline_policy::Wait;
use wattline_units::{Span, Time};

/// The best schedule that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestSchedule {
    /// What came of it.
    pub played: Played,
    /// The points with the seconds since the start of the run from which they hold.
    pub points: Vec<(f64, FixedPoint)>,
    /// Schedules that were played to find it.
    pub schedules_played: usize,
}

/// Spare capacity to try, the least first.
const SPARE: [f64; 6] = [1.0, 1.04, 1.1, 1.2, 1.35, 1.6];
/// Naps to try, as shares of the longest.
const NAPS: [f64; 3] = [0.97, 0.85, 0.65];
/// Rounds in which a schedule is repaired.
const REPAIRS: usize = 4;
/// The shortest slot, in deadlines: a parked core takes about one to be of use.
const SHORTEST_SLOT: f64 = 10.0;
/// Most slots of a schedule.
const MOST_SLOTS: u64 = 2_000;

/// Looks for it, beginning with the best fixed point; `None` where nothing keeps the budget.
///
/// # Errors
/// When the packets cannot be had, or no packet can be in time.
pub fn best_schedule(
    case: &Case<'_>,
    budget: Budget,
    arrivals: &Arrivals,
    fixed: Option<&BestFixed>,
) -> Result<Option<BestSchedule>, LeagueError> {
    let search = Search::new(case, budget, arrivals)?;
    let mut best = fixed.map(|fixed| BestSchedule {
        played: fixed.played.clone(),
        points: vec![(0.0, fixed.point)],
        schedules_played: 0,
    });
    let mut plans = Vec::new();
    for spare in SPARE {
        for nap in NAPS {
            if let Some((joules, points)) = search.plan(&vec![spare; search.need.len()], nap) {
                plans.push((joules, spare, nap, points));
            }
        }
    }
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut tried = 0;
    for (joules, spare, nap, points) in plans {
        if best.as_ref().is_some_and(|best| search.base + joules >= best.played.energy_joules) {
            break;
        }
        let mut spares = vec![spare; search.need.len()];
        let mut points = points;
        for _ in 0..=REPAIRS {
            tried += 1;
            let played = search.play(&points)?;
            let cheaper = |best: &BestSchedule| played.energy_joules < best.played.energy_joules;
            if played.feasible {
                if best.as_ref().is_none_or(cheaper) {
                    let points = points.iter().map(|(at, point)| (at.as_seconds(), *point));
                    let points = points.collect();
                    best = Some(BestSchedule { played, points, schedules_played: 0 });
                }
                break;
            }
            // Beyond repair, or dearer than what is known already.
            if played.late_fraction > 10.0 * budget.late
                || best.as_ref().is_some_and(|b| !cheaper(b))
            {
                break;
            }
            search.spare_more(&mut spares, &played);
            match search.plan(&spares, nap) {
                Some((_, repaired)) => points = repaired,
                None => break,
            }
        }
    }
    Ok(best.map(|best| BestSchedule { schedules_played: tried, ..best }))
}

struct Search<'a> {
    case: &'a Case<'a>,
    budget: Budget,
    arrivals: &'a Arrivals,
    prediction: Prediction<'a>,
    slack: f64,
    slot: Span,
    /// By slot: packets per second that must be served for all of them to be in time, and
    /// packets that come.
    need: Vec<f64>,
    packets: Vec<f64>,
    base: f64,
}

impl<'a> Search<'a> {
    fn new(
        case: &'a Case<'a>,
        budget: Budget,
        arrivals: &'a Arrivals,
    ) -> Result<Self, LeagueError> {
        let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
        let prediction = Prediction::of(case, u32::from(arrivals.shortest))?;
        let least = Span::from_seconds(SHORTEST_SLOT * slack).max(case.duration / MOST_SLOTS);
        let slot_seconds = arrivals.slot as f64 * 1e-12;
        let by = ((least.as_seconds() / slot_seconds).round() as usize).max(1);
        let coarse = arrivals.coarser(by);
        let seconds = arrivals.duration as f64 * 1e-12;
        let need = arrivals.packets.chunks(by).map(|part| needed(part, slot_seconds, slack));
        Ok(Self {
            case,
            budget,
            arrivals,
            prediction,
            slack,
            slot: Span::from_picos(coarse.slot),
            need: need.collect(),
            packets: coarse.packets.iter().map(|count| f64::from(*count)).collect(),
            base: case.server.power.base.total().0 * seconds,
        })
    }

    /// The cheapest way through all slots: its predicted energy above the base, and its points.
    fn plan(&self, spares: &[f64], nap: f64) -> Option<(f64, Vec<(Time, FixedPoint)>)> {
        let server = self.case.server;
        let points: Vec<FixedPoint> = (1..=self.case.cores())
            .flat_map(|cores| (0..server.processor.frequencies.len()).map(move |f| (cores, f)))
            .filter_map(|(cores, frequency)| self.point(cores, frequency, nap))
            .collect();
        // A parked core leaves its state and does the work of waking.
        let deepest = server.deepest_idle_state();
        let exit = server.extra_exit_latency(deepest).as_seconds();
        let wake = |point: &FixedPoint| {
            let frequency = server.processor.frequencies[point.frequency];
            exit * server.awake_core_power(frequency).0
        };
        let slots = self.need.len();
        let mut cost = vec![0.0; points.len()];
        let mut ways: Vec<Vec<u16>> = Vec::with_capacity(slots);
        for slot in (0..slots).rev() {
            let seconds = self.slot_seconds(slot);
            // From the slot on, when this point holds in it.
            let here: Vec<f64> = points
                .iter()
                .zip(&cost)
                .map(|(point, rest)| {
                    let carries = self.prediction.capacity(point) >= self.need[slot] * spares[slot];
                    let energy = self.prediction.energy(point, self.packets[slot], seconds);
                    if carries { energy + rest } else { f64::INFINITY }
                })
                .collect();
            // The cheapest next point for each number of cores before.
            let next: Vec<(f64, u16)> = (0..=self.case.cores())
                .map(|before| {
                    let of = |(index, point): (usize, &FixedPoint)| {
                        let more = point.cores.saturating_sub(before) as f64;
                        let more = if before == 0 { 0.0 } else { more };
                        (here[index] + more * wake(point), index as u16)
                    };
                    let all = points.iter().enumerate().map(of);
                    all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
                })
                .collect();
            cost = points.iter().map(|point| next[point.cores].0).collect();
            ways.push(next.iter().map(|(_, index)| *index).collect());
            if slot == 0 && !next[0].0.is_finite() {
                return None;
            }
            if slot == 0 {
                ways.reverse();
                return Some((next[0].0, self.follow(&points, &ways)));
            }
        }
        None
    }

    fn follow(&self, points: &[FixedPoint], ways: &[Vec<u16>]) -> Vec<(Time, FixedPoint)> {
        let mut before = 0;
        let mut found: Vec<(Time, FixedPoint)> = Vec::new();
        for (slot, way) in ways.iter().enumerate() {
            let point = points[usize::from(way[before])];
            // More cores come early by what waking them takes.
            let early = if point.cores > before { Span::from_micros(100) } else { Span::ZERO };
            let at = self.case.warmup + self.slot * slot as u64;
            let at = if at > early { at - early } else { Span::ZERO };
            before = point.cores;
            if found.last().is_none_or(|(_, last)| *last != point) {
                found.push((Time::ZERO + at, point));
            }
        }
        found
    }

    fn point(&self, cores: usize, frequency: usize, nap: f64) -> Option<FixedPoint> {
        let mut point =
            FixedPoint { cores, frequency, nap: 0, wait: Wait::Interrupt, moderation: Span::ZERO };
        let longest =
            self.slack - self.prediction.wake_up(&point) - self.prediction.service(&point);
        if longest > 0.0 {
            point.wait = Wait::Sleep(Span::from_seconds(nap * longest));
        }
        Some(point)
    }

    fn slot_seconds(&self, slot: usize) -> f64 {
        let from = self.slot.as_picos() * slot as u64;
        (self.arrivals.duration - from).min(self.slot.as_picos()) as f64 * 1e-12
    }

    fn play(&self, points: &[(Time, FixedPoint)]) -> Result<Played, LeagueError> {
        let points = points.iter().map(|(at, point)| (*at, *point)).collect();
        let interval = (self.slot < self.case.duration).then_some(self.slot);
        play_points(self.case, points, self.budget, self.arrivals, interval)
    }

    /// More capacity where packets were late beyond the allowance, and in the slot before.
    fn spare_more(&self, spares: &mut [f64], played: &Played) {
        for (slot, late) in played.late_by_interval.iter().enumerate() {
            let Some(packets) = self.packets.get(slot) else { break };
            if *late as f64 > self.budget.late * packets.max(1.0) {
                spares[slot] *= 1.08;
                if slot > 0 {
                    spares[slot - 1] *= 1.04;
                }
            }
        }
    }
}

/// Packets per second that must be served for those of a slot to be in time, when nothing waits
/// at its beginning: the most that come in any stretch, over that stretch and half the slack
/// (the other half is for naps and for uneven queues).
fn needed(packets: &[u32], slot_seconds: f64, slack: f64) -> f64 {
    let mut most = 0.0f64;
    let mut stretch = 1;
    while stretch <= packets.len() {
        let mut sum: u64 = packets[..stretch].iter().map(|count| u64::from(*count)).sum();
        let mut largest = sum;
        for end in stretch..packets.len() {
            sum = sum + u64::from(packets[end]) - u64::from(packets[end - stretch]);
            largest = largest.max(sum);
        }
        most = most.max(largest as f64 / (stretch as f64 * slot_seconds + 0.5 * slack));
        stretch *= 2;
    }
    // The whole slot, which no power of two may be.
    let all: u64 = packets.iter().map(|count| u64::from(*count)).sum();
    most.max(all as f64 / (packets.len().max(1) as f64 * slot_seconds))
}
