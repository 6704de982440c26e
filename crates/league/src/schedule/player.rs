//! Plays schedules that give each slot of a run its operating point.

use crate::arrivals::Arrivals;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::packets::Packets;
use crate::play::Played;
use crate::point::FixedPoint;
use crate::script::Script;
use wattline_policies::POLICIES;
use wattline_policy::{PolicySpec, Wait};
use wattline_sim::Tally;
use wattline_units::{Span, Time};

/// Bounds of the slot length, which is otherwise the time that a packet may wait. A core leaves its
/// deepest state in about twice the shortest slot; slots longer than the longest cannot follow
/// leaps of the load.
const SLOT: (Span, Span) = (Span::from_micros(40), Span::from_micros(200));
/// Most slots of a run.
const MOST_SLOTS: u64 = 5_000;

/// A run of a schedule.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub played: Played,
    /// Energy and late packets by slot.
    pub tallies: Vec<Tally>,
}

/// A case with its packets.
pub(super) struct Player<'a> {
    pub case: &'a Case<'a>,
    pub budget: Budget,
    pub arrivals: &'a Arrivals,
    /// Time that a packet may spend in queue and core, in seconds.
    pub slack: f64,
    pub slot: Span,
    pub slots: usize,
    packets: Packets,
    unused: PolicySpec,
    /// Number of schedules played.
    pub played: usize,
}

impl<'a> Player<'a> {
    pub fn new(
        case: &'a Case<'a>,
        budget: Budget,
        arrivals: &'a Arrivals,
    ) -> Result<Self, LeagueError> {
        let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
        let slot = Span::from_seconds(slack).max(SLOT.0).min(SLOT.1);
        let slot = slot.max(case.duration / MOST_SLOTS).min(case.duration);
        Ok(Self {
            case,
            budget,
            arrivals,
            slack,
            slot,
            slots: case.duration.as_picos().div_ceil(slot.as_picos().max(1)) as usize,
            packets: Packets::of(case)?,
            unused: POLICIES.parse("poll").map_err(|error| {
                LeagueError::Sim(wattline_cores::ModelError::from(error).into())
            })?,
            played: 0,
        })
    }

    /// Returns the points with their start times. All cores play the warm-up at full speed, so that
    /// no packet waits at its end.
    pub fn timed(&self, points: &[FixedPoint]) -> Vec<(Time, FixedPoint)> {
        let warm = FixedPoint {
            cores: self.case.cores(),
            frequency: self.case.server.processor.frequencies.len().saturating_sub(1),
            nap: 0,
            wait: Wait::Poll,
            moderation: Span::ZERO,
        };
        let mut timed = Vec::new();
        if self.case.warmup > Span::ZERO {
            timed.push((Time::ZERO, warm));
        }
        for (slot, point) in points.iter().enumerate() {
            if slot == 0 || points[slot - 1] != *point {
                timed.push((Time::ZERO + self.case.warmup + self.slot * slot as u64, *point));
            }
        }
        timed
    }

    /// Plays a schedule with one point for each slot.
    pub fn play(&mut self, points: &[FixedPoint]) -> Result<Outcome, LeagueError> {
        self.played += 1;
        let timed = self.timed(points);
        let scenario = self.case.scenario(self.unused.clone(), &[self.budget.p99]);
        let mut packets = self.packets.replay();
        let (report, tallies) = scenario.run_tallied(&mut packets, self.slot, |context| {
            Ok(Box::new(Script::new(&timed, self.case.server, context.platform.cores)))
        })?;
        let played = Played::judge(&report, self.budget, self.arrivals, self.slack);
        Ok(Outcome { played, tallies })
    }

    /// Returns the share of the allowance for late packets that a run used.
    pub fn used(&self, outcome: &Outcome) -> f64 {
        let played = &outcome.played;
        let used = played.late_fraction / self.budget.late.max(f64::MIN_POSITIVE);
        if played.dropped_packets > 0 { used.max(2.0) } else { used }
    }

    /// Returns the number of packets that may be late.
    pub fn allowed(&self) -> f64 {
        self.budget.late * self.arrivals.total() as f64
    }
}
