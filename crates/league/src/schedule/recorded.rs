//! The points of an online policy, slot by slot, as an initial schedule.

use super::player::Player;
use crate::error::LeagueError;
use crate::point::FixedPoint;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_cores::ModelError;
use wattline_policy::{
    AskAgain, Looks, Observation, OperatingPoint, Policy, PolicySpec, Wait, build,
};
use wattline_units::{Span, Time};

type Record = Arc<Mutex<Vec<(Time, FixedPoint)>>>;

/// Forwards to a policy, and records its decisions.
struct Recorder {
    inner: Box<dyn Policy>,
    record: Record,
}

impl Policy for Recorder {
    fn looks_at(&self) -> Looks {
        self.inner.looks_at()
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let ask = self.inner.decide(seen, point);
        let first = point.active.lowest().unwrap_or(0);
        let taken = FixedPoint {
            cores: point.active.len(),
            frequency: point.fastest_active(),
            nap: point.cores[first].idle_limit,
            wait: point.cores[first].wait,
            moderation: point.moderation.first().copied().unwrap_or(Span::ZERO),
        };
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.last().is_none_or(|(_, last)| *last != taken) {
            record.push((seen.now, taken));
        }
        ask
    }
}

/// Returns for each slot the most cores, the highest frequency and the shortest nap that the policy
/// had in it, since a slot has a single point.
pub(super) fn recorded(
    player: &Player<'_>,
    spec: &PolicySpec,
) -> Result<Vec<FixedPoint>, LeagueError> {
    let record = Record::default();
    player.case.scenario(spec.clone(), &[player.budget.p99]).run_with(|context| {
        let inner = build(spec, context).map_err(ModelError::from)?;
        Ok(Box::new(Recorder { inner, record: record.clone() }))
    })?;
    let record = std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner));
    let mut points = Vec::with_capacity(player.slots);
    let mut place = 0;
    for slot in 0..player.slots {
        let from = Time::ZERO + player.case.warmup + player.slot * slot as u64;
        while record.get(place + 1).is_some_and(|(at, _)| *at <= from) {
            place += 1;
        }
        let within = record[place.min(record.len())..]
            .iter()
            .take_while(|(at, _)| *at < from + player.slot || *at <= from);
        points.extend(within.map(|(_, point)| *point).reduce(busier));
    }
    Ok(points)
}

fn busier(one: FixedPoint, other: FixedPoint) -> FixedPoint {
    let wait = match (one.wait, other.wait) {
        (Wait::Sleep(a), Wait::Sleep(b)) => Wait::Sleep(a.min(b)),
        (Wait::Poll, _) | (_, Wait::Poll) => Wait::Poll,
        (wait, _) => wait,
    };
    FixedPoint {
        cores: one.cores.max(other.cores),
        frequency: one.frequency.max(other.frequency),
        nap: one.nap.min(other.nap),
        wait,
        moderation: one.moderation.min(other.moderation),
    }
}
