//! From the present operating point to the wanted one: the one engine that the simulator, the
//! emulated cores and this machine all run.
//!
//! It plans the steps ([`crate::step`]), pays for each ([`crate::pace`]), takes it, and reads back
//! what became of it. Three points are told apart: the *target* is what the policy wants, less
//! what the machine refused, and is what the policy is shown; the *point* is what holds; between
//! them lies what is put off for the pace, or is under way. No time passes in it: it says when it
//! wants to go on ([`Transition::due`]). While nothing fails it allocates nothing once it is warm.

use super::knob::{Knob, Step};
use super::ledger::{LEFT_ALONE, Ledger};
use super::machine::Taken;
use super::pace::{Pace, Purse};
use super::place::{keep, place_of};
use super::step::{MachineState, between_from_state};
use wattline_policy::{CoreSet, OperatingPoint, Platform};
use wattline_units::{Span, Time};

/// What takes the steps.
pub trait Actuator {
    /// What it is.
    fn platform(&self) -> &Platform;

    /// Takes one step.
    fn take(&mut self, now: Time, step: &Step) -> Taken;

    /// What became of a step that took its time ([`Taken::Slow`]) and is done now.
    fn finish(&mut self, _now: Time, _step: &Step) -> Taken {
        Taken::Done
    }

    /// What holds instead, as a step of the same kind, after one that was not simply done;
    /// `None` where that cannot be read.
    fn held(&mut self, _step: &Step) -> Option<Step> {
        None
    }

    /// Whether, after a [`Step::Redirect`] that failed, some indirection tables are as it wanted them
    /// and others are not.
    fn tables_differ(&self) -> bool {
        false
    }

    /// Writes that a step costs of the budget.
    fn writes(&self, _step: &Step) -> u32 {
        1
    }

    /// All steps that can be taken now have been: what was only collected is done.
    fn settle(&mut self) {}
}

/// Carries a machine from one operating point to another.
#[derive(Debug)]
pub struct Transition {
    /// What holds, as far as is known.
    point: OperatingPoint,
    /// What the point leaves open.
    machine_state: MachineState,
    /// The weights that cores were given; those of `point` are of the tables as they are.
    told: Vec<u8>,
    /// Where it goes.
    target: OperatingPoint,
    /// As far as the dwell times let it go now.
    goal: OperatingPoint,
    steps: Vec<Step>,
    /// The step that takes its time, until then.
    slow: Option<(Step, Time)>,
    /// Steps of which the machine made something else, and until when the same is not tried
    /// again: it would make the same of them.
    altered: Vec<(Step, Time)>,
    /// Knobs that have just been turned stay for so long.
    dwelling: Vec<(Knob, usize, Time)>,
    pace: Pace,
    purse: Purse,
    due: Time,
    ledger: Ledger,
    /// The frequencies before, for counting changes.
    before: Vec<usize>,
    changes: Changes,
}

/// Changes of what holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of the set of active cores.
    pub cores: u64,
    /// Of frequencies.
    pub frequencies: u64,
}

/// What became of the cores within one pass over the steps.
#[derive(Default)]
struct Pass {
    /// They did not wake.
    failed: CoreSet,
    /// They are woken later.
    later: CoreSet,
    /// The tables were not rewritten.
    stuck: bool,
    /// They will be later.
    put_off: bool,
}

impl Transition {
    /// Of a machine that runs like this.
    pub fn new(platform: &Platform, point: OperatingPoint, pace: Pace) -> Self {
        Self {
            machine_state: MachineState {
                awake: point.active,
                uncore: point.uncore_limit(platform),
                tables_differ: false,
            },
            told: point.weights.clone(),
            target: point.clone(),
            goal: point.clone(),
            point,
            steps: Vec::new(),
            slow: None,
            altered: Vec::new(),
            dwelling: Vec::new(),
            pace,
            purse: Purse::new(pace.budget),
            due: Time::NEVER,
            ledger: Ledger::default(),
            before: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// How the machine runs.
    pub fn point(&self) -> &OperatingPoint {
        &self.point
    }

    /// Where it goes: what was wanted last, less what was refused.
    pub fn target(&self) -> &OperatingPoint {
        &self.target
    }

    /// When it has to go on ([`Self::go_on`]); [`Time::NEVER`] when nothing is put off.
    pub fn due(&self) -> Time {
        self.due
    }

    /// What became of the steps.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Changes of what holds so far.
    pub fn changes(&self) -> Changes {
        self.changes
    }

    /// Goes to the point that a policy wants, as far as the machine can and its pace allows; in
    /// `wanted` stands then where it goes ([`Self::target`]).
    pub fn go(&mut self, now: Time, hands: &mut impl Actuator, wanted: &mut OperatingPoint) {
        wanted.bound(hands.platform(), &self.target);
        self.target.copy_from(wanted);
        self.go_on(now, hands);
        wanted.copy_from(&self.target);
    }

    /// Does what was put off, as far as it can be done now.
    pub fn go_on(&mut self, now: Time, hands: &mut impl Actuator) {
        let active = self.point.active;
        self.before.clear();
        self.before.extend(self.point.frequencies(hands.platform()));
        if let Some((step, until)) = self.slow {
            if now < until {
                self.due = until;
                return;
            }
            self.slow = None;
            let taken = hands.finish(now, &step);
            self.outcome((now, step, taken), hands, &mut Pass::default());
        }
        self.plan(now, hands.platform());
        self.take_steps(now, hands);
        hands.settle();
        self.changes.cores += u64::from(active != self.point.active);
        let frequencies = self.point.frequencies(hands.platform());
        self.changes.frequencies += u64::from(frequencies.ne(self.before.iter().copied()));
    }

    /// The steps from what holds to the target, less what rests after a failure and what was
    /// turned just now.
    fn plan(&mut self, now: Time, platform: &Platform) {
        let Self { point, machine_state, told, target, goal, steps, dwelling, due, ledger, .. } =
            self;
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
                // What it is to be follows from the cores; it counts as what it is to be.
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
        between_from_state(platform, (point, from, told), goal, steps);
    }

    /// Takes the steps. A core that did not wake gets no packets, and one that still gets some is
    /// not parked.
    fn take_steps(&mut self, now: Time, hands: &mut impl Actuator) {
        let mut pass = Pass::default();
        for index in 0..self.steps.len() {
            let mut step = self.steps[index];
            if let Step::Redirect { active } = &mut step {
                *active = active.without(pass.failed).without(pass.later);
                if !pass.failed.is_empty() {
                    let left = self.target.active.without(pass.failed);
                    self.target.active = if left.is_empty() { self.point.active } else { left };
                }
                let stays = *active == self.point.active && self.goal.weights == self.point.weights;
                if stays && !self.machine_state.tables_differ {
                    continue;
                }
                if active.is_empty() {
                    (pass.stuck, pass.put_off) = (true, !pass.later.is_empty());
                    continue;
                }
            }
            if pass.stuck && self.still_active(&step, pass.put_off) {
                continue;
            }
            if self.altered.iter().any(|(same, until)| now < *until && *same == step) {
                self.give_in(&step, &mut pass);
                continue;
            }
            let adds = self.adds_capacity(&step);
            if let Err(due) = self.purse.pay(now, hands.writes(&step), adds) {
                self.due = self.due.min(due);
                match step {
                    Step::Wake { core } => pass.later.insert(core),
                    Step::Redirect { .. } => (pass.stuck, pass.put_off) = (true, true),
                    _ => {}
                }
                continue;
            }
            let taken = hands.take(now, &step);
            if let Taken::Slow { until } = taken {
                let until = until.max(now + Span::from_picos(1));
                self.slow = Some((step, until));
                // What follows is planned anew then; the policy may want something else.
                self.due = until;
                return;
            }
            self.outcome((now, step, taken), hands, &mut pass);
        }
    }

    /// Whether a step is for a core that was to get no more packets and still gets some: it keeps
    /// its settings for them.
    fn still_active(&mut self, step: &Step, put_off: bool) -> bool {
        match *step {
            Step::Park { core } => self.point.active.contains(core),
            Step::IdleLimit { core, .. } if self.point.active.contains(core) => {
                if !put_off {
                    self.target.cores[core].idle_limit = self.point.cores[core].idle_limit;
                }
                true
            }
            _ => false,
        }
    }

    /// Whether a step adds capacity or takes some away.
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

    /// Notes what became of a step. What holds goes into the point; where it is not what was
    /// wanted, the target gives in.
    fn outcome(
        &mut self,
        (now, step, taken): (Time, Step, Taken),
        hands: &mut impl Actuator,
        pass: &mut Pass,
    ) {
        let altered = matches!(taken, Taken::Altered { .. });
        let held = match taken {
            Taken::Done | Taken::Slow { .. } => Some(step),
            // Where nothing better is known, what the machine made of it passes for it.
            Taken::Altered { .. } => hands.held(&step).or(Some(step)),
            Taken::Foreign { .. } | Taken::Failed { .. } => hands.held(&step),
        };
        let (knob, place) = (Knob::of(&step), place_of(&step, hands.platform()));
        let is_redirect = matches!(step, Step::Redirect { .. });
        let failed = matches!(taken, Taken::Foreign { .. } | Taken::Failed { .. });
        if is_redirect {
            self.machine_state.tables_differ = failed && hands.tables_differ();
        }
        // Packets may reach these cores by some of the tables only.
        let done = held == Some(step) && !(is_redirect && failed);
        // A knob that rounds takes the next value at once; one that fails is left alone.
        self.ledger.note(now, knob, place, taken, done || altered);
        if is_redirect && self.machine_state.tables_differ {
            self.due = self.due.min(self.ledger.rests_until(knob, place));
        }
        if altered && !done {
            self.altered.retain(|(same, until)| now < *until && *same != step);
            self.altered.push((step, now + LEFT_ALONE));
        }
        let turns = match step {
            // With the tables the change is over.
            Step::Wake { .. } | Step::Weight { .. } | Step::Park { .. } => false,
            // With the last of those that share it.
            Step::Frequency { core, .. } => {
                let platform = hands.platform();
                let differs = |other: usize| {
                    let (held, wanted) = (&self.point.cores[other], &self.goal.cores[other]);
                    other != core && held.frequency != wanted.frequency
                };
                !platform.domain.sharers(core, platform.cores).iter().any(differs)
            }
            _ => true,
        };
        let dwell = self.pace.dwell(knob);
        if (done || altered) && turns && dwell > Span::ZERO {
            self.dwelling.push((knob, place, now + dwell));
        }
        if let Some(held) = held {
            self.holds(&held);
        }
        if !done {
            self.give_in(&step, pass);
        }
    }

    /// A step was not done, or something else was made of it: the target becomes what holds.
    fn give_in(&mut self, step: &Step, pass: &mut Pass) {
        let Self { point, target, .. } = self;
        match *step {
            Step::Wake { core } => pass.failed.insert(core),
            Step::Weight { .. } => target.weights.clone_from(&point.weights),
            Step::Redirect { .. } => {
                pass.stuck = true;
                target.active = point.active;
                target.weights.clone_from(&point.weights);
            }
            // An uncore that is left to the cores has no place of its own in the point.
            Step::Uncore { .. } => {
                target.uncore = target.uncore.and(self.machine_state.uncore);
                point.uncore = target.uncore;
            }
            // A core that was not parked gets no packets and is awake: harmless, and `at` has
            // nothing to say of it.
            _ => step.at(point).into_iter().for_each(|held| held.set(target)),
        }
    }

    /// A step holds.
    fn holds(&mut self, step: &Step) {
        let Self { point, machine_state, told, goal, .. } = self;
        match *step {
            Step::Uncore { index } => {
                machine_state.uncore = Some(index);
                point.uncore = goal.uncore;
            }
            Step::Wake { core } => machine_state.awake.insert(core),
            // It counts with the tables that follow.
            Step::Weight { core, weight } => told[core] = weight,
            Step::Redirect { active } => {
                point.active = active;
                point.weights.clone_from(told);
            }
            Step::Park { core } => machine_state.awake.remove(core),
            _ => step.set(point),
        }
    }
}
