//! The best constant operating point, in hindsight (E0).

use crate::arrivals::Arrivals;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::play::{Played, play_points};
use crate::point::FixedPoint;
use crate::prediction::Prediction;
use serde::Serialize;
use wattline_policy::Wait;
use wattline_units::{Span, Time};

/// Naps to try, as shares of the longest nap after which a packet is in time.
pub(crate) const NAPS: [f64; 9] = [1.02, 0.97, 0.92, 0.85, 0.75, 0.65, 0.5, 0.35, 0.2];

/// The best fixed point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestFixed {
    /// The point.
    pub point: FixedPoint,
    /// Result of playing the point.
    pub played: Played,
    /// Number of points played to find it; no other point can be cheaper.
    pub points_played: usize,
}

/// Plays fixed points by rising predicted energy until all remaining predictions are above the best
/// point that keeps the budget. Returns `None` if none keeps it. The prediction never exceeds the
/// energy of a run, except under interrupts: it assumes half the wake-ups of Poisson arrivals, so
/// an interrupt-driven point with fewer may be missed.
///
/// # Errors
/// When the packets cannot be generated or read, or no packet can be in time.
pub fn best_fixed(
    case: &Case<'_>,
    budget: Budget,
    arrivals: &Arrivals,
) -> Result<Option<BestFixed>, LeagueError> {
    let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
    // Half the wake-ups of single arrivals, fewer if packets arrive in bursts.
    let share = 0.5 / dispersion(arrivals).max(1.0);
    let prediction = Prediction::of(case, u32::from(arrivals.shortest))?.with_wake_share(share);
    let seconds = arrivals.duration as f64 * 1e-12;
    // A run that keeps the budget has served all packets except the last arrivals and the allowed
    // late ones.
    let total = arrivals.total() as f64;
    let due = (total * (1.0 - budget.late) - arrivals.in_last(slack) as f64).max(0.0);
    let mut points: Vec<(f64, FixedPoint)> = all_points(case, &prediction, slack)
        .into_iter()
        .filter(|point| prediction.capacity(point) * seconds >= due)
        .map(|point| (prediction.energy(&point, due, seconds), point))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let base = case.server.power.base.total().0 * seconds;
    let mut best: Option<BestFixed> = None;
    let mut tried = 0;
    for (least, point) in points {
        if best.as_ref().is_some_and(|best| base + least >= best.played.energy_joules) {
            break;
        }
        tried += 1;
        let played = play_points(case, vec![(Time::ZERO, point)], budget, arrivals, None)?;
        let cheaper =
            best.as_ref().is_none_or(|best| played.energy_joules < best.played.energy_joules);
        if played.feasible && cheaper {
            best = Some(BestFixed { point, played, points_played: 0 });
        }
    }
    Ok(best.map(|best| BestFixed { points_played: tried, ..best }))
}

/// Returns the index of dispersion: variance of the packets per slot over their mean.
fn dispersion(arrivals: &Arrivals) -> f64 {
    let slots = arrivals.packets.len() as f64;
    let mean = arrivals.total() as f64 / slots;
    let squares = arrivals.packets.iter().map(|count| (f64::from(*count) - mean).powi(2));
    squares.sum::<f64>() / slots / mean.max(f64::MIN_POSITIVE)
}

/// Returns every combination of cores, frequency, idle state and wait mode.
fn all_points(case: &Case<'_>, prediction: &Prediction<'_>, slack: f64) -> Vec<FixedPoint> {
    let server = case.server;
    let deepest = server.deepest_idle_state();
    let mut points = Vec::new();
    for cores in 1..=case.cores() {
        for frequency in 0..server.processor.frequencies.len() {
            let plain = FixedPoint {
                cores,
                frequency,
                nap: 0,
                wait: Wait::Interrupt,
                moderation: Span::ZERO,
            };
            points.push(FixedPoint { wait: Wait::Poll, ..plain });
            let longest = slack - prediction.wake_up(&plain) - prediction.service(&plain);
            let naps = NAPS.map(|share| Span::from_seconds(share * longest));
            let naps = naps.into_iter().filter(|span| *span > Span::ZERO);
            for nap in (0..=deepest).filter(|nap| *nap == 0 || *nap == deepest) {
                points.push(FixedPoint { nap, ..plain });
                for span in naps.clone() {
                    // Below the next state's residency a deeper limit changes nothing.
                    if nap == 0 || span >= server.idle_states[1].exit_latency * 3 {
                        points.push(FixedPoint { nap, wait: Wait::Sleep(span), ..plain });
                    }
                    if server.nic.moderation.is_some() {
                        points.push(FixedPoint { nap, moderation: span, ..plain });
                    }
                }
            }
        }
    }
    points
}
