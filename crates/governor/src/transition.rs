//! The transition engine: from the present operating point to the wanted one. The simulator, the
//! emulation and the host all use it.
//!
//! The engine plans the steps ([`crate::step`]), charges each one to the write budget
//! The engine plans the steps ([`crate::step`]), charges each one to the write budget
//! ([`crate::pace`]), takes it, and reads back the result. It keeps two points. The *target* is the
//! point that the policy requests, less the values that the machine refused; it is shown to the
//! policy. The *point* is the present state of the machine. They differ by the steps that are
//! deferred or still under way.
//!
//! The engine has no clock: each call passes the time, and [`Transition::due`] returns the time of
//! the next call. After the first few decisions it allocates nothing as long as no step fails.

use super::knob::{Knob, Step};
use super::ledger::{LEFT_ALONE, Ledger};
use super::machine::Taken;
use super::pace::{Pace, WriteBudget};
use super::place::{keep, place_of};
use super::step::{MachineState, between_from_state};
use wattline_policy::{CoreSet, OperatingPoint, Platform};
use wattline_units::{Span, Time};

/// Takes the steps.
pub trait Actuator {
    /// Returns the platform whose knobs it sets.
    fn platform(&self) -> &Platform;

    /// Takes one step.
    fn take(&mut self, now: Time, step: &Step) -> Taken;

    /// Returns the result of a slow step ([`Taken::Slow`]) that has ended.
    fn finish(&mut self, _now: Time, _step: &Step) -> Taken {
        Taken::Done
    }

    /// Returns the present setting as a step of the same kind, or `None` if it cannot be read.
    /// Called after a step that was not done as asked.
    fn held(&mut self, _step: &Step) -> Option<Step> {
        None
    }

    /// Returns true if a failed [`Step::Redirect`] changed only some of the indirection tables.
    fn tables_differ(&self) -> bool {
        false
    }

    /// Returns the number of writes that a step takes from the budget.
    fn writes(&self, _step: &Step) -> u32 {
        1
    }

    /// Carries out the steps that [`Self::take`] only collected. Called after the last step that
    /// can be taken now.
    fn settle(&mut self) {}
}

/// Carries a machine from one operating point to another.
#[derive(Debug)]
pub struct Transition {
    /// The present state, as far as it is known.
    point: OperatingPoint,
    /// Present state that an operating point does not contain.
    machine_state: MachineState,
    /// Weights that have been written and take effect with the next redirect. `point` holds the
    /// weights in effect.
    written_weights: Vec<u8>,
    /// The requested point, less the values that the machine refused.
    target: OperatingPoint,
    /// The target as far as the dwell times allow it now.
    goal: OperatingPoint,
    steps: Vec<Step>,
    /// The slow step under way, and when it ends.
    slow: Option<(Step, Time)>,
    /// Steps that the machine altered, and the time before which each is not repeated, since the
    /// machine would alter it in the same way.
    altered: Vec<(Step, Time)>,
    /// Knobs that were just set, their places, and the time before which each is not set again.
    dwelling: Vec<(Knob, usize, Time)>,
    pace: Pace,
    write_budget: WriteBudget,
    due: Time,
    ledger: Ledger,
    /// The frequencies before this call, to count changes.
    before: Vec<usize>,
    changes: Changes,
}

/// Number of changes of the machine's state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Sets of active cores.
    pub cores: u64,
    /// Frequencies.
    pub frequencies: u64,
}

/// Results within one pass over the steps.
#[derive(Default)]
struct Pass {
    /// Cores that did not wake.
    failed: CoreSet,
    /// Cores that are woken later.
    deferred: CoreSet,
    /// The indirection tables were not rewritten.
    tables_kept: bool,
    /// The indirection tables are rewritten later.
    tables_deferred: bool,
}

impl Transition {
    /// Creates a transition engine for a machine that is at `point`.
    pub fn new(platform: &Platform, point: OperatingPoint, pace: Pace) -> Self {
        Self {
            machine_state: MachineState {
                awake: point.active,
                uncore: point.uncore_limit(platform),
                tables_differ: false,
            },
            written_weights: point.weights.clone(),
            target: point.clone(),
            goal: point.clone(),
            point,
            steps: Vec::new(),
            slow: None,
            altered: Vec::new(),
            dwelling: Vec::new(),
            pace,
            write_budget: WriteBudget::new(pace.budget),
            due: Time::NEVER,
            ledger: Ledger::default(),
            before: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// Returns the present state of the machine.
    pub fn point(&self) -> &OperatingPoint {
        &self.point
    }

    /// Returns the last requested point, less the values that the machine refused.
    pub fn target(&self) -> &OperatingPoint {
        &self.target
    }

    /// Returns when to call [`Self::go_on`]; [`Time::NEVER`] if nothing is deferred.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Returns the results of the steps so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the changes of the machine's state so far.
    pub fn changes(&self) -> Changes {
        self.changes
    }

    /// Takes the steps to the point that a policy requests, as far as the machine and its pace
    /// allow. Afterwards `wanted` holds the target ([`Self::target`]).
    pub fn go(&mut self, now: Time, actuator: &mut impl Actuator, wanted: &mut OperatingPoint) {
        wanted.bound(actuator.platform(), &self.target);
        self.target.copy_from(wanted);
        self.go_on(now, actuator);
        wanted.copy_from(&self.target);
    }

    /// Takes the deferred steps that can be taken now.
    pub fn go_on(&mut self, now: Time, actuator: &mut impl Actuator) {
        let active = self.point.active;
        self.before.clear();
        self.before.extend(self.point.frequencies(actuator.platform()));
        if let Some((step, until)) = self.slow {
            if now < until {
                self.due = until;
                return;
            }
            self.slow = None;
            let taken = actuator.finish(now, &step);
            self.record((now, step, taken), actuator, &mut Pass::default());
        }
        self.plan(now, actuator.platform());
        self.take_steps(now, actuator);
        actuator.settle();
        self.changes.cores += u64::from(active != self.point.active);
        let frequencies = self.point.frequencies(actuator.platform());
        self.changes.frequencies += u64::from(frequencies.ne(self.before.iter().copied()));
    }

    /// Plans the steps from the present state to the target. Knobs that rest after a failure or
    /// have just been set are left out.
    fn plan(&mut self, now: Time, platform: &Platform) {
        let Self {
            point,
            machine_state,
            written_weights,
            target,
            goal,
            steps,
            dwelling,
            due,
            ledger,
            ..
        } = self;
        *due = Time::NEVER;
        let mut from = *machine_state;
        for (knob, place) in ledger.left_alone(now) {
            keep((knob, place), platform, target, point);
            match knob {
                Knob::Cores => {
                    from.awake = point.active;
                    if std::mem::take(&mut from.tables_differ) {
                        *due = (*due).min(ledger.rests_until(knob, place));
                    }
                }
                // The wanted limit follows from the cores. With it as the present limit too, no
                // step is planned.
                Knob::Uncore => from.uncore = target.uncore_limit(platform),
                _ => {}
            }
        }
        goal.copy_from(target);
        dwelling.retain(|(_, _, until)| now < *until);
        for (knob, place, until) in dwelling.iter() {
            let kept = match knob {
                Knob::Uncore => {
                    let limit = goal.uncore_limit(platform);
                    std::mem::replace(&mut from.uncore, limit) != limit
                }
                _ => keep((*knob, *place), platform, goal, point),
            };
            if kept {
                *due = (*due).min(*until);
            }
        }
        between_from_state(platform, (point, from, written_weights), goal, steps);
    }

    /// Takes the steps. A core that did not wake gets no packets, and a core that still gets
    /// packets is not parked.
    fn take_steps(&mut self, now: Time, actuator: &mut impl Actuator) {
        let mut pass = Pass::default();
        for index in 0..self.steps.len() {
            let mut step = self.steps[index];
            if let Step::Redirect { active } = &mut step {
                *active = active.without(pass.failed).without(pass.deferred);
                if !pass.failed.is_empty() {
                    let left = self.target.active.without(pass.failed);
                    self.target.active = if left.is_empty() { self.point.active } else { left };
                }
                let stays = *active == self.point.active && self.goal.weights == self.point.weights;
                if stays && !self.machine_state.tables_differ {
                    continue;
                }
                if active.is_empty() {
                    (pass.tables_kept, pass.tables_deferred) = (true, !pass.deferred.is_empty());
                    continue;
                }
            }
            if pass.tables_kept && self.still_active(&step, pass.tables_deferred) {
                continue;
            }
            if self.altered.iter().any(|(same, until)| now < *until && *same == step) {
                self.keep_present(&step, &mut pass);
                continue;
            }
            let adds = self.adds_capacity(&step);
            if let Err(due) = self.write_budget.spend(now, actuator.writes(&step), adds) {
                self.due = self.due.min(due);
                match step {
                    Step::Wake { core } => pass.deferred.insert(core),
                    Step::Redirect { .. } => {
                        (pass.tables_kept, pass.tables_deferred) = (true, true)
                    }
                    _ => {}
                }
                continue;
            }
            let taken = actuator.take(now, &step);
            if let Taken::Slow { until } = taken {
                let until = until.max(now + Span::from_picos(1));
                self.slow = Some((step, until));
                // Later steps are planned again when it ends: the policy may want another point by
                // then.
                self.due = until;
                return;
            }
            self.record((now, step, taken), actuator, &mut pass);
        }
    }

    /// Returns true if a step would park a core or let it sleep deeper, although the core still
    /// gets packets because the tables were not rewritten.
    fn still_active(&mut self, step: &Step, tables_deferred: bool) -> bool {
        match *step {
            Step::Park { core } => self.point.active.contains(core),
            Step::IdleLimit { core, .. } if self.point.active.contains(core) => {
                if !tables_deferred {
                    self.target.cores[core].idle_limit = self.point.cores[core].idle_limit;
                }
                true
            }
            _ => false,
        }
    }

    /// Returns true if a step adds capacity; otherwise it takes some away.
    fn adds_capacity(&self, step: &Step) -> bool {
        let point = &self.point;
        match *step {
            Step::Uncore { index } => self.machine_state.uncore.is_none_or(|limit| index > limit),
            Step::Redirect { active } => {
                active == point.active || !active.without(point.active).is_empty()
            }
            Step::Park { .. } => false,
            _ => step.at(point).is_none_or(|held| step.exceeds(&held)),
        }
    }

    /// Records the result of a step: in the ledger, in the point, and in the target if the machine
    /// did not do as asked.
    fn record(
        &mut self,
        (now, step, taken): (Time, Step, Taken),
        actuator: &mut impl Actuator,
        pass: &mut Pass,
    ) {
        let altered = matches!(taken, Taken::Altered { .. });
        let held = match taken {
            Taken::Done | Taken::Slow { .. } => Some(step),
            // If the present setting cannot be read, the step counts as done.
            Taken::Altered { .. } => actuator.held(&step).or(Some(step)),
            Taken::Foreign { .. } | Taken::Failed { .. } => actuator.held(&step),
        };
        let (knob, place) = (step.knob(), place_of(&step, actuator.platform()));
        let is_redirect = matches!(step, Step::Redirect { .. });
        let failed = matches!(taken, Taken::Foreign { .. } | Taken::Failed { .. });
        if is_redirect {
            self.machine_state.tables_differ = failed && actuator.tables_differ();
        }
        // After a failed redirect the tables may differ from each other, even if together they lead
        // to the wanted cores.
        let done = held == Some(step) && !(is_redirect && failed);
        // A rounding knob may be set again at once; a failing knob rests.
        self.ledger.note(now, knob, place, taken, done || altered);
        if is_redirect && self.machine_state.tables_differ {
            self.due = self.due.min(self.ledger.rests_until(knob, place));
        }
        if altered && !done {
            self.altered.retain(|(same, until)| now < *until && *same != step);
            self.altered.push((step, now + LEFT_ALONE));
        }
        let is_change = match step {
            // These are part of a redirect, which counts as the change.
            Step::Wake { .. } | Step::Weight { .. } | Step::Park { .. } => false,
            // Cores that share a frequency are set one by one; the last one counts as the change.
            Step::Frequency { core, .. } => {
                let platform = actuator.platform();
                let differs = |other: usize| {
                    let (held, wanted) = (&self.point.cores[other], &self.goal.cores[other]);
                    other != core && held.frequency != wanted.frequency
                };
                !platform.domain.sharers(core, platform.cores).iter().any(differs)
            }
            _ => true,
        };
        let dwell = self.pace.dwell(knob);
        if (done || altered) && is_change && dwell > Span::ZERO {
            self.dwelling.push((knob, place, now + dwell));
        }
        if let Some(held) = held {
            self.set_present(&held);
        }
        if !done {
            self.keep_present(&step, pass);
        }
    }

    /// Copies the present setting into the target after a step that was not done as asked.
    fn keep_present(&mut self, step: &Step, pass: &mut Pass) {
        let Self { point, target, .. } = self;
        match *step {
            Step::Wake { core } => pass.failed.insert(core),
            Step::Weight { .. } => target.weights.clone_from(&point.weights),
            Step::Redirect { .. } => {
                pass.tables_kept = true;
                target.active = point.active;
                target.weights.clone_from(&point.weights);
            }
            // A target without a limit stays so: its uncore follows the cores.
            Step::Uncore { .. } => {
                target.uncore = target.uncore.and(self.machine_state.uncore);
                point.uncore = target.uncore;
            }
            // A core that was not parked is awake and gets no packets, which is harmless; `at`
            // returns `None` for it.
            _ => step.at(point).into_iter().for_each(|held| held.set(target)),
        }
    }

    /// Applies a step to the present state.
    fn set_present(&mut self, step: &Step) {
        let Self { point, machine_state, written_weights, goal, .. } = self;
        match *step {
            Step::Uncore { index } => {
                machine_state.uncore = Some(index);
                point.uncore = goal.uncore;
            }
            Step::Wake { core } => machine_state.awake.insert(core),
            // It takes effect with the next redirect.
            Step::Weight { core, weight } => written_weights[core] = weight,
            Step::Redirect { active } => {
                point.active = active;
                point.weights.clone_from(written_weights);
            }
            Step::Park { core } => machine_state.awake.remove(core),
            _ => step.set(point),
        }
    }
}
