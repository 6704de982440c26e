//! Steps of the knobs of an operating point. The loop's knowledge of each [`Knob`] is defined here
//! once: its steps, how to derive one from a point and set it there, and its [`Facts`]. From these
//! follow the order of steps ([`crate::step`]), the handling of deferred and refused steps
//! ([`crate::transition`]), the ledger, and the conformance test.

pub use wattline_status::Knob;

use std::ops::Range;
use wattline_policy::{Can, CoreSet, OperatingPoint, Platform, Wait};
use wattline_units::Span;

/// One change of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a step is copied once for a change of a knob, which takes microseconds; a set holds 4,096 cores"
)]
pub enum Step {
    /// A core goes to a frequency, an index into [`Platform::frequencies`].
    Frequency {
        /// The core.
        core: usize,
        /// The frequency.
        index: usize,
    },
    /// The uncore gets another upper limit, an index into [`Platform::uncore`].
    Uncore {
        /// The limit.
        index: usize,
    },
    /// A core may sleep down to an idle state, an index into [`Platform::idle_states`].
    IdleLimit {
        /// The core.
        core: usize,
        /// The state.
        state: usize,
    },
    /// A core gets another wait mode.
    Wait {
        /// The core.
        core: usize,
        /// The wait mode.
        wait: Wait,
    },
    /// A parked core becomes ready to serve its queues.
    Wake {
        /// The core.
        core: usize,
    },
    /// A core gets another share of the indirection tables, from the next successful
    /// [`Step::Redirect`] on.
    Weight {
        /// The core.
        core: usize,
        /// Its share relative to the others, at least 1.
        weight: u8,
    },
    /// The indirection tables send packets to exactly these cores, by their weights.
    Redirect {
        /// The cores, at least one.
        active: CoreSet,
    },
    /// A core that gets no more packets drains its rings, and then sleeps.
    Park {
        /// The core.
        core: usize,
    },
    /// Interrupts of a queue keep this distance.
    Moderation {
        /// The queue.
        queue: usize,
        /// The distance.
        period: Span,
    },
    /// The driver moderates a queue as it did before the first write.
    ModerationAsFound {
        /// The queue.
        queue: usize,
        /// Distance of its interrupts at that time.
        period: Span,
    },
    /// At most this many packets are taken from a queue at once.
    Batch {
        /// Packets.
        packets: u32,
    },
}

/// Position of a knob on the way to another point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// First if the change adds capacity, last if it removes some.
    Capacity,
    /// After added capacity, before cores wake.
    Setting,
    /// By separate rules ([`crate::step`]).
    Apart,
}

/// Places of a knob. A place is the number of a core or a queue, or 0 for the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    Cores,
    Queues,
    One,
}

/// Selection of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    Adding,
    Taking,
    All,
}

/// Properties of a knob.
pub(super) struct Facts {
    pub knob: Knob,
    pub order: Order,
    pub places: Places,
    /// Returns true if a platform can take such a step.
    pub can: fn(&Can, &Step) -> bool,
    /// Returns the step that sets a place as in a point; `None` if the point has no value for it.
    pub step: fn(&OperatingPoint, usize) -> Option<Step>,
    /// Sets a value that no platform starts with, for tests of platforms; `None` for a knob with
    /// separate tests.
    pub other: Option<fn(&Platform, &mut OperatingPoint)>,
    /// Adds the steps from one point to another for differences in these places.
    pub changes: fn(&Can, &Different, [&OperatingPoint; 2], Selection, &mut Vec<Step>),
}

/// The facts of a knob. A macro, since `changes` needs `can` and `step` inlined into its loop:
/// calls by pointer for each place take several times as long.
macro_rules! knob {
    ($knob:ident, $order:ident of $places:ident, $can:expr, $step:expr, $other:expr) => {
        Facts {
            knob: Knob::$knob,
            order: Order::$order,
            places: Places::$places,
            can: $can,
            step: $step,
            other: $other,
            changes: |can, different, points, selection, steps| {
                different.each(Places::$places, |place| {
                    if let Some(step) = change(points, place, selection, $step)
                        && $can(can, &step)
                    {
                        steps.push(step);
                    }
                });
            },
        }
    };
}

/// By number of the knob, in the order of turning when capacity is added.
pub(super) static KNOBS: [Facts; Knob::ALL.len()] = [
    // A point may leave it to its cores.
    knob!(
        Uncore, Apart of One,
        |can: &Can, _: &Step| can.set_uncore,
        |point, _| Some(Step::Uncore { index: point.uncore? }),
        Some(|_, point| point.uncore = Some(0))
    ),
    knob!(
        Frequency, Capacity of Cores,
        |can: &Can, _: &Step| can.set_frequency,
        |point, core| Some(Step::Frequency { core, index: point.cores.get(core)?.frequency }),
        Some(|_, point| point.set_frequency(0))
    ),
    knob!(
        IdleLimit, Setting of Cores,
        |can: &Can, _: &Step| can.limit_idle,
        |point, core| Some(Step::IdleLimit { core, state: point.cores.get(core)?.idle_limit }),
        Some(|platform, point| {
            point.cores.iter_mut().for_each(|core| core.idle_limit = platform.deepest());
        })
    ),
    // Conformance tries each wait mode separately.
    knob!(
        Wait, Setting of Cores,
        |can: &Can, step: &Step| matches!(*step, Step::Wait { wait, .. } if can.waits.allows(wait)),
        |point, core| Some(Step::Wait { core, wait: point.cores.get(core)?.wait }),
        None
    ),
    knob!(
        Moderation, Setting of Queues,
        |can: &Can, _: &Step| can.set_moderation,
        |point, queue| {
            let period = *point.moderation.get(queue)?;
            let as_found = point.as_found.get(queue).is_some_and(|left| *left);
            Some(if as_found {
                Step::ModerationAsFound { queue, period }
            } else {
                Step::Moderation { queue, period }
            })
        },
        Some(|platform, point| {
            let (shortest, longest) = platform.moderation;
            point.moderation.fill(shortest.max(longest));
        })
    ),
    knob!(
        Batch, Setting of One,
        |can: &Can, _: &Step| can.set_batch,
        |point, _| Some(Step::Batch { packets: point.batch }),
        Some(|_, point| point.batch = 1)
    ),
    // Its steps depend on each other.
    knob!(
        Cores, Apart of One,
        |can: &Can, _: &Step| can.set_cores,
        |_, _| None,
        None
    ),
];

/// Returns the step that changes a place from one point to another, if such changes are selected.
#[inline(always)]
fn change(
    [from, to]: [&OperatingPoint; 2],
    place: usize,
    selection: Selection,
    step: impl Fn(&OperatingPoint, usize) -> Option<Step>,
) -> Option<Step> {
    let (old, new) = (step(from, place)?, step(to, place)?);
    let wanted = match selection {
        _ if old == new => false,
        Selection::Adding => new.exceeds(&old),
        Selection::Taking => !new.exceeds(&old),
        Selection::All => true,
    };
    wanted.then_some(new)
}

/// Ranges of places in which two points differ. Most places are equal, so each is compared once for
/// all knobs.
pub(super) struct Different {
    cores: Range<usize>,
    queues: Range<usize>,
}

impl Different {
    /// Compares two points of one platform.
    pub fn between(from: &OperatingPoint, to: &OperatingPoint) -> Self {
        let same = from.moderation == to.moderation && from.as_found == to.as_found;
        let queues = if same { 0 } else { to.moderation.len() };
        Self { cores: ends(&from.cores, &to.cores), queues: 0..queues }
    }

    /// Visits the places of one kind.
    #[inline(always)]
    fn each(&self, places: Places, visit: impl FnMut(usize)) {
        let places = match places {
            Places::Cores => self.cores.clone(),
            Places::Queues => self.queues.clone(),
            Places::One => 0..1,
        };
        places.for_each(visit);
    }
}

/// Returns the range from the first to the last place at which two lists differ.
fn ends<T: PartialEq>(from: &[T], to: &[T]) -> Range<usize> {
    let differs = |place: &usize| from[*place] != to[*place];
    let mut places = 0..from.len().min(to.len());
    match (places.find(differs), places.rfind(differs)) {
        (Some(first), last) => first..last.unwrap_or(first) + 1,
        (None, _) => 0..0,
    }
}

impl Places {
    /// Counts the places.
    pub fn count(self, platform: &Platform) -> usize {
        match self {
            Self::Cores => platform.cores,
            Self::Queues => platform.queues.len(),
            Self::One => 1,
        }
    }
}

impl Step {
    /// Returns the knob that the step turns.
    pub fn knob(&self) -> Knob {
        match self {
            Self::Frequency { .. } => Knob::Frequency,
            Self::IdleLimit { .. } => Knob::IdleLimit,
            Self::Wait { .. } => Knob::Wait,
            Self::Wake { .. } | Self::Weight { .. } | Self::Redirect { .. } | Self::Park { .. } => {
                Knob::Cores
            }
            Self::Moderation { .. } | Self::ModerationAsFound { .. } => Knob::Moderation,
            Self::Batch { .. } => Knob::Batch,
            Self::Uncore { .. } => Knob::Uncore,
        }
    }

    /// Sets in a point the value that the step sets in a machine. Waking and parking set no value
    /// of a point.
    pub fn set(&self, point: &mut OperatingPoint) {
        match *self {
            Self::Frequency { core, index } => point.cores[core].frequency = index,
            Self::Uncore { index } => point.uncore = Some(index),
            Self::IdleLimit { core, state } => point.cores[core].idle_limit = state,
            Self::Wait { core, wait } => point.cores[core].wait = wait,
            Self::Weight { core, weight } => point.weights[core] = weight,
            Self::Redirect { active } => point.active = active,
            Self::Moderation { queue, period } => {
                (point.moderation[queue], point.as_found[queue]) = (period, false);
            }
            Self::ModerationAsFound { queue, period } => {
                (point.moderation[queue], point.as_found[queue]) = (period, true);
            }
            Self::Batch { packets } => point.batch = packets,
            Self::Wake { .. } | Self::Park { .. } => {}
        }
    }

    /// Returns true if this step leaves more capacity than `old`, a step of the same knob at the
    /// same place. Steps that cannot be compared count as adding capacity.
    #[inline(always)]
    pub(super) fn exceeds(&self, old: &Self) -> bool {
        match (self, old) {
            (Self::Frequency { index, .. }, Self::Frequency { index: old, .. })
            | (Self::Uncore { index }, Self::Uncore { index: old }) => index > old,
            (Self::IdleLimit { state, .. }, Self::IdleLimit { state: old, .. }) => state < old,
            (
                Self::Moderation { period, .. } | Self::ModerationAsFound { period, .. },
                Self::Moderation { period: old, .. } | Self::ModerationAsFound { period: old, .. },
            ) => period < old,
            _ => true,
        }
    }

    /// Returns the step of the same knob at the same place that a point calls for.
    pub(super) fn at(&self, point: &OperatingPoint) -> Option<Self> {
        (KNOBS[self.knob() as usize].step)(point, self.place())
    }

    /// Returns the place, regardless of places that share it.
    pub(super) fn place(&self) -> usize {
        match *self {
            Self::Frequency { core, .. }
            | Self::IdleLimit { core, .. }
            | Self::Wait { core, .. } => core,
            Self::Moderation { queue, .. } | Self::ModerationAsFound { queue, .. } => queue,
            Self::Wake { .. }
            | Self::Weight { .. }
            | Self::Redirect { .. }
            | Self::Park { .. }
            | Self::Batch { .. }
            | Self::Uncore { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_differences_lie_between_the_ends() {
        for (one, other, expected) in [
            (&[1, 2, 3, 4][..], &[1, 2, 3, 4][..], 0..0),
            (&[9, 2, 3, 4], &[1, 2, 3, 4], 0..1),
            (&[1, 9, 3, 9], &[1, 2, 3, 4], 1..4),
            (&[1, 2, 3, 9], &[1, 2, 3, 4], 3..4),
            (&[], &[1], 0..0),
        ] {
            assert_eq!(ends(one, other), expected);
        }
    }

    /// The time may be the same: the driver's adaptive logic differs.
    #[test]
    fn leaving_a_queue_to_its_driver_is_a_separate_step() {
        let period = Span::from_micros(50);
        let platform = Platform {
            cores: 2,
            queues: (0..2).map(|core| wattline_policy::Queue { port: 0, core }).collect(),
            moderation: (Span::ZERO, Span::from_millis(1)),
            moderation_found: Some(period),
            can: Can { set_moderation: true, ..Can::NOTHING },
            ..Platform::BARE
        };
        let mut set = OperatingPoint::full(&platform);
        set.set_moderation(&platform, period);
        let mut left = set.clone();
        left.moderate(&platform, 1, None);
        let of = |from: &OperatingPoint, to: &OperatingPoint| {
            let mut steps = Vec::new();
            crate::step::between(&platform, from, to, &mut steps);
            steps
        };
        let (as_found, fixed) =
            (Step::ModerationAsFound { queue: 1, period }, Step::Moderation { queue: 1, period });
        assert_eq!(of(&set, &left), [as_found]);
        assert_eq!(of(&left, &set), [fixed]);
        for (step, from, to) in [(as_found, &set, &left), (fixed, &left, &set)] {
            let mut point = from.clone();
            step.set(&mut point);
            assert_eq!((&point, step.at(to)), (to, Some(step)));
        }
    }

    #[test]
    fn facts_are_found_by_their_knob() {
        for (number, (facts, knob)) in KNOBS.iter().zip(Knob::ALL).enumerate() {
            assert_eq!((facts.knob, facts.knob as usize), (knob, number));
            assert_eq!(Knob::find(knob.name()), Some(knob));
        }
    }
}
