//! A policy that plays what was decided beforehand.

use serde::Serialize;
use wattline_policy::{AskAgain, Looks, Observation, OperatingPoint, Platform, Policy, Wait};
use wattline_units::{Span, Time};

/// Packets of a batch: so few that the ports of a core take short turns, and the packet that waits
/// longest is soon served. The model of a core has no cost of a batch.
const BATCH: u32 = 8;

/// An operating point at which all active cores are alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FixedPoint {
    /// Active cores.
    pub cores: usize,
    /// Index of their frequency.
    pub frequency: usize,
    /// Deepest idle state of an active core, an index; the others may sleep as deep as they can.
    pub nap: usize,
    /// How active cores wait.
    pub wait: Wait,
    /// Shortest span between two interrupts of a queue.
    pub moderation: Span,
}

/// Operating points, each from its time on.
pub struct Script {
    points: Vec<(Time, FixedPoint)>,
    next: usize,
    /// Cores that polled to wake at once, until then.
    waking: Option<Time>,
    settle: Span,
}

impl Script {
    /// In order of time; the first holds from the start.
    pub fn new(points: Vec<(Time, FixedPoint)>, platform: &Platform) -> Self {
        let deepest = platform.idle_states.last().map_or(Span::ZERO, |state| state.exit_latency);
        Self { points, next: 0, waking: None, settle: deepest + Span::from_micros(1) }
    }
}

impl Policy for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        let due = self.points[self.next..].iter().take_while(|(at, _)| *at <= now).count();
        // The first point holds from the start, whatever its time.
        let due = if self.next == 0 { due.max(1).min(self.points.len()) } else { due };
        if due > 0 {
            let (_, wanted) = self.points[self.next + due - 1];
            let before = if self.next == 0 { 0 } else { point.active.len() };
            self.next += due;
            point.set_active(wanted.cores, wanted.nap, seen.platform.deepest());
            point.set_frequency(wanted.frequency);
            point.set_wait(wanted.wait);
            point.set_moderation(seen.platform, wanted.moderation);
            point.batch = BATCH;
            // A core that sleeps by a timer would wake only when that ends: one that is to poll
            // wakes at once.
            if before > 0 && wanted.cores > before {
                (before..wanted.cores).for_each(|core| point.cores[core].wait = Wait::Poll);
                self.waking = Some(now + self.settle);
            }
        }
        if self.waking.is_some_and(|at| at <= now) {
            self.waking = None;
            let wait = self.points[self.next - 1].1.wait;
            point.set_wait(wait);
        }
        let next = self.points.get(self.next).map_or(Time::NEVER, |(at, _)| *at);
        AskAgain::at(self.waking.map_or(next, |waking| waking.min(next)))
    }
}
