//! The knobs of an operating point: which step turns which, at which place, and what it sets.

use super::step::Step;
use serde::Serialize;
use wattline_policy::{OperatingPoint, Platform};

/// What a step turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// Frequencies.
    Frequency,
    /// The deepest idle state of a core.
    IdleLimit,
    /// How a core waits.
    Wait,
    /// Which cores are active: waking, parking, redirect tables.
    Cores,
    /// Interrupt moderation.
    Moderation,
    /// Packets of a batch.
    Batch,
    /// The uncore's upper limit.
    Uncore,
}

impl Knob {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Frequency,
        Self::IdleLimit,
        Self::Wait,
        Self::Cores,
        Self::Moderation,
        Self::Batch,
        Self::Uncore,
    ];

    /// Its name in reports and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frequency => "frequency",
            Self::IdleLimit => "idle-limit",
            Self::Wait => "wait",
            Self::Cores => "cores",
            Self::Moderation => "moderation",
            Self::Batch => "batch",
            Self::Uncore => "uncore",
        }
    }

    /// The knob of a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|knob| knob.name() == name)
    }

    /// The knob that a step turns.
    pub fn of(step: &Step) -> Self {
        match step {
            Step::Frequency { .. } => Self::Frequency,
            Step::IdleLimit { .. } => Self::IdleLimit,
            Step::Wait { .. } => Self::Wait,
            Step::Wake { .. } | Step::Weight { .. } | Step::Redirect { .. } | Step::Park { .. } => {
                Self::Cores
            }
            Step::Moderation { .. } => Self::Moderation,
            Step::Batch { .. } => Self::Batch,
            Step::Uncore { .. } => Self::Uncore,
        }
    }
}

/// Which of its kind a step turns: the core's or the queue's own, by number, and of frequencies the
/// lowest core that shares it; 0 where there is one for all.
pub fn place_of(step: &Step, platform: &Platform) -> usize {
    match *step {
        Step::Frequency { core, .. } => {
            platform.domain.sharers(core, platform.cores).lowest().unwrap_or(core)
        }
        Step::IdleLimit { core, .. } | Step::Wait { core, .. } => core,
        Step::Moderation { queue, .. } => queue,
        Step::Wake { .. }
        | Step::Weight { .. }
        | Step::Redirect { .. }
        | Step::Park { .. }
        | Step::Batch { .. }
        | Step::Uncore { .. } => 0,
    }
}

/// Leaves what a knob sets at a place ([`place_of`]) as it is; says whether something else was
/// wanted.
pub(super) fn keep(
    (knob, place): (Knob, usize),
    platform: &Platform,
    wanted: &mut OperatingPoint,
    point: &OperatingPoint,
) -> bool {
    /// Puts the old value there; whether it was another.
    fn back<T: PartialEq + Copy>(new: &mut T, old: &T) -> bool {
        std::mem::replace(new, *old) != *old
    }
    let mut cores = wanted.cores.iter_mut().zip(&point.cores);
    match knob {
        Knob::Frequency => {
            let sharers = platform.domain.sharers(place, platform.cores);
            let sharing = cores.enumerate().filter(|(core, _)| sharers.contains(*core));
            sharing.fold(false, |kept, (_, (new, old))| {
                back(&mut new.frequency, &old.frequency) | kept
            })
        }
        Knob::IdleLimit => {
            cores.nth(place).is_some_and(|(new, old)| back(&mut new.idle_limit, &old.idle_limit))
        }
        Knob::Wait => cores.nth(place).is_some_and(|(new, old)| back(&mut new.wait, &old.wait)),
        Knob::Cores => {
            let same = wanted.weights == point.weights;
            wanted.weights.clone_from(&point.weights);
            back(&mut wanted.active, &point.active) | !same
        }
        Knob::Moderation => {
            let mut queues = wanted.moderation.iter_mut().zip(&point.moderation);
            queues.nth(place).is_some_and(|(new, old)| back(new, old))
        }
        Knob::Batch => back(&mut wanted.batch, &point.batch),
        Knob::Uncore => back(&mut wanted.uncore, &point.uncore),
    }
}
