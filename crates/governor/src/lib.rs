//! The control loop that makes power follow traffic: observe, decide, act, account.
//!
//! A policy decides ([`wattline_policy`]). [`transition`] carries the machine from one operating
//! point to the next by its [`knob`]s in a safe order ([`step`]) and at its pace ([`pace`]). A
//! [`machine`] takes the steps: this one (`wattline-host`), or the emulated cores of a server model
//! (`wattline-scale`). [`account`] keeps the totals, and [`figures`] the figures for users.
//!
//! [`Governor`] has no thread and no clock: its caller has the time and the traffic, and calls
//! [`Governor::trigger`] when the policy asks to be called ([`Governor::ask`]). [`runner`] is such
//! a caller with its own thread. This crate does not depend on routers, workers or a configuration.
#![forbid(unsafe_code)]
// A daemon writes to its log: printing blocks on a stalled reader and panics without one.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod account;
pub mod conformance;
pub mod control_loop;
pub mod decisions;
pub mod energy;
pub mod figures;
pub mod knob;
pub mod latency;
pub mod lease;
pub mod ledger;
pub mod machine;
pub mod pace;
pub mod place;
mod recent;
pub mod runner;
mod sessions;
pub mod step;
pub mod transition;
pub mod under_way;

#[cfg(test)]
mod tests;

use account::{Capacity, LoopTotals, MachineTotals, Totals};
use control_loop::ControlLoop;
use decisions::Decision;
use lease::Asked;
use ledger::Ledger;
use machine::{Machine, Taken, View};
use step::Step;
use transition::Actuator;
use wattline_policy::{AskAgain, Looks, Observation, OperatingPoint, Platform, Policy, Trigger};
use wattline_status::{Contract, HeldPoint};
use wattline_units::Time;

/// Number of decisions kept for statistics.
const DECISIONS_KEPT: usize = 64;

/// A policy in charge of a machine.
pub struct Governor<M> {
    machine: M,
    control: ControlLoop,
    view: View,
    totals: LoopTotals,
    /// Capacity of the transition's present point.
    capacity: Capacity,
    /// The integrals over the operating point are accounted up to this time.
    now: Time,
}

impl<M: Machine> Governor<M> {
    /// Puts a policy in charge; changes nothing before [`Self::start`].
    pub fn new(mut machine: M, policy: Box<dyn Policy>) -> Self {
        let point = machine.present();
        Self {
            view: View::new(machine.platform()),
            capacity: Capacity::at(machine.platform(), &point),
            control: ControlLoop::new(
                policy,
                machine.platform(),
                point,
                machine.pace(),
                DECISIONS_KEPT,
            ),
            totals: LoopTotals::default(),
            now: Time::ZERO,
            machine,
        }
    }

    /// Asks the policy for the first operating point.
    pub fn start(&mut self, now: Time) {
        self.decide(now, Trigger::Start);
    }

    /// Takes deferred steps that are due, and calls the policy if it still asks for this trigger:
    /// the calling thread may have used an older answer. Returns true if steps were taken or the
    /// policy was called, so that [`Self::ask`] may have changed.
    pub fn trigger(&mut self, now: Time, trigger: Trigger) -> bool {
        let carried_on = self.carry_on(now);
        let (platform, ask_again) = (self.machine.platform(), self.control.ask_again());
        let wanted = match trigger {
            Trigger::Start => true,
            Trigger::Timer => now >= ask_again.at,
            Trigger::Fill { queue } => platform
                .queues
                .get(queue)
                .is_some_and(|queue| ask_again.on_fill.cores.contains(queue.core)),
            Trigger::Batch { queue, .. } => platform
                .queues
                .get(queue)
                .is_some_and(|queue| ask_again.on_batch.contains(queue.core)),
            Trigger::EmptyPolls { core } => {
                ask_again.after_empty_polls.is_some() && ask_again.on_batch.contains(core)
            }
            Trigger::Streak { queue, above } => {
                let queue = platform.queues.get(queue);
                let streaks = &ask_again.on_streak;
                streaks.asks(above) && queue.is_some_and(|it| streaks.cores.contains(it.core))
            }
            Trigger::Silence { core } => {
                ask_again.on_streak.at_silence && ask_again.on_streak.cores.contains(core)
            }
        };
        if wanted {
            self.decide(now, trigger);
        }
        wanted || carried_on
    }

    fn decide(&mut self, now: Time, trigger: Trigger) {
        // Triggers come from several threads, some a little late. Time must not go back.
        let now = now.max(self.now);
        self.book(now);
        let looks = self.control.policy().looks_at();
        self.view.looks = looks;
        self.machine.observe(now, &mut self.view);
        // Observations for statistics in between must not consume the policy's samples.
        self.view.looks = Looks::WHOLE.and_counters();
        let observation = Observation {
            now,
            platform: self.machine.platform(),
            trigger,
            queues: &self.view.queues,
            cores: &self.view.cores,
            latency: self.view.latency.filter(|_| looks.latency),
            power: self.view.power.filter(|_| looks.power),
            entries: if looks.entries { &self.view.entries } else { &[] },
            offered: None,
        };
        if self.control.decide(&observation) {
            self.control.act(now, &mut MachineActuator(&mut self.machine));
            self.capacity = Capacity::at(self.machine.platform(), self.control.point());
        }
        self.machine.watch(self.control.ask_again());
    }

    /// Takes the deferred steps if they are due; returns true if it did.
    fn carry_on(&mut self, now: Time) -> bool {
        if now < self.control.due() {
            return false;
        }
        let now = now.max(self.now);
        self.book(now);
        self.machine.observe(now, &mut self.view);
        self.control.carry_on(now, &mut MachineActuator(&mut self.machine));
        self.capacity = Capacity::at(self.machine.platform(), self.control.point());
        true
    }

    /// Accounts the integrals over the operating point up to `now`.
    fn book(&mut self, now: Time) {
        let span = now.since(self.now);
        self.now = self.now.max(now);
        self.totals.book(span, self.capacity);
    }

    /// Observes the machine.
    pub fn look(&mut self, now: Time) -> &View {
        self.machine.observe(now.max(self.now), &mut self.view);
        &self.view
    }

    /// Lets a client hold an operating point in place of the policy, which restarts when the lease
    /// has ended. Returns the point that the machine took; none after a release.
    ///
    /// # Errors
    /// Fails when another client holds a point, or when the machine has no such point.
    pub fn lease(&mut self, now: Time, asked: &Asked) -> Result<Option<HeldPoint>, String> {
        let now = now.max(self.now);
        let wanted = match asked {
            Asked::Hold(wanted) => wanted,
            Asked::Release(owner) => {
                self.control.release(now, owner)?;
                self.decide(now, Trigger::Timer);
                return Ok(None);
            }
        };
        self.control.hold(now, wanted, self.machine.platform())?;
        self.decide(now, Trigger::Timer);
        let (point, platform) = (self.control.point(), self.machine.platform());
        let active =
            point.frequencies(platform).zip(0..).filter(|(_, core)| point.active.contains(*core));
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |it| it.0);
        Ok(Some(HeldPoint {
            contract: Contract::default(),
            owner: wanted.owner.clone(),
            cores_active: point.active.len(),
            frequency_hertz: active.map(|(index, _)| hertz(index)).collect(),
            lease_seconds: wanted.lease.as_seconds(),
            under_way: point != self.control.target(),
            cores: platform.cores,
            can_set_cores: platform.can.set_cores,
            frequencies_hertz: platform.frequencies.iter().map(|it| it.0).collect(),
        }))
    }

    /// Returns the next events at which the policy asks to be called, or deferred steps are due.
    pub fn ask(&self) -> AskAgain {
        let ask_again = *self.control.ask_again();
        AskAgain { at: ask_again.at.min(self.control.due()), ..ask_again }
    }

    /// Returns the present operating point.
    pub fn point(&self) -> &OperatingPoint {
        self.control.point()
    }

    /// Returns the operating point that the machine will have as soon as its pace allows; equal to
    /// [`Self::point`] unless steps are deferred.
    pub fn target(&self) -> &OperatingPoint {
        self.control.target()
    }

    /// Returns the platform that the policy governs.
    pub fn platform(&self) -> &Platform {
        self.machine.platform()
    }

    /// Returns the machine.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Ends the governor and returns the machine.
    pub fn into_machine(self) -> M {
        self.machine
    }

    /// Returns the policy's remark for the user about its decisions.
    pub fn policy_remark(&self) -> Option<String> {
        self.control.policy().remark()
    }

    /// Returns the last decisions that changed the operating point, with their reasons, without the
    /// first `seen` of the run.
    pub fn decisions(&self, seen: u64) -> Vec<Decision> {
        self.control.changes(seen, self.machine.platform())
    }

    /// Returns the results of the steps.
    pub fn ledger(&self) -> &Ledger {
        self.control.ledger()
    }

    /// Returns the totals of the loop itself up to `now`.
    pub fn loop_totals(&mut self, now: Time) -> LoopTotals {
        self.book(now);
        let (steps, altered, failed) = self.ledger().sums();
        let changes = self.control.state_changes();
        let (core_changes, frequency_changes) = (changes.cores, changes.frequencies);
        let (decisions, totals) = (self.control.count(), self.totals.clone());
        LoopTotals { decisions, steps, altered, failed, core_changes, frequency_changes, ..totals }
    }

    /// Returns the totals of the loop and of the machine up to `now`.
    pub fn totals(&mut self, now: Time) -> Totals {
        let own = self.loop_totals(now);
        // Called once a second, for packets and energy only, so the kernel's counters are not read.
        self.view.looks = Looks::WHOLE;
        self.machine.observe(self.now, &mut self.view);
        self.view.looks = Looks::WHOLE.and_counters();
        let entries_moved = self.machine.entries_moved();
        let energy = self.machine.energy(self.now);
        let machine = MachineTotals::from_view(&self.view, energy, entries_moved);
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
