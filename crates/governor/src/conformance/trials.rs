//! Changes to try, each with its first point and its effect.

use super::effects::{self, GATHER, Judge, NAP};
use crate::knob::{KNOBS, Knob};
use wattline_policy::{CoreSet, OperatingPoint, Platform, Wait};

type Change = Box<dyn Fn(&mut OperatingPoint) + Send>;

/// One change under trial.
pub(super) struct Trial {
    pub promise: &'static str,
    /// True if the platform promises the ability.
    pub promised: bool,
    /// True if the change turns the promised knob itself. Otherwise the promise is a figure, which
    /// the change affects.
    pub knob: bool,
    /// Changes the full point into the first point of the trial.
    pub base: Change,
    pub change: Change,
    pub judge: Judge,
}

impl Trial {
    /// Returns true if batches are requested during the trial.
    pub fn asks_at_batches(&self) -> bool {
        self.promise == Knob::Batch.name()
    }
}

fn as_it_is() -> Change {
    Box::new(|_| {})
}

fn waiting(wait: Wait) -> Change {
    Box::new(move |point| point.set_wait(wait))
}

/// Makes packets wait, if the platform can.
fn gathering(platform: &Platform) -> Change {
    let longest = platform.moderation.1;
    Box::new(move |point| {
        point.set_wait(Wait::Sleep(GATHER));
        point.moderation.fill(longest);
    })
}

/// Returns the trials in order: knobs first.
pub(super) fn trials(platform: &Platform) -> Vec<Trial> {
    let mut trials = knob_trials(platform);
    trials.extend(wait_and_core_trials(platform));
    trials.extend(figure_trials(platform));
    trials
}

fn knob_trials(platform: &Platform) -> Vec<Trial> {
    let full = OperatingPoint::full(platform);
    let trial = |facts: &'static crate::knob::Facts| {
        let other = facts.other?;
        let mut point = full.clone();
        other(platform, &mut point);
        let step = (facts.step)(&point, 0);
        let (base, judge): (Change, Judge) = match facts.knob {
            Knob::Uncore => (as_it_is(), effects::uncore),
            Knob::Frequency => (waiting(Wait::Poll), effects::frequency),
            Knob::IdleLimit => {
                (Box::new(|point| point.active = CoreSet::only(0)), effects::idle_limit)
            }
            Knob::Moderation => (as_it_is(), effects::moderation),
            Knob::Batch => (gathering(platform), effects::batch),
            // Abilities with separate trials, and new ones.
            _ => (as_it_is(), effects::unknown),
        };
        let platform = platform.clone();
        Some(Trial {
            promise: facts.knob.name(),
            promised: step.is_some_and(|step| (facts.can)(&platform.can, &step)),
            knob: true,
            base,
            change: Box::new(move |point| other(&platform, point)),
            judge,
        })
    };
    KNOBS.iter().filter_map(trial).collect()
}

fn wait_and_core_trials(platform: &Platform) -> Vec<Trial> {
    let can = platform.can;
    let wait = |promise, from, to, judge| Trial {
        promise,
        promised: can.waits.allows(to),
        knob: true,
        base: waiting(from),
        change: waiting(to),
        judge,
    };
    let only_one: Change = Box::new(|point| point.active = CoreSet::only(0));
    vec![
        Trial {
            promise: "weights",
            promised: can.set_weights,
            knob: true,
            base: as_it_is(),
            change: Box::new(|point| point.weights[0] = 3),
            judge: effects::weights,
        },
        wait("wait: pause", Wait::Interrupt, Wait::Pause, effects::polls),
        wait("wait: sleep", Wait::Poll, Wait::Sleep(NAP), effects::naps),
        wait("wait: poll", Wait::Interrupt, Wait::Poll, effects::polls),
        wait("wait: interrupt", Wait::Poll, Wait::Interrupt, effects::interrupts),
        Trial {
            promise: "cores",
            promised: can.set_cores,
            knob: true,
            base: waiting(Wait::Poll),
            change: only_one,
            judge: effects::cores,
        },
    ]
}

fn figure_trials(platform: &Platform) -> Vec<Trial> {
    let sees = platform.can.sees;
    let deepest = platform.deepest();
    let figure = |promise, promised, change, judge| Trial {
        promise,
        promised,
        knob: false,
        base: waiting(Wait::Poll),
        change,
        judge,
    };
    let little: Change = Box::new(move |point| {
        point.set_frequency(0);
        point.set_wait(Wait::Interrupt);
        point.set_active(1, 0, deepest);
    });
    let all = [
        figure("latency", sees.latency, gathering(platform), effects::latency),
        figure("late packets", sees.late, gathering(platform), effects::late),
        figure("watts", sees.power, little, effects::watts),
    ];
    // A denied figure is not shown: that needs no trial.
    all.into_iter().filter(|trial| trial.promised).collect()
}
