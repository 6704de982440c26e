//! The loop that makes power follow traffic: observe, decide, act, account.
//!
//! A policy decides ([`wattline_policy`]), [`transition`] carries the machine from one operating
//! point to the next by its [`knob`]s in a safe order ([`step`]) and at its pace ([`pace`]), and a
//! [`machine`] takes the steps: this one (`wattline-host`), or the emulated cores of a server model
//! (`wattline-scale`). [`account`] keeps what comes of it.
//!
//! [`Governor`] has no thread and no clock of its own: whoever brings time and traffic calls
//! [`Governor::trigger`] when the policy wants to be asked ([`Governor::ask`]). Where nobody does,
//! [`runner`] has a thread that does. Nothing here knows of routers, workers or a configuration.
#![forbid(unsafe_code)]

pub mod account;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod decisions;
pub mod energy;
pub mod knob;
pub mod latency;
pub mod ledger;
pub mod machine;
pub mod pace;
pub mod place;
pub mod runner;
pub mod step;
pub mod transition;
pub mod under_way;

#[cfg(test)]
mod tests;

use account::{Capacity, LoopTotals, MachineTotals, Totals};
use decisions::{Decision, Decisions};
use ledger::Ledger;
use machine::{Machine, Taken, View};
use step::Step;
use transition::{Actuator, Transition};
use wattline_policy::{AskAgain, Looks, Observation, OperatingPoint, Platform, Policy, Trigger};
use wattline_units::{Span, Time};

/// As many changes of the operating point are kept to be told.
const DECISIONS_KEPT: usize = 64;

/// A policy in charge of a machine.
pub struct Governor<M> {
    machine: M,
    policy: Box<dyn Policy>,
    view: View,
    /// Where the machine is and goes, and how the policy wants it to run.
    transition: Transition,
    wanted: OperatingPoint,
    /// When the policy wants to be asked.
    wishes: AskAgain,
    totals: LoopTotals,
    /// Of the point that the transition is at.
    capacity: Capacity,
    decisions: Decisions,
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
            capacity: Capacity::of(machine.platform(), &point),
            wanted: point.clone(),
            transition: Transition::new(machine.platform(), point, machine.pace()),
            wishes: AskAgain::NEVER,
            totals: LoopTotals::default(),
            decisions: Decisions::keeping(DECISIONS_KEPT),
            now: Time::ZERO,
            machine,
        }
    }

    /// Asks for the first operating point.
    pub fn start(&mut self, now: Time) {
        self.decide(now, Trigger::Start);
    }

    /// Asks the policy, if it still wants to be asked for this: whoever saw the trigger may
    /// have seen an older answer. Does what was put off up to now. Says whether it did any of
    /// these, so that [`Self::ask`] may have changed.
    pub fn trigger(&mut self, now: Time, trigger: Trigger) -> bool {
        let carried_on = self.carry_on(now);
        let platform = self.machine.platform();
        let wanted = match trigger {
            Trigger::Start => true,
            Trigger::Timer => now >= self.wishes.at,
            Trigger::Fill { queue } => platform
                .queues
                .get(queue)
                .is_some_and(|queue| self.wishes.on_fill.cores.contains(queue.core)),
            Trigger::Batch { queue, .. } => platform
                .queues
                .get(queue)
                .is_some_and(|queue| self.wishes.on_batch.contains(queue.core)),
            Trigger::EmptyPolls { core } => {
                self.wishes.after_empty_polls.is_some() && self.wishes.on_batch.contains(core)
            }
        };
        if wanted {
            self.decide(now, trigger);
        }
        wanted || carried_on
    }

    fn decide(&mut self, now: Time, trigger: Trigger) {
        // Triggers come from several threads, some a little late; time does not go back.
        let now = now.max(self.now);
        self.book(now);
        let looks = self.policy.looks_at();
        self.view.looks = looks;
        self.machine.observe(now, &mut self.view);
        // Statistics that look in between must not take the policy's samples away.
        self.view.looks = Looks::WHOLE.and_counters();
        let observation = Observation {
            platform: self.machine.platform(),
            trigger,
            queues: &self.view.queues,
            cores: &self.view.cores,
            latency: self.view.latency.filter(|_| looks.latency),
            power: self.view.power.filter(|_| looks.power),
            entries: if looks.entries { &self.view.entries } else { &[] },
            offered: None,
        };
        self.wishes = self.policy.decide(now, &observation, &mut self.wanted);
        if self.wishes.at <= now {
            // "At once, but after time has moved on."
            self.wishes.at = now + Span::from_picos(1);
        }
        self.totals.decisions += 1;
        let changed = self.wanted != *self.transition.target();
        if changed || trigger == Trigger::Start {
            let (platform, reason) = (self.machine.platform(), self.policy.reason());
            self.decisions.note(now, trigger, platform, &self.wanted, reason);
        }
        if changed {
            self.apply();
        }
    }

    /// Goes over to the operating point that the policy wants, as far as the machine can.
    fn apply(&mut self) {
        let Self { machine, wanted, transition, now, .. } = self;
        transition.go(*now, &mut MachineActuator(machine), wanted);
        self.capacity = Capacity::of(self.machine.platform(), self.transition.point());
    }

    /// Does what was put off, if its time has come; whether it has.
    fn carry_on(&mut self, now: Time) -> bool {
        if now < self.transition.due() {
            return false;
        }
        let now = now.max(self.now);
        self.book(now);
        self.machine.observe(now, &mut self.view);
        let Self { machine, wanted, transition, .. } = self;
        transition.go_on(now, &mut MachineActuator(machine));
        wanted.copy_from(transition.target());
        self.capacity = Capacity::of(self.machine.platform(), self.transition.point());
        true
    }

    /// Books the integrals over the operating point up to now.
    fn book(&mut self, now: Time) {
        let span = now.since(self.now);
        self.now = self.now.max(now);
        self.totals.book(span, self.capacity);
    }

    /// Looks at the machine.
    pub fn look(&mut self, now: Time) -> &View {
        self.machine.observe(now.max(self.now), &mut self.view);
        &self.view
    }

    /// When the policy wants to be asked next, or steps that were put off are due.
    pub fn ask(&self) -> AskAgain {
        AskAgain { at: self.wishes.at.min(self.transition.due()), ..self.wishes }
    }

    /// How the machine runs.
    pub fn point(&self) -> &OperatingPoint {
        self.transition.point()
    }

    /// How it is to run as soon as its pace allows; the same unless steps were put off.
    pub fn target(&self) -> &OperatingPoint {
        self.transition.target()
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

    /// What a user should know of the policy's decisions.
    pub fn policy_remark(&self) -> Option<String> {
        self.policy.remark()
    }

    /// The last changes of the operating point with their reasons, without the first `seen` ones.
    pub fn decisions(&self, seen: u64) -> Vec<Decision> {
        self.decisions.after(seen, self.machine.platform())
    }

    /// What became of the steps.
    pub fn ledger(&self) -> &Ledger {
        self.transition.ledger()
    }

    /// What the loop itself counted up to `now`.
    pub fn loop_totals(&mut self, now: Time) -> LoopTotals {
        self.book(now);
        let (steps, altered, failed) = self.ledger().sums();
        let changes = self.transition.changes();
        let (core_changes, frequency_changes) = (changes.cores, changes.frequencies);
        let totals = self.totals.clone();
        LoopTotals { steps, altered, failed, core_changes, frequency_changes, ..totals }
    }

    /// Everything that was counted up to now, as the machine shows it.
    pub fn totals(&mut self, now: Time) -> Totals {
        let own = self.loop_totals(now);
        // Once a second, for packets and energy: counters of the kernel would be read for nobody.
        self.view.looks = Looks::WHOLE;
        self.machine.observe(self.now, &mut self.view);
        self.view.looks = Looks::WHOLE.and_counters();
        let entries_moved = self.machine.entries_moved();
        let energy = self.machine.energy(self.now);
        let machine = MachineTotals::of(&self.view, energy, entries_moved);
        Totals { at: self.now, own, machine }
    }
}

/// Lets the transition engine set the knobs of a machine.
struct MachineActuator<'a, M>(&'a mut M);

impl<M: Machine> Actuator for MachineActuator<'_, M> {
    fn platform(&self) -> &Platform {
        self.0.platform()
    }
    fn take(&mut self, _: Time, step: &Step) -> Taken {
        self.0.take(step)
    }
    fn held(&mut self, step: &Step) -> Option<Step> {
        self.0.held(step)
    }
    fn tables_differ(&self) -> bool {
        self.0.tables_differ()
    }
    fn writes(&self, step: &Step) -> u32 {
        self.0.writes(step)
    }
    fn settle(&mut self) {
        self.0.settle();
    }
}
