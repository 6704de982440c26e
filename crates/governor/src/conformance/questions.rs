//! The questions that a platform may ask, each requested so that it must come and so that it must
//! not.

use super::effects::{Case, Effect};
use std::num::NonZeroU32;
use wattline_policy::{
    AskAgain, Asks, CoreSet, Level, OperatingPoint, StreakRule, Streaks, Timing, Trigger, Wait,
};
use wattline_units::Span;

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Batch,
    Fill,
    EmptyPolls,
    Streak,
    Silence,
}

/// One kind of question, requested so that it must come with packets, or so that it must not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub kind: Kind,
    pub comes: bool,
}

pub(super) const QUESTIONS: [Question; 9] = [
    Question { kind: Kind::Batch, comes: true },
    Question { kind: Kind::Fill, comes: false },
    Question { kind: Kind::Fill, comes: true },
    Question { kind: Kind::EmptyPolls, comes: false },
    Question { kind: Kind::EmptyPolls, comes: true },
    Question { kind: Kind::Streak, comes: false },
    Question { kind: Kind::Streak, comes: true },
    Question { kind: Kind::Silence, comes: false },
    Question { kind: Kind::Silence, comes: true },
];

impl Kind {
    pub fn from_trigger(trigger: Trigger) -> Option<Self> {
        match trigger {
            Trigger::Batch { .. } => Some(Self::Batch),
            Trigger::Fill { .. } => Some(Self::Fill),
            Trigger::EmptyPolls { .. } => Some(Self::EmptyPolls),
            Trigger::Streak { .. } => Some(Self::Streak),
            Trigger::Silence { .. } => Some(Self::Silence),
            Trigger::Start | Trigger::Timer => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "Batch",
            Self::Fill => "Fill",
            Self::EmptyPolls => "EmptyPolls",
            Self::Streak => "Streak",
            Self::Silence => "Silence",
        }
    }

    pub fn timing(self, asks: Asks) -> Timing {
        match self {
            Self::Batch => asks.batch,
            Self::Fill => asks.fill,
            Self::EmptyPolls => asks.empty_polls,
            Self::Streak | Self::Silence => asks.streaks,
        }
    }
}

impl Question {
    /// No ring holds this many packets, and no period has this many polls.
    const TOO_MANY: u32 = u32::MAX;
    /// A silence that occurs, and one longer than any period.
    const SHORT: Span = Span::from_micros(5);
    const LONG: Span = Span::from_millis(3_600_000);

    pub fn ask(self, cores: CoreSet) -> AskAgain {
        match (self.kind, self.comes) {
            (Kind::Batch, _) => AskAgain::on_batch(cores),
            (Kind::Fill, comes) => {
                AskAgain::NEVER.and_on_fill(cores, if comes { 1 } else { Self::TOO_MANY })
            }
            (Kind::EmptyPolls, comes) => AskAgain {
                after_empty_polls: NonZeroU32::new(if comes { 200 } else { Self::TOO_MANY }),
                ..AskAgain::on_batch(cores)
            },
            (Kind::Streak, comes) => {
                let packets = if comes { 0 } else { Self::TOO_MANY };
                let rule = StreakRule { above: Level { packets, samples: 0 }, ..StreakRule::NEVER };
                let streaks = Streaks { cores, rule, at_above: true, ..Streaks::NEVER };
                AskAgain::on_streak(streaks)
            }
            (Kind::Silence, comes) => {
                let silence = if comes { Self::SHORT } else { Self::LONG };
                let rule = StreakRule { silence, ..StreakRule::NEVER };
                let streaks = Streaks { cores, rule, at_silence: true, ..Streaks::NEVER };
                AskAgain::on_streak(streaks)
            }
        }
    }

    /// Prepares a point at which the question comes.
    pub fn prepare(self, point: &mut OperatingPoint) {
        if self.kind == Kind::EmptyPolls {
            point.set_wait(Wait::Poll);
        }
    }

    /// Judges the question by a period in which the policy requested it.
    pub fn judge(self, case: &Case<'_>) -> Effect {
        let sums = &case.after.sums;
        let (times, event) = match self.kind {
            Kind::Batch => (sums.batches, "at batches"),
            Kind::Fill => (sums.fills, "at a fill level"),
            Kind::EmptyPolls => (sums.empty_polls, "at empty polls"),
            Kind::Streak => (sums.streaks, "at a streak"),
            Kind::Silence => (sums.silences, "at a silence"),
        };
        if !self.comes {
            let text = format!("was asked {times} times {event} that cannot have been");
            return if times > 0 { Effect::Absent(text) } else { Effect::Seen(text) };
        }
        let promised = self.kind.timing(case.platform.can.asks).is_noticed();
        if promised && !case.known.traffic {
            return Effect::Hidden("no packets come here");
        }
        if times == 0 {
            return Effect::Absent("never asked".to_owned());
        }
        let exact = case.platform.can.asks.batch == Timing::Exact && case.known.follows.work;
        if self.kind == Kind::Batch && exact {
            let (taken, packets) = (sums.taken, case.after.packets());
            let under_way = case.platform.queues.len() as u64 * u64::from(sums.most_taken);
            let text =
                format!("batches of {taken} packets were reported where {packets} were served");
            return if taken.abs_diff(packets) <= under_way.min(packets / 4) + packets / 10 {
                Effect::Seen(text)
            } else {
                Effect::Absent(text)
            };
        }
        Effect::Seen(format!("asked {times} times {event}"))
    }
}
