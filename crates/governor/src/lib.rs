//! The loop that makes power follow traffic: observe, decide, act, account.
//!
//! A policy decides ([`wattline_policy`]), [`step`] puts the way from one operating point to
//! the next into a safe order, and a [`machine`] takes the steps: this one (`wattline-host`), or the
//! emulated cores of a server model (`wattline-scale`). [`account`] keeps what comes of it.
//!
//! [`Governor`] has no thread and no clock of its own: whoever brings time and traffic calls
//! [`Governor::trigger`] when the policy wants to be asked ([`Governor::ask`]). Where nobody does, [`runner`] has a thread that
//! does. Nothing here knows of routers, workers or a configuration.
#![forbid(unsafe_code)]

pub mod account;
pub mod energy;
pub mod latency;
pub mod ledger;
pub mod machine;
pub mod runner;
pub mod step;

#[cfg(test)]
mod tests;

use account::{LoopTotals, MachineTotals, Totals};
use ledger::{Knob, Ledger, place_of};
use machine::{Machine, Taken, View};
use step::Step;
use wattline_policy::{
    AskAgain, CoreSet, FrequencyDomain, Observation, OperatingPoint, Platform, Policy, Trigger,
};
use wattline_units::{Span, Time};

/// A policy in charge of a machine.
pub struct Governor<M> {
    machine: M,
    policy: Box<dyn Policy>,
    view: View,
    /// How the machine runs, and how the policy wants it to.
    point: OperatingPoint,
    wanted: OperatingPoint,
    ask: AskAgain,
    steps: Vec<Step>,
    ledger: Ledger,
    totals: LoopTotals,
    /// Up to here the integrals over the operating point are booked.
    now: Time,
}

impl<M: Machine> Governor<M> {
    /// Puts a policy in charge; nothing is changed before [`Self::start`].
    pub fn new(mut machine: M, policy: Box<dyn Policy>) -> Self {
        let point = machine.present();
        Self {
            view: View::of(machine.platform()),
            policy,
            wanted: point.clone(),
            point,
            ask: AskAgain::NEVER,
            steps: Vec::new(),
            ledger: Ledger::default(),
            totals: LoopTotals::default(),
            now: Time::ZERO,
            machine,
        }
    }

    /// Asks for the first operating point.
    pub fn start(&mut self, now: Time) {
        self.decide(now, Trigger::Start);
    }

    /// Asks the policy, if it still wants to be asked for this: whoever saw the trigger may
    /// have seen an older answer. Says whether it was asked.
    pub fn trigger(&mut self, now: Time, trigger: Trigger) -> bool {
        let platform = self.machine.platform();
        let wanted = match trigger {
            Trigger::Start => true,
            Trigger::Timer => now >= self.ask.at,
            Trigger::Fill { queue } => platform
                .queues
                .get(queue)
                .is_some_and(|queue| self.ask.on_fill.cores.contains(queue.core)),
            Trigger::Batch { queue, .. } => platform
                .queues
                .get(queue)
                .is_some_and(|queue| self.ask.on_batch.contains(queue.core)),
            Trigger::EmptyPolls { core } => {
                self.ask.after_empty_polls.is_some() && self.ask.on_batch.contains(core)
            }
        };
        if wanted {
            self.decide(now, trigger);
        }
        wanted
    }

    fn decide(&mut self, now: Time, trigger: Trigger) {
        // Triggers come from several threads, some a little late; time does not go back.
        let now = now.max(self.now);
        self.book(now);
        self.machine.observe(now, &mut self.view);
        let observation = Observation {
            platform: self.machine.platform(),
            trigger,
            queues: &self.view.queues,
            cores: &self.view.cores,
            latency: self.view.latency,
            power: None,
            entries: &[],
            offered: None,
        };
        self.ask = self.policy.decide(now, &observation, &mut self.wanted);
        if self.ask.at <= now {
            // "At once, but after time has moved on."
            self.ask.at = now + Span::from_picos(1);
        }
        self.totals.decisions += 1;
        if self.wanted != self.point {
            self.apply();
        }
    }

    /// Goes over to the operating point that the policy wants, as far as the machine can.
    fn apply(&mut self) {
        let Self { machine, wanted, point, steps, ledger, .. } = self;
        wanted.bound(machine.platform(), point);
        for (knob, place) in ledger.left_alone(self.now) {
            keep(knob, place, machine.platform(), wanted, point);
        }
        step::between(machine.platform(), point, wanted, steps);
        self.take_steps();
        self.machine.settle();
        let Self { machine, wanted, point, totals, .. } = self;
        let platform = machine.platform();
        totals.core_changes += u64::from(wanted.active != point.active);
        totals.frequency_changes +=
            u64::from(wanted.frequencies(platform).ne(point.frequencies(platform)));
        point.copy_from(wanted);
    }

    /// Takes the steps, and puts into `wanted` what holds where they were not done. A core that
    /// did not wake gets no packets, and one that still gets some is not parked.
    fn take_steps(&mut self) {
        let Self { machine, wanted, point, steps, ledger, now, .. } = self;
        let mut asleep = CoreSet::EMPTY;
        let mut redirected = true;
        for step in steps.iter() {
            let mut step = *step;
            if let Step::Redirect { active } = &mut step {
                *active = active.without(asleep);
                if active.is_empty() {
                    redirected = false;
                    wanted.active = point.active;
                    continue;
                }
                wanted.active = *active;
            }
            // A core that keeps its packets keeps its settings for them.
            let still_active = |core: usize| !redirected && point.active.contains(core);
            match step {
                Step::Park { core } if still_active(core) => continue,
                Step::IdleLimit { core, .. } if still_active(core) => {
                    wanted.cores[core].idle_limit = point.cores[core].idle_limit;
                    continue;
                }
                _ => {}
            }
            let taken = machine.take(&step);
            let held = match taken {
                Taken::Done => Some(step),
                // Where nothing better is known, what the machine made of it passes for it.
                Taken::Altered { .. } => machine.held(&step).or(Some(step)),
                Taken::Foreign { .. } | Taken::Failed { .. } => machine.held(&step),
            };
            let place = place_of(&step, machine.platform());
            ledger.note(*now, Knob::of(&step), place, taken, held == Some(step));
            if held == Some(step) {
                continue;
            }
            match held.unwrap_or(step) {
                Step::Frequency { core, index } => {
                    let old = point.cores[core].frequency;
                    wanted.cores[core].frequency = if held.is_some() { index } else { old };
                }
                Step::IdleLimit { core, state } => {
                    let old = point.cores[core].idle_limit;
                    wanted.cores[core].idle_limit = if held.is_some() { state } else { old };
                }
                Step::Wait { core, .. } => wanted.cores[core].wait = point.cores[core].wait,
                Step::Wake { core } => asleep.insert(core),
                Step::Redirect { .. } => {
                    redirected = false;
                    wanted.active = point.active;
                }
                // It gets no packets and is awake: harmless.
                Step::Park { .. } => {}
                Step::Moderation { queue, period } => {
                    let old = point.moderation[queue];
                    wanted.moderation[queue] = if held.is_some() { period } else { old };
                }
                Step::Batch { .. } => wanted.batch = point.batch,
            }
        }
    }

    /// Books the integrals over the operating point up to now.
    fn book(&mut self, now: Time) {
        let span = now.since(self.now);
        self.now = self.now.max(now);
        self.totals.book(span, self.machine.platform(), &self.point);
    }

    /// Looks at the machine.
    pub fn look(&mut self, now: Time) -> &View {
        self.machine.observe(now.max(self.now), &mut self.view);
        &self.view
    }

    /// When the policy wants to be asked next.
    pub fn ask(&self) -> &AskAgain {
        &self.ask
    }

    /// How the machine runs.
    pub fn point(&self) -> &OperatingPoint {
        &self.point
    }

    /// What the policy governs.
    pub fn platform(&self) -> &Platform {
        self.machine.platform()
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// The machine, once it is governed no more.
    pub fn into_machine(self) -> M {
        self.machine
    }

    /// The policy's name.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// What became of the steps.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What the loop itself counted up to `now`.
    pub fn loop_totals(&mut self, now: Time) -> LoopTotals {
        self.book(now);
        let (steps, altered, failed) = self.ledger.sums();
        LoopTotals { steps, altered, failed, ..self.totals.clone() }
    }

    /// Everything that was counted up to now, as the machine shows it.
    pub fn totals(&mut self, now: Time) -> Totals {
        let own = self.loop_totals(now);
        self.machine.observe(self.now, &mut self.view);
        let entries_moved = self.machine.entries_moved();
        let energy = self.machine.energy(self.now);
        let machine = MachineTotals::of(&self.view, energy, entries_moved);
        Totals { at: self.now, own, machine }
    }
}

/// Leaves what a knob sets at a place ([`place_of`]) as it is.
fn keep(
    knob: Knob,
    place: usize,
    platform: &Platform,
    wanted: &mut OperatingPoint,
    point: &OperatingPoint,
) {
    let mut cores = wanted.cores.iter_mut().zip(&point.cores);
    match knob {
        Knob::Frequency if platform.domain == FrequencyDomain::Chip => {
            cores.for_each(|(new, old)| new.frequency = old.frequency);
        }
        Knob::Frequency => {
            cores.nth(place).into_iter().for_each(|(new, old)| new.frequency = old.frequency);
        }
        Knob::IdleLimit => {
            cores.nth(place).into_iter().for_each(|(new, old)| new.idle_limit = old.idle_limit);
        }
        Knob::Wait => cores.nth(place).into_iter().for_each(|(new, old)| new.wait = old.wait),
        Knob::Cores => wanted.active = point.active,
        Knob::Moderation => {
            let mut queues = wanted.moderation.iter_mut().zip(&point.moderation);
            queues.nth(place).into_iter().for_each(|(new, old)| *new = *old);
        }
        Knob::Batch => wanted.batch = point.batch,
    }
}
